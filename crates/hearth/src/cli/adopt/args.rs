//! Arguments of `hearth adopt`.

use crate::xml::FrontEndWord;
use clap::{Args, ValueHint};
use configuration::{Name, WritePolicy};
use std::path::PathBuf;

/// Arguments of `adopt`.
#[derive(Debug, Args)]
pub struct Adopt {
    /// The VM, as libvirt calls it
    #[arg(value_name = "DOMAIN", required_unless_present = "file")]
    pub name: Option<String>,
    /// Show it for this XML instead, and change nothing: a file, or `-` for standard input
    #[arg(long = "domain", value_name = "FILE", conflicts_with_all = ["name", "yes"], value_hint = ValueHint::FilePath)]
    pub file: Option<PathBuf>,
    /// Only this disk: what the VM calls it, such as vda
    #[arg(long, value_name = "TARGET")]
    pub disk: Option<String>,
    /// How the VM reaches its disks
    #[arg(
        long,
        value_name = "FRONT_END",
        default_value = "nbd",
        conflicts_with = "undo"
    )]
    pub via: FrontEndWord,
    /// Which cache keeps them warm; needed if there are several
    #[arg(long, value_name = "NAME", conflicts_with = "undo")]
    pub cache: Option<Name>,
    /// What writes do
    #[arg(long, value_name = "POLICY", default_value_t, conflicts_with = "undo")]
    pub write_policy: WritePolicy,
    /// Give the disks back: detach them, and let the VM use its storage itself again
    #[arg(long)]
    pub undo: bool,
    /// Bring bytes that the storage lacks to it first
    #[arg(long, requires = "undo")]
    pub flush: bool,
    /// Do it; without this it is only shown
    #[arg(long)]
    pub yes: bool,
    /// Where libvirt listens, instead of virsh's own default: `qemu:///system`, for example
    #[arg(long, value_name = "URI")]
    pub libvirt: Option<String>,
}
