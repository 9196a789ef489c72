//! `[hypervisor]`: who migrates this host's VMs when the cluster moves one.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Who migrates VMs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MigrateWith {
    /// Nobody: no VM is moved from this host.
    #[default]
    Off,
    /// libvirt, by its program.
    Virsh,
    /// QEMU's monitor.
    Qmp,
    /// A program of the operator's.
    Hook,
}

/// `[hypervisor]`: who migrates this host's VMs. In texts `{vm}` stands for the VM, `{host}` for the host that it goes to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HypervisorConfig {
    /// Who it is.
    pub migrate_with: MigrateWith,
    /// libvirt at this host.
    pub connect: String,
    /// libvirt at the host that a VM goes to, as this host reaches it.
    pub destination: String,
    /// Options of `virsh migrate`.
    pub options: Vec<String>,
    /// The socket of a VM's monitor.
    pub socket: String,
    /// Where the QEMU that waits for a VM listens.
    pub incoming: String,
    /// The operator's program.
    pub hook: Option<PathBuf>,
}

impl Default for HypervisorConfig {
    fn default() -> Self {
        Self {
            migrate_with: MigrateWith::Off,
            connect: "qemu:///system".to_owned(),
            destination: "qemu+ssh://{host}/system".to_owned(),
            options: vec!["--live".to_owned(), "--p2p".to_owned()],
            socket: "/run/qemu/{vm}.qmp".to_owned(),
            incoming: "tcp:{host}:49152".to_owned(),
            hook: None,
        }
    }
}
