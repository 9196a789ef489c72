//! Arguments of `hearth resources` and `hearth monitor`.

use clap::Args;
use units::Duration;

/// Arguments of `resources`.
#[derive(Debug, Args)]
pub struct Resources {
    /// How many of the last samples, at most 720
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u16).range(1..=720))]
    pub samples: u16,
}

/// Arguments of `monitor`.
#[derive(Debug, Args)]
pub struct Monitor {
    /// Time between two readings
    #[arg(
        long,
        value_name = "TIME",
        default_value = "10s",
        env = "HEARTH_MONITOR_EVERY",
        hide_env_values = true
    )]
    pub every: Duration,
}
