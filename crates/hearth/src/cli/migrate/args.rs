//! Arguments of `hearth migrate`.

use clap::{Args, Subcommand, ValueHint};
use configuration::{Auto, Name, Strategy};
use std::path::PathBuf;
use units::Bytes;

/// Look at disks that roam, and at their hand-overs.
#[derive(Debug, Subcommand)]
pub enum Migrate {
    /// List the disks that roam
    List,
    /// Show how one disk roams, or each disk of a VM, or how the cache of a base image follows its VMs
    ///
    /// Which host has it, whether the session with the peer stands, what has to reach the origin before it can be
    /// given away, and the last hand-over.
    Show {
        /// A disk, a VM with all its disks, or a base image
        name: Name,
        /// Go on until interrupted: on a terminal the picture is painted again, elsewhere each change is a line
        #[arg(long)]
        watch: bool,
    },
    /// Say whether a live migration would be right now; nothing is changed
    ///
    /// The disks of a VM move together: a disk's name stands for all of them. Both hosts look whether the disks roam and are the same, whether one of the hosts has them, whether their caches
    /// and origins are in order, and whether the link stands. What is in the way is told with a remedy, and is exit
    /// code 4.
    Check(Check),
    /// Prepare both hosts for a live migration that is about to begin
    ///
    /// What is dirty goes to the origin, and the cache is copied ahead, as when the VM connects at the host that it goes
    /// to. The disks of a VM move together: a disk's name stands for all of them. It ends when the disk has come, with `abort`, or after 10 minutes.
    Prepare(Prepare),
    /// End what was prepared, on both hosts
    ///
    /// Nothing is copied ahead any more, also for a VM that is connected where it would go to. Refused once it is decided
    /// that a disk moves.
    Abort {
        /// A disk, or a VM with all its disks
        name: Name,
    },
    /// Say how the cache of a disk comes to this host, until the daemon is started anew
    Set(Set),
    /// Take the disks of a VM whose owner is gone for good
    ///
    /// All disks of the VM that roam, or none. Only where the other host will never again serve the disk with what it has. Refused while a session with it stands,
    /// while it has the origin locked, and while its flash may have bytes that the origin lacks, unless those are given up.
    Take {
        /// The VM, or a disk that is the only one of its VM
        name: Name,
        /// Say that the owner is gone for good
        #[arg(long, required = true)]
        yes_its_owner_is_dead: bool,
        /// Give up what only the owner's flash has: the disk goes on as the origin has it
        #[arg(long)]
        lose_dirty: bool,
    },
}

/// Arguments of `migrate prepare`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("where").required(true))]
pub struct Prepare {
    /// A disk, or a VM with all its disks
    #[arg(required_unless_present = "domain")]
    pub name: Option<Name>,
    /// The disks of this libvirt domain that Hearth serves: a file with its XML, or `-` for standard input
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "name")]
    pub domain: Option<PathBuf>,
    /// The peer that the VM goes to
    #[arg(long, value_name = "PEER", group = "where")]
    pub to: Option<String>,
    /// The VM comes to this host
    #[arg(long, group = "where")]
    pub here: bool,
}

/// Arguments of `migrate set`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("what").required(true).multiple(true))]
pub struct Set {
    /// A disk, or a VM with all its disks
    pub name: Name,
    /// What comes of its cache
    #[arg(long, group = "what")]
    pub strategy: Option<Strategy>,
    /// How many bytes of it in a second: a size, or `auto`
    #[arg(long, group = "what")]
    pub rate: Option<Auto<Bytes>>,
}

/// Arguments of `migrate check`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("where").required(true))]
pub struct Check {
    /// A disk, or a VM with all its disks
    #[arg(required_unless_present = "domain")]
    pub name: Option<Name>,
    /// The disks of this libvirt domain that Hearth serves: a file with its XML, or `-` for standard input
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "name")]
    pub domain: Option<PathBuf>,
    /// The peer that the VM would go to
    #[arg(long, value_name = "PEER", group = "where")]
    pub to: Option<String>,
    /// The VM would come to this host
    #[arg(long, group = "where")]
    pub here: bool,
}
