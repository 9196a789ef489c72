//! Arguments of `hearth support`.

use clap::{Args, Subcommand, ValueHint};
use configuration::CONFIG_DEFAULT;
use std::path::PathBuf;

/// What helps those who help.
#[derive(Debug, Subcommand)]
pub enum Support {
    /// Collect what is known of the daemon and its host in a file, without secrets
    ///
    /// Version, configuration, state, disks, VMs, events, metrics, the unit's journal, kernel, mounts, disks' health. Works whether the daemon
    /// answers, hangs or is stopped; what is left out is said, with the reason. Keys, passwords, tokens, pre-shared keys and
    /// user names in addresses are replaced by ***. Names of VMs and disks and addresses of hosts are in it: look through it before you give it away.
    Bundle(Bundle),
}

/// Arguments of `support bundle`.
#[derive(Debug, Args)]
pub struct Bundle {
    /// The file, where there is none yet: .tar, or .tar.zst to pack it; in this folder with host and time in its name if not given
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: Option<PathBuf>,
    /// Only list what would be in it
    #[arg(long, conflicts_with = "file")]
    pub list: bool,
    /// The configuration file
    #[arg(long, value_name = "FILE", default_value = CONFIG_DEFAULT, value_hint = ValueHint::FilePath)]
    pub config: PathBuf,
}
