//! `hearth xml`: how a disk is attached to a VM, for libvirt, QEMU and Cloud Hypervisor, over each
//! front end that it has.
//!
//! ```text
//!   admin API ──disk, listeners──► Attachment, one for each way in ──► libvirt XML
//!                                                                  ├─► QEMU's arguments
//!                                                                  └─► Cloud Hypervisor's
//! ```
//!
//! Names and paths come from the disk's name alone, so that a host with the same configuration
//! prints the same: a VM that migrates finds its disk where it was. Nothing here asks libvirt; the
//! XML is of libvirt's schema (`virt-xml-validate`, in a test).

mod args;
mod commands;
mod guest;
mod libvirt;
mod words;

pub use args::{FrontEndWord, Only, Xml};
pub use guest::GuestTexts;

use crate::terminal::exit::{CliError, Exit};
use crate::terminal::to_json;
use api::client::Client;
use api::types::{DiskStatus, Listener, Status};
use api::vms::Vms;
use configuration::{Name, NbdUri, NbdUriAddress};
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use units::Bytes;

/// Longest node name of a block device that QEMU takes, in bytes.
const NODE_NAME_BYTES_MAX: usize = 31;
/// Digits of a disk's id that stand for a name that is too long.
const ID_DIGITS: usize = 16;

/// A way in.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Way {
    VhostUser {
        socket: PathBuf,
    },
    Nbd {
        address: NbdUriAddress,
        export: String,
        tls: bool,
    },
}

/// Everything that the texts are made of.
#[derive(Clone, Debug)]
struct Attachment<'a> {
    disk: &'a DiskStatus,
    way: Way,
    /// What the VM calls the disk: `vda`.
    target: &'a str,
    memory: Bytes,
    cpus: u16,
}

/// A disk's ways in, as texts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attachments {
    /// The disk.
    pub disk: Name,
    /// Whose VM the texts are for.
    pub vm: Name,
    /// One for each way in; best first.
    pub ways: Vec<WayTexts>,
    /// The channel of the agent in the VM's guest; none without `guest.directory`.
    pub guest: Option<GuestTexts>,
}

/// One way in, as texts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WayTexts {
    /// `vhost-user` or `nbd`.
    pub front_end: FrontEndWord,
    /// The socket, or the NBD URI.
    pub address: String,
    /// XML for libvirt.
    pub libvirt: LibvirtXml,
    /// Arguments for QEMU, beside those of the rest of the VM.
    pub qemu: Vec<String>,
    /// Arguments for Cloud Hypervisor; none if it cannot use this way in.
    pub cloud_hypervisor: Option<Vec<String>>,
}

/// XML for libvirt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LibvirtXml {
    /// What the domain needs beside the disk.
    pub domain: Option<String>,
    /// The disk, within `<devices>`.
    pub disk: String,
    /// The oldest libvirt that knows all of it, if that is not old.
    pub needs: Option<String>,
}

/// Asks the daemon and prints what was asked for.
pub(crate) async fn run(client: &Client, args: &Xml, json: bool) -> Result<Vec<u8>, CliError> {
    let disk: DiskStatus = client.get(&format!("/v1/disks/{}", args.disk)).await?;
    let vms: Vms = client.get("/v1/vms").await?;
    if let (Some(vm), true) = (&args.vm, disk.shared) {
        may_read(vm, &disk.name, &vms)?;
    }
    let status: Status = client.get("/v1/status").await?;
    let mut attachments = attachments(args, &disk, &status.listeners)?;
    attachments.guest = guest_of(&attachments.vm, &vms);
    if json {
        return to_json(&attachments);
    }
    Ok(words::write(args, &attachments).into_bytes())
}

/// The channel of a VM's guest, if there is one.
fn guest_of(vm: &Name, vms: &Vms) -> Option<GuestTexts> {
    let status = vms.vms.iter().find(|one| one.name == *vm)?;
    guest::texts(status.guest.as_ref()?)
}

fn attachments(
    args: &Xml,
    disk: &DiskStatus,
    listeners: &[Listener],
) -> Result<Attachments, CliError> {
    let vm = reader(args, disk)?;
    is_open(args, disk, &vm)?;
    let ways = ways(disk, &vm, listeners);
    let ways = ways.into_iter().filter(|way| args.wants(way.front_end()));
    let ways: Vec<WayTexts> = ways
        .map(|way| {
            Attachment {
                disk,
                way,
                target: &args.target,
                memory: args.memory,
                cpus: args.cpus,
            }
            .texts()
        })
        .collect();
    if ways.is_empty() {
        return Err(no_way(args));
    }
    if args.only == Some(Only::CloudHypervisor)
        && ways.iter().all(|way| way.cloud_hypervisor.is_none())
    {
        return Err(CliError::new(
            Exit::Refused,
            "Cloud Hypervisor does not speak NBD".to_owned(),
        )
        .with_remedy("--front-end vhost-user"));
    }
    Ok(Attachments {
        disk: disk.name.clone(),
        vm,
        ways,
        guest: None,
    })
}

/// Whose VM is meant.
fn reader(args: &Xml, disk: &DiskStatus) -> Result<Name, CliError> {
    match (&args.vm, disk.shared) {
        (Some(vm), true) => Ok(vm.clone()),
        (None, false) => Ok(disk.vm.clone()),
        (None, true) => Err(CliError::new(
            Exit::Usage,
            format!(
                "'{}' is a base image, which each VM attaches under its own name",
                disk.name
            ),
        )
        .with_remedy("say which: --vm NAME")),
        (Some(vm), false) if *vm == disk.vm => Ok(vm.clone()),
        (Some(vm), false) => Err(CliError::new(
            Exit::Usage,
            format!("'{}' is a disk of {}, not of {vm}", disk.name, disk.vm),
        )
        .with_remedy("leave --vm away")),
    }
}

/// Whether the VM may attach the base image.
fn may_read(vm: &Name, image: &Name, known: &Vms) -> Result<(), CliError> {
    let of_vm = known.vms.iter().find(|one| one.name == *vm);
    if of_vm.is_some_and(|one| one.images.iter().any(|used| used.image == *image)) {
        return Ok(());
    }
    Err(CliError::new(
        Exit::Refused,
        format!("the VM {vm} may not attach the base image '{image}'"),
    )
    .with_remedy(format!(
        "hearth vm set {vm} {}--image {image}",
        if of_vm.is_some() { "" } else { "--new " }
    )))
}

/// A socket on which nobody listens, or somebody else, is told to nobody.
fn is_open(args: &Xml, disk: &DiskStatus, vm: &Name) -> Result<(), CliError> {
    let mut sockets = disk.vhost_user.sockets.iter();
    let closed = sockets.find(|socket| socket.vm == *vm && socket.error.is_some());
    match closed.and_then(|socket| socket.error.as_ref()) {
        Some(reason) if args.wants(FrontEndWord::VhostUser) => Err(CliError::new(
            Exit::Refused,
            format!(
                "the vhost-user socket of '{}' is not open: {reason}",
                disk.name
            ),
        )
        .with_remedy("see to that, or attach it over NBD: --front-end nbd")),
        _ => Ok(()),
    }
}

fn no_way(args: &Xml) -> CliError {
    let (what, remedy) = match args.front_end {
        Some(FrontEndWord::Nbd) => ("NBD", "set nbd.unix_socket or nbd.tcp_address"),
        Some(FrontEndWord::VhostUser) | None => (
            "vhost-user",
            "set vhost_user.directory, or vhost_user.socket of the disk",
        ),
    };
    CliError::new(
        Exit::Refused,
        format!("the disk '{}' is not offered over {what}", args.disk),
    )
    .with_remedy(remedy)
}

fn ways(disk: &DiskStatus, vm: &Name, listeners: &[Listener]) -> Vec<Way> {
    let sockets = disk.vhost_user.sockets.iter();
    let sockets = sockets.filter(|socket| socket.vm == *vm);
    let mut ways: Vec<Way> = sockets
        .map(|socket| Way::VhostUser {
            socket: PathBuf::from(&socket.path),
        })
        .collect();
    let export = if disk.shared {
        format!("{}@{vm}", disk.name)
    } else {
        disk.name.to_string()
    };
    let own = disk
        .nbd_socket
        .iter()
        .filter(|socket| socket.error.is_none());
    ways.extend(own.map(|socket| Way::Nbd {
        address: NbdUriAddress::Unix(PathBuf::from(&socket.path)),
        export: export.clone(),
        tls: false,
    }));
    // A listener of a later version may be written otherwise; it is none that we can describe.
    let known = listeners.iter().filter_map(|listener| {
        let uri: NbdUri = listener.address.parse().ok()?;
        Some((within_host(uri.address), listener.tls_required))
    });
    ways.extend(known.map(|(address, tls)| Way::Nbd {
        address,
        export: export.clone(),
        tls,
    }));
    ways
}

/// A listener on every address of this host, as the VM that runs here reaches it.
fn within_host(address: NbdUriAddress) -> NbdUriAddress {
    match address {
        NbdUriAddress::Tcp { host, port } => {
            let host = match host.parse() {
                Ok(IpAddr::V4(Ipv4Addr::UNSPECIFIED)) => Ipv4Addr::LOCALHOST.to_string(),
                Ok(IpAddr::V6(Ipv6Addr::UNSPECIFIED)) => Ipv6Addr::LOCALHOST.to_string(),
                Ok(_) | Err(_) => host,
            };
            NbdUriAddress::Tcp { host, port }
        }
        unix @ NbdUriAddress::Unix(_) => unix,
    }
}

impl Way {
    fn front_end(&self) -> FrontEndWord {
        match self {
            Self::VhostUser { .. } => FrontEndWord::VhostUser,
            Self::Nbd { .. } => FrontEndWord::Nbd,
        }
    }

    fn address(&self) -> String {
        match self {
            Self::VhostUser { socket } => socket.display().to_string(),
            Self::Nbd {
                address, export, ..
            } => NbdUri {
                tls: false,
                address: address.clone(),
                export: export.clone(),
            }
            .to_string(),
        }
    }
}

impl Attachment<'_> {
    fn texts(&self) -> WayTexts {
        WayTexts {
            front_end: self.way.front_end(),
            address: self.way.address(),
            libvirt: libvirt::xml(self),
            qemu: commands::qemu(self),
            cloud_hypervisor: commands::cloud_hypervisor(self),
        }
    }

    /// What QEMU calls the disk: its name if that is short enough, or part of its id.
    fn node(&self) -> String {
        let node = format!("hearth-{}", self.disk.name);
        if node.len() <= NODE_NAME_BYTES_MAX {
            return node;
        }
        let digits = self.disk.id.get(..ID_DIGITS).unwrap_or(&self.disk.id);
        format!("hearth-{digits}")
    }

    /// The sector that a guest is offered, in bytes. Over vhost-user the daemon says it, and how
    /// large its blocks are; over NBD the VM's monitor, which has to be told.
    fn sector(&self) -> u64 {
        self.disk.vhost_user.sector_bytes
    }
}

#[cfg(test)]
mod tests;
