//! What libvirt's XML says of the disks of a VM, and which of them Hearth serves.
//!
//! What is not understood is no disk of Hearth's.

use crate::domain::{Document, Element};
use api::front_ends::Listener;
use api::types::Disks;
use configuration::{Name, NbdUri, NbdUriAddress};
use std::path::Path;

/// Where a VM's disk comes from, if it may come from Hearth.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// An export of an NBD server on a unix socket.
    Unix { export: String, socket: String },
    /// An export of an NBD server on this or another host.
    Tcp { export: String, port: u16 },
    /// A socket of a vhost-user device.
    VhostUser { socket: String },
}

/// What is known of a VM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Domain {
    pub(super) name: String,
    pub(super) sources: Vec<Source>,
}

/// The port of an NBD server whose address has none.
const NBD_PORT: u16 = 10809;

impl Domain {
    /// What the XML says.
    pub(super) fn of(xml: &str) -> Self {
        let document = Document::of(xml);
        let root = document.root().filter(|root| root.name() == "domain");
        let Some(root) = root else {
            return Self::default();
        };
        let devices = root.child("devices").into_iter();
        let disks = devices.flat_map(Element::children);
        let disks = disks.filter(|child| child.name() == "disk");
        let sources = disks.filter_map(|disk| disk.child("source"));
        Self {
            name: root.child("name").map(Element::content).unwrap_or_default(),
            sources: sources.filter_map(source).collect(),
        }
    }
}

fn source(source: Element<'_>) -> Option<Source> {
    if source.attribute("protocol").as_deref() == Some("nbd") {
        let export = source.attribute("name")?;
        return source.child("host").map(|host| at_host(export, host));
    }
    let is_unix = source.attribute("type").as_deref() == Some("unix");
    let socket = source.attribute("path").filter(|_| is_unix)?;
    Some(Source::VhostUser { socket })
}

fn at_host(export: String, host: Element<'_>) -> Source {
    match host.attribute("socket") {
        Some(socket) => Source::Unix { export, socket },
        None => Source::Tcp {
            export,
            port: host
                .attribute("port")
                .and_then(|port| port.parse().ok())
                .unwrap_or(NBD_PORT),
        },
    }
}

/// What serves a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Served<'a> {
    /// Not this host's Hearth.
    Not,
    /// This disk.
    Disk(&'a Name),
    /// Hearth is asked for a disk that it does not have.
    Unknown(&'a str),
}

/// What serves a source on a host with these disks and listeners.
pub(super) fn served<'a>(
    source: &'a Source,
    disks: &'a Disks,
    listeners: &[Listener],
) -> Served<'a> {
    let mut all = disks.disks.iter();
    match source {
        Source::VhostUser { socket } => {
            let has = |at: &api::front_ends::VhostSocket| is_same(&at.path, socket);
            let disk = all.find(|disk| disk.vhost_user.sockets.iter().any(has));
            disk.map_or(Served::Not, |disk| Served::Disk(&disk.name))
        }
        Source::Unix { export, socket } => {
            let own = |disk: &&api::types::DiskStatus| {
                let own = disk.nbd_socket.as_ref();
                own.is_some_and(|own| is_same(&own.path, socket))
            };
            if let Some(disk) = all.clone().find(own) {
                return Served::Disk(&disk.name);
            }
            let is_ours = |address: &NbdUriAddress| matches!(address, NbdUriAddress::Unix(at) if at == Path::new(socket));
            exported(export, disks, listeners, is_ours)
        }
        Source::Tcp { export, port } => {
            let is_ours = |address: &NbdUriAddress| matches!(address, NbdUriAddress::Tcp { port: at, .. } if at == port);
            match exported(export, disks, listeners, is_ours) {
                // It may be another host's.
                Served::Unknown(_) => Served::Not,
                served => served,
            }
        }
    }
}

fn is_same(one: &str, other: &str) -> bool {
    Path::new(one) == Path::new(other)
}

fn exported<'a>(
    export: &'a str,
    disks: &'a Disks,
    listeners: &[Listener],
    is_ours: impl Fn(&NbdUriAddress) -> bool,
) -> Served<'a> {
    let mut addresses = listeners
        .iter()
        .filter_map(|one| one.address.parse::<NbdUri>().ok());
    if !addresses.any(|uri| is_ours(&uri.address)) {
        return Served::Not;
    }
    // A base image is exported for each VM.
    let name = export.split_once('@').map_or(export, |(image, _)| image);
    let disk = disks.disks.iter().find(|disk| disk.name.as_str() == name);
    disk.map_or(Served::Unknown(export), |disk| Served::Disk(&disk.name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::samples;

    const XML: &str = r#"<?xml version="1.0"?>
<!-- <domain><name>no</name></domain> -->
<domain type='kvm' xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'>
  <name>w&amp;b</name>
  <metadata><note a="x > y">/</note><![CDATA[<disk>]]></metadata>
  <devices>
    <emulator>/usr/bin/qemu-system-x86_64</emulator>
    <disk type='network' device='disk'>
      <driver name='qemu' type='raw'/>
      <source protocol='nbd' name='web-1'>
        <host transport='unix' socket='/run/hearth/nbd.sock'/>
        <reconnect delay='60'/>
      </source>
      <backingStore type='network'>
        <source protocol='nbd' name='no'><host transport='unix' socket='/run/hearth/nbd.sock'/></source>
      </backingStore>
      <target dev='vda' bus='virtio'/>
    </disk>
    <disk type="vhostuser" device="disk">
      <source type="unix" path="/run/hearth/vhost/db.sock"><reconnect enabled="yes"/></source>
    </disk>
    <disk type='network'><source protocol='nbd' name='x'><host name='a' port='10810'/></source></disk>
    <disk type='network'><source protocol='nbd' name='y'><host name='a'/></source></disk>
    <disk type='network'><source protocol='rbd' name='pool/image'><host name='mon' port='6789'/></source></disk>
    <disk type='file' device='cdrom'><source file='/iso'/></disk>
    <interface type='vhostuser'><source type='unix' path='/run/net.sock' mode='server'/></interface>
  </devices>
</domain>
"#;

    #[test]
    fn the_sources_of_disks_are_found_and_nothing_else() {
        let unix = |export: &str, socket: &str| Source::Unix {
            export: export.to_owned(),
            socket: socket.to_owned(),
        };
        let tcp = |export: &str, port| Source::Tcp {
            export: export.to_owned(),
            port,
        };
        let vhost = Source::VhostUser {
            socket: "/run/hearth/vhost/db.sock".to_owned(),
        };
        let domain = Domain::of(XML);
        assert_eq!(domain.name, "w&b");
        let nbd = unix("web-1", "/run/hearth/nbd.sock");
        assert_eq!(
            domain.sources,
            [nbd, vhost, tcp("x", 10810), tcp("y", 10809)]
        );
    }

    #[test]
    fn text_that_ends_anywhere_is_read_as_far_as_it_goes() {
        for (at, _) in XML.char_indices() {
            assert!(Domain::of(&XML[..at]).sources.len() <= 4);
            let _ = Domain::of(&XML[at..]);
        }
        assert_eq!(Domain::of("<domain><name>a</name>").name, "a");
    }

    #[test]
    fn a_source_is_a_disk_of_this_host_or_asks_it_in_vain_or_is_none_of_its() {
        let (disks, listeners) = (samples::disks(), samples::status().listeners);
        let nbd = |export: &str, socket: &str| Source::Unix {
            export: export.to_owned(),
            socket: socket.to_owned(),
        };
        let name = &disks.disks[0].name;
        let socket = "/run/hearth/nbd.sock";
        let one = nbd(name.as_str(), socket);
        assert_eq!(served(&one, &disks, &listeners), Served::Disk(name));
        let image = nbd(&format!("{name}@vm"), socket);
        assert_eq!(served(&image, &disks, &listeners), Served::Disk(name));
        let none = nbd("none", socket);
        assert_eq!(served(&none, &disks, &listeners), Served::Unknown("none"));
        let elsewhere = nbd(name.as_str(), "/run/other.sock");
        assert_eq!(served(&elsewhere, &disks, &listeners), Served::Not);
        let tcp = Source::Tcp {
            export: name.to_string(),
            port: 10809,
        };
        assert_eq!(served(&tcp, &disks, &listeners), Served::Not);
        let vhost = Source::VhostUser {
            socket: disks.disks[0].vhost_user.sockets[0].path.clone(),
        };
        assert_eq!(served(&vhost, &disks, &listeners), Served::Disk(name));
    }
}
