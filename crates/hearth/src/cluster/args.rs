//! Arguments of `hearth cluster`.

use crate::plan::args::RuleArgs;
use clap::{Args, Subcommand, ValueEnum};
use placement::Mode;

/// Arguments of `cluster`.
#[derive(Debug, Args)]
pub struct Cluster {
    /// What is asked.
    #[command(subcommand)]
    pub what: What,
}

/// What is asked of a cluster.
#[derive(Debug, Subcommand)]
pub enum What {
    /// Show the hosts that are heard of, and which of them has which disk
    ///
    /// Any host shows all of them, as they are in the store of `[store]`. While the store is away, they are shown as they were
    /// seen last, with their age. A host that is not heard of has its disks all the same.
    Status,
    /// Show what holds for all hosts: what becomes of plans, their rules, limits on moves, VMs that stay
    Settings,
    /// Change what holds for all hosts
    ///
    /// What is not given stays as it is. Any host takes the command.
    Set(Box<Set>),
}

/// Arguments of `cluster set`.
#[derive(Debug, Args)]
pub struct Set {
    /// What becomes of plans
    #[arg(long, value_name = "MODE")]
    pub mode: Option<ModeWord>,
    /// VMs that one host sends at a time, whoever moves them
    #[arg(long, value_name = "COUNT")]
    pub send_max: Option<usize>,
    /// VMs that one host takes at a time
    #[arg(long, value_name = "COUNT")]
    pub take_max: Option<usize>,
    /// Moves of the whole cluster at a time
    #[arg(long, value_name = "COUNT")]
    pub moves_max: Option<usize>,
    /// A VM that stays where it is; may be given more than once
    #[arg(long, value_name = "VM")]
    pub pin: Vec<String>,
    /// A VM that may be moved again; may be given more than once
    #[arg(long, value_name = "VM")]
    pub unpin: Vec<String>,
    /// Plan by Hearth's rules as they are, with the options below over them
    #[arg(long)]
    pub reset_rules: bool,
    /// By which rules plans are made; all rules anew if one is given
    #[command(flatten, next_help_heading = "Rules")]
    pub rules: RuleArgs,
}

/// What becomes of plans, on a command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ModeWord {
    /// Nothing is planned
    Off,
    /// Missing flash is told of, and `hearth plan --dry-run` says what could be done
    Advise,
    /// An operator approves each move
    Approve,
    /// Moves begin as they are planned
    Auto,
}

impl From<ModeWord> for Mode {
    fn from(word: ModeWord) -> Self {
        match word {
            ModeWord::Off => Self::Off,
            ModeWord::Advise => Self::Advise,
            ModeWord::Approve => Self::Approve,
            ModeWord::Auto => Self::Auto,
        }
    }
}
