//! Arguments of `hearth sim fleet`.

use clap::{Args, ValueEnum, ValueHint};
use simulator::fleet::{Demanded, Faults, Rule, Settings};
use std::path::PathBuf;
use trace::{CsvColumns, Format};
use units::Duration;

/// Arguments of `sim fleet`.
#[derive(Debug, Args)]
pub struct Fleet {
    /// Who plans, separated by commas; each runs through the same demand
    #[arg(
        long,
        value_name = "RULE,...",
        value_delimiter = ',',
        default_value = "none,paper,hearth,gain"
    )]
    pub rule: Vec<RuleWord>,
    /// Hosts, with 400 GiB of flash each
    #[arg(long, value_name = "COUNT", default_value_t = 500)]
    pub hosts: usize,
    /// VMs of each host
    #[arg(long, value_name = "COUNT", default_value_t = 20)]
    pub vms: usize,
    /// Windows of two hours: 84 are a week
    #[arg(long, value_name = "COUNT", default_value_t = 84)]
    pub windows: usize,
    /// What decides demand and faults
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub seed: u64,
    /// Take demand from these traces instead of generating it: each VM is dealt one by the seed, shifted in time and
    /// scaled in size, and the fleet needs as much on average as the generated one
    #[arg(help_heading = "Demand of traces", long, value_name = "TRACE", num_args = 1.., value_hint = ValueHint::FilePath)]
    pub demand_from: Vec<PathBuf>,
    /// How much of a trace is a window of the fleet. A trace has at least six of them
    #[arg(
        help_heading = "Demand of traces",
        long,
        value_name = "TIME",
        default_value = "2h",
        requires = "demand_from"
    )]
    pub demand_window: Duration,
    /// The traces' format, if it is not to be recognised
    #[arg(
        help_heading = "Demand of traces",
        long,
        value_name = "FORMAT",
        requires = "demand_from"
    )]
    pub format: Option<Format>,
    /// The columns of a csv, as libCacheSim's: time-col=1,obj-id-col=2,obj-size-col=3,op-col=4
    #[arg(
        help_heading = "Demand of traces",
        long,
        value_name = "COLUMNS",
        requires = "demand_from"
    )]
    pub columns: Option<CsvColumns>,
    /// What fails
    #[arg(long, value_name = "WHICH", default_value = "usual")]
    pub faults: FaultsWord,
    /// Instead of a fleet, the experiment of a paper, with the paper's figures beside it
    #[arg(long, value_name = "PAPER", conflicts_with_all = ["rule", "hosts", "vms", "windows", "faults", "csv", "report"])]
    pub paper: Option<Paper>,
    /// Write each window of each rule as csv
    #[arg(help_heading = "Results", long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub csv: Option<PathBuf>,
    /// Write a report: one page of HTML with figures, which needs no network
    #[arg(help_heading = "Results", long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub report: Option<PathBuf>,
}

/// A rule on a command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RuleWord {
    /// VMs stay where they are
    None,
    /// `CloudCache`'s rule as printed, section 6
    Paper,
    /// Ours, by the variance of the loads
    Hearth,
    /// Ours, by the latency that a move saves
    Gain,
}

/// What fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FaultsWord {
    /// Nothing
    None,
    /// Hosts are lost, migrations abort, hosts publish too little, planners and the store go away
    Usual,
}

/// A paper whose experiment is simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Paper {
    /// `CloudCache`, section 6: twelve VMs and three, ten days
    #[value(name = "cloudcache")]
    CloudCache,
}

impl RuleWord {
    const fn rule(self) -> Rule {
        match self {
            Self::None => Rule::None,
            Self::Paper => Rule::Paper,
            Self::Hearth => Rule::Hearth,
            Self::Gain => Rule::Gain,
        }
    }
}

impl Fleet {
    /// A run for each rule.
    pub(super) fn runs(&self, demanded: &Demanded) -> Vec<Settings> {
        let of_rule = |word: &RuleWord| Settings {
            hosts: self.hosts,
            vms: self.vms,
            windows: self.windows,
            seed: self.seed,
            demand: demanded.clone(),
            rule: word.rule(),
            faults: match self.faults {
                FaultsWord::None => Faults::NONE,
                FaultsWord::Usual => Faults::USUAL,
            },
        };
        self.rule.iter().map(of_rule).collect()
    }
}
