//! Arguments of `hearth cluster`.

use clap::{Args, Subcommand};

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
}
