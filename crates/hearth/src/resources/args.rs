//! Arguments of `hearth resources` and `hearth monitor`.

use clap::Args;
use std::path::PathBuf;
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

    /// Folder of QMP sockets to ask, one for each VM: VM.qmp or VM.sock
    ///
    /// QEMU makes one with `-qmp unix:DIR/VM.qmp,server=on,wait=off`. It serves one client at a time, so nobody else may use it.
    #[arg(
        long,
        value_name = "DIR",
        env = "HEARTH_MONITOR_QMP",
        hide_env_values = true
    )]
    pub qmp: Option<PathBuf>,

    /// Ask libvirt about its VMs, with `virsh -r -c URI domstats`
    #[arg(
        long,
        value_name = "URI",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "qemu:///system",
        env = "HEARTH_MONITOR_LIBVIRT",
        hide_env_values = true
    )]
    pub libvirt: Option<String>,
}
