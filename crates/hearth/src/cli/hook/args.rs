//! Arguments of `hearth hook`.

use clap::{Args, Subcommand, ValueHint};
use std::path::PathBuf;

/// Attach and detach the disks of adopted VMs as these start and end, for libvirt's hook.
#[derive(Debug, Subcommand)]
pub enum Hook {
    /// Attach the disks of an adopted VM before it starts
    ///
    /// Refused, so that libvirt does not start the VM, if a disk cannot be served and its storage may lack bytes. While the daemon is
    /// down a disk on a file is served from the file alone, if nothing waits for it on the flash.
    Prepare(HookOf),
    /// Detach the disks that `prepare` attached, after their VM has ended
    ///
    /// A disk with bytes that wait for its storage stays attached.
    Release(HookOf),
}

/// Which VM.
#[derive(Debug, Args)]
pub struct HookOf {
    /// The VM's XML, as libvirt gives it to its hook: a file, or `-` for standard input
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub domain: PathBuf,
    /// The daemon's configuration, by which it is known whether bytes wait while the daemon is down;
    /// /etc/hearth/hearth.toml if that is there
    #[arg(long, value_name = "FILE", env = "HEARTH_CONFIG", hide_env_values = true, value_hint = ValueHint::FilePath)]
    pub config: Option<PathBuf>,
}
