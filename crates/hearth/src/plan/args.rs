//! Arguments of `hearth plan`.

use super::rules::{self, Base};
use crate::terminal::exit::{CliError, Exit};
use clap::{Args, ValueEnum, ValueHint};
use placement::{Objective, Rules, RulesFile};
use std::path::PathBuf;
use units::Duration;

/// Arguments of `plan`.
#[derive(Debug, Args)]
pub struct Plan {
    /// Plan, and change nothing
    #[arg(long, required = true)]
    pub dry_run: bool,
    /// The loads of all hosts: a JSON file; without it those that the hosts of the daemon's cluster say
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub loads: Option<PathBuf>,
    /// Which rules, if not those of a file and the options below
    #[command(flatten, next_help_heading = "Rules")]
    pub rules: RuleArgs,
}

/// Rules on a command line.
#[derive(Debug, Args)]
pub struct RuleArgs {
    /// A TOML file of rules, whose keys are called as the options are; options hold over it
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub rules: Option<PathBuf>,
    /// What the rules begin with: hearth, or paper, which is `CloudCache`'s rule as printed
    #[arg(long, value_name = "RULES")]
    pub base: Option<Base>,
    /// Which move is the best
    #[arg(long, value_name = "OBJECTIVE")]
    pub objective: Option<ObjectiveWord>,
    /// For how many windows in a row a host is above its bound before it is planned for
    #[arg(long, value_name = "COUNT")]
    pub windows: Option<usize>,
    /// By what part a target's load stays below its bound
    #[arg(long, value_name = "PART")]
    pub margin: Option<f64>,
    /// How long a window is
    #[arg(long, value_name = "TIME")]
    pub window: Option<Duration>,
    /// For how many windows a VM stays after a move
    #[arg(long, value_name = "COUNT")]
    pub rest_windows: Option<u64>,
    /// VMs that a host takes at a time
    #[arg(long, value_name = "COUNT")]
    pub arrivals: Option<usize>,
    /// VMs that a host sends at a time
    #[arg(long, value_name = "COUNT")]
    pub outbound: Option<usize>,
    /// Moves of the cluster at a time
    #[arg(long, value_name = "COUNT")]
    pub cluster: Option<usize>,
    /// By what factor a move's gain exceeds its cost
    #[arg(long, value_name = "FACTOR")]
    pub worth: Option<f64>,
    /// Over which time a move gains
    #[arg(long, value_name = "TIME")]
    pub horizon: Option<Duration>,
}

/// An objective on a command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ObjectiveWord {
    /// The least variance of load across hosts
    Variance,
    /// The most latency saved, less what the move costs
    Gain,
}

impl From<ObjectiveWord> for Objective {
    fn from(word: ObjectiveWord) -> Self {
        match word {
            ObjectiveWord::Variance => Self::Variance,
            ObjectiveWord::Gain => Self::Gain,
        }
    }
}

impl Plan {
    /// The rules: those of the file, with the options over them.
    pub(super) fn rules(&self) -> Result<Rules, CliError> {
        self.rules.rules()
    }
}

impl RuleArgs {
    /// What the file and the options say.
    pub(crate) fn written(&self) -> Result<RulesFile, CliError> {
        let file = match &self.rules {
            Some(path) => rules::read(path)?,
            None => RulesFile::default(),
        };
        Ok(RulesFile {
            base: self.base.map(placement::Base::from).or(file.base),
            objective: self.objective.map(Objective::from).or(file.objective),
            windows: self.windows.or(file.windows),
            margin: self.margin.or(file.margin),
            window: self.window.map(|time| time.to_string()).or(file.window),
            rest_windows: self.rest_windows.or(file.rest_windows),
            arrivals: self.arrivals.or(file.arrivals),
            outbound: self.outbound.or(file.outbound),
            cluster: self.cluster.or(file.cluster),
            worth: self.worth.or(file.worth),
            horizon: self.horizon.map(|time| time.to_string()).or(file.horizon),
        })
    }

    fn rules(&self) -> Result<Rules, CliError> {
        let rules = self.written()?.rules();
        rules.map_err(|error| CliError::of(Exit::Usage, &error))
    }
}
