//! Arguments of `hearth top`.

use clap::{Args, ValueEnum};
use units::Duration;

/// Arguments of `top`.
#[derive(Debug, Args)]
pub struct Top {
    /// Time between two looks
    #[arg(long, value_name = "TIME", default_value = "1s")]
    pub interval: Duration,
    /// The column to sort by
    #[arg(long, value_name = "COLUMN", default_value_t = SortBy::Iops)]
    pub sort: SortBy,
    /// Show VMs and base images instead of disks
    #[arg(long)]
    pub vms: bool,
    /// Print one interval as text and end; so does --json, as JSON
    #[arg(long)]
    pub once: bool,
}

/// Columns of `hearth top` to sort by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SortBy {
    /// The disk's name
    Disk,
    /// Requests a second
    Iops,
    /// Bytes read and written a second
    Bytes,
    /// Share of read blocks that came from flash
    Hit,
    /// 99th percentile of the guest's latency
    P99,
    /// Bytes written to flash a second
    Flash,
    /// Bytes read from the origin a second
    Origin,
    /// Bytes that the origin lacks
    Dirty,
}

impl std::fmt::Display for SortBy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Disk => "disk",
            Self::Iops => "iops",
            Self::Bytes => "bytes",
            Self::Hit => "hit",
            Self::P99 => "p99",
            Self::Flash => "flash",
            Self::Origin => "origin",
            Self::Dirty => "dirty",
        })
    }
}
