//! Arguments of `hearth sim` that say how a cache is divided among VMs, and what may be written to it.

use clap::{Args, ValueEnum};
use policy::admission::budget::Rate;
use policy::allocation;
use policy::demand::{Reuses, WindowSettings, Windows};
use policy::prediction;
use policy::replacement::{Fraction, split_list};
use simulator::{Admission, Host, HostSettings, Measure, Spare, Staging, Window};
use units::Duration;

/// How a cache is divided among VMs.
#[derive(Debug, Args)]
#[command(next_help_heading = "Division among VMs")]
pub struct HostArgs {
    /// Divide the cache among the VMs of the trace, and base images, separated by commas: equal, static,
    /// wss, rwss, recs, rcrs, rcrs-plus, utility. Each with each policy, which are lru (a list for each
    /// VM) and the daemon's log
    #[arg(long, value_name = "ALLOCATION,...", value_parser = allocations)]
    pub allocation: Option<Allocations>,
    /// Over how long demand is measured: a time, or auto for the knee of each VM's hits by window length
    #[arg(long, value_name = "TIME", default_value = "5min", value_parser = window)]
    pub window: WindowArg,
    /// How the next window's demand is predicted: last, exp, dexp, exp-self, dexp-self
    #[arg(long, value_name = "METHOD", default_value_t)]
    pub prediction: prediction::Spec,
    /// How often a block must have been used again to count as demand, 0 to 3
    #[arg(long, value_name = "N", default_value = "1", value_parser = reuses)]
    pub reuses: Reuses,
    /// How demand is measured
    #[arg(long, value_enum, default_value_t = Demand::Exact)]
    pub demand: Demand,
    /// What happens to flash that a VM's share gives it and that it does not use
    #[arg(long, value_enum, default_value_t = SpareArg::Lent)]
    pub spare: SpareArg,
    /// A share moves only if it does by this part of itself, 0 to 1
    #[arg(long, value_name = "PART", default_value = "0.05", value_parser = part)]
    pub hysteresis: Fraction,
    /// Let in what is read as long as nothing ever had to leave the flash, as the daemon does: half of each share, and more where blocks are read again
    #[arg(long)]
    pub fill: bool,
    /// What flash may be written: 100GiB/day, 20MiB/s, or drive writes a day (0.5DWPD)
    #[arg(long, value_name = "RATE")]
    pub budget: Option<Rate>,
}

/// How demand is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Demand {
    /// Of every block
    Exact,
    /// From a sample, as the daemon does
    Sampled,
}

/// What happens to flash that a VM's share gives it and that it does not use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SpareArg {
    /// Others use it until a VM below its share needs room
    Lent,
    /// It stays idle
    Idle,
    /// It stays idle, and a share that shrinks drops the excess at once
    Strict,
}

/// The allocators of a command line.
#[derive(Clone, Debug)]
pub struct Allocations(pub Vec<allocation::Spec>);

fn allocations(text: &str) -> Result<Allocations, policy::replacement::SpecError> {
    let parts = split_list(text);
    let parsed = parts.iter().map(|part| part.parse());
    parsed.collect::<Result<_, _>>().map(Allocations)
}

/// A window's length, or how it is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowArg {
    /// At the knee.
    Auto,
    /// That long.
    Fixed(Duration),
}

fn window(text: &str) -> Result<WindowArg, String> {
    if text == "auto" {
        return Ok(WindowArg::Auto);
    }
    let length: Duration = text
        .parse()
        .map_err(|_| "write a time such as 10min, or auto")?;
    Windows::new(&[length]).map_err(|error| error.to_string())?;
    Ok(WindowArg::Fixed(length))
}

fn reuses(text: &str) -> Result<Reuses, String> {
    let number = text.parse().map_err(|_| "write a number from 0 to 3")?;
    Reuses::new(number).map_err(|error| error.to_string())
}

fn part(text: &str) -> Result<Fraction, &'static str> {
    Fraction::parse(text, Fraction::ZERO, Fraction::ONE)
        .map_err(|_| "write a part such as 0.05, from 0 to 1")
}

impl HostArgs {
    /// What stands in front of a policy.
    pub(super) fn host(
        &self,
        allocation: Option<&allocation::Spec>,
        admission: &Admission,
        staging: Staging,
        seed: u64,
    ) -> Host {
        let settings = HostSettings {
            fill: self.fill,
            spare: match self.spare {
                SpareArg::Lent => Spare::Lent,
                SpareArg::Idle => Spare::Idle,
                SpareArg::Strict => Spare::Strict,
            },
            reuses: self.reuses,
            measure: match self.demand {
                Demand::Exact => Measure::Exact,
                Demand::Sampled => HostSettings::default().measure,
            },
            window: match self.window {
                WindowArg::Fixed(length) => Window::Fixed(length),
                WindowArg::Auto => Window::Knee {
                    lengths: Windows::ladder(),
                    settings: WindowSettings::default(),
                },
            },
            prediction: self.prediction.clone(),
            hysteresis: self.hysteresis,
            seed: seed.max(1),
            ..HostSettings::default()
        };
        Host {
            settings,
            allocation: allocation.cloned(),
            admission: admission.clone(),
            staging,
            budget: self.budget,
        }
    }
}
