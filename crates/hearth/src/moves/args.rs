//! Arguments of `hearth move`.

use clap::{Args, Subcommand};
use configuration::Name;

/// Look at moves of the cluster's VMs, and have them begun and ended.
#[derive(Debug, Subcommand)]
pub enum Move {
    /// List each VM's last move, with what becomes of plans
    List,
    /// Show a VM's last move: how far it is, who drives it, what its hosts say, what was planned and found
    Show(Vm),
    /// Move a VM to another host now
    ///
    /// Its disks are prepared there, the hypervisor of its host migrates it, and its cache follows. Any host of the cluster
    /// takes the command. The move waits for its turn: hearth cluster settings says how many there are at a time.
    Start(Start),
    /// Approve a planned move, in the mode approve
    Approve(Vm),
    /// Cancel a move: the VM stays where it is
    ///
    /// Refused once the other host has the VM's disks.
    Cancel(Vm),
    /// Clear a move that has failed, so that its VM is planned with again
    ///
    /// Look first: hearth move show says why, and hearth migrate show, at both hosts, who has the disks.
    Clear(Vm),
}

/// A VM.
#[derive(Debug, Args)]
pub struct Vm {
    /// The VM
    pub vm: Name,
}

/// Arguments of `move start`.
#[derive(Debug, Args)]
pub struct Start {
    /// The VM
    pub vm: Name,
    /// The host that it goes to, by its name in the cluster
    #[arg(long, value_name = "HOST")]
    pub to: String,
    /// Wait until the move is over: exit code 1 if the VM stayed or an operator has to look
    #[arg(long)]
    pub wait: bool,
}
