//! Which kinds of libvirt's disks Hearth can serve: the table, and how each kind's source becomes an origin.

use crate::domain::Element;
use configuration::{FileOrigin, NbdOrigin, NbdUri, NbdUriAddress, OriginConfig, OriginFormat};
use std::path::{Path, PathBuf};

/// The port of an NBD server whose address has none.
const NBD_PORT: u16 = 10809;

/// Why a disk stays where it is, and what to do about that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) reason: String,
    pub(super) remedy: String,
}

impl Refusal {
    pub(super) fn new(reason: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
            remedy: remedy.into(),
        }
    }
}

/// What becomes of a kind.
enum Served {
    /// Its source is an origin of Hearth's.
    As(fn(Element<'_>) -> Result<OriginConfig, Refusal>),
    /// Hearth has no such origin; what to do instead.
    Not(&'static str),
}

/// A kind of disk: the attribute `type` of `<disk>`, and of a network disk the `protocol` of its source.
struct Kind {
    libvirt_type: &'static str,
    protocol: Option<&'static str>,
    served: Served,
}

const fn kind(libvirt_type: &'static str, protocol: Option<&'static str>, served: Served) -> Kind {
    Kind {
        libvirt_type,
        protocol,
        served,
    }
}

#[rustfmt::skip]
const KINDS: &[Kind] = &[
    kind("file", None, Served::As(file)),
    kind("block", None, Served::As(device)),
    kind("network", Some("nbd"), Served::As(nbd)),
    kind("network", Some("rbd"), Served::Not("map the image on the host (rbd-nbd map, rbd map) and give the VM that device, or serve it with nbdkit's rbd plugin")),
    kind("network", Some("iscsi"), Served::Not("log in on the host (iscsiadm) and give the VM the device under /dev/disk/by-path")),
    kind("volume", None, Served::Not("give the VM the volume's path, which virsh vol-path prints")),
    kind("vhostuser", None, Served::Not("a daemon over vhost-user serves it already: give Hearth that daemon's storage with hearth disk attach")),
];

/// The origin that a disk's source is.
pub(super) fn origin_of(disk: Element<'_>) -> Result<OriginConfig, Refusal> {
    let libvirt_type = disk.attribute("type").unwrap_or_default();
    let empty = || Refusal::new("it has no medium", "insert one, or leave the disk as it is");
    let source = disk.child("source").ok_or_else(empty)?;
    let protocol = source.attribute("protocol");
    let found = KINDS
        .iter()
        .find(|kind| kind.libvirt_type == libvirt_type && kind.protocol == protocol.as_deref());
    match found.map(|kind| &kind.served) {
        Some(Served::As(origin)) => origin(source),
        Some(Served::Not(remedy)) => Err(Refusal::new(unserved(&libvirt_type, protocol), *remedy)),
        None => Err(Refusal::new(
            unserved(&libvirt_type, protocol),
            "offer the storage over NBD (nbdkit, qemu-nbd), and give the VM that",
        )),
    }
}

fn unserved(libvirt_type: &str, protocol: Option<String>) -> String {
    let protocol = protocol.map_or_else(String::new, |protocol| format!(" over {protocol}"));
    format!("Hearth has no origin of the type '{libvirt_type}'{protocol}")
}

fn file(source: Element<'_>) -> Result<OriginConfig, Refusal> {
    at_path(source, "file")
}

fn device(source: Element<'_>) -> Result<OriginConfig, Refusal> {
    at_path(source, "dev")
}

fn at_path(source: Element<'_>, attribute: &str) -> Result<OriginConfig, Refusal> {
    let path = source.attribute(attribute).map(PathBuf::from);
    let path = path.filter(|path| path.is_absolute()).ok_or_else(|| {
        Refusal::new(
            format!("its source has no absolute path in '{attribute}'"),
            "give the disk its whole path (virsh edit)",
        )
    })?;
    let mut origin = FileOrigin::new(path);
    // libvirt says that the disk is raw, whatever its first bytes look like.
    origin.format = OriginFormat::Raw;
    Ok(origin.into())
}

fn nbd(source: Element<'_>) -> Result<OriginConfig, Refusal> {
    if source.attribute("tls").as_deref() == Some("yes") {
        return Err(Refusal::new(
            "its NBD server wants TLS, which Hearth does not speak to origins",
            "offer the export on a unix socket or a trusted network without TLS",
        ));
    }
    let hosts: Vec<Element<'_>> = source
        .children()
        .filter(|child| child.name() == "host")
        .collect();
    let &[host] = hosts.as_slice() else {
        return Err(Refusal::new(
            "its source does not name one NBD server",
            "name one <host> in the disk's source (virsh edit)",
        ));
    };
    let address = match (host.attribute("socket"), host.attribute("name")) {
        (Some(socket), _) if Path::new(&socket).is_absolute() => NbdUriAddress::Unix(socket.into()),
        (None, Some(name)) => NbdUriAddress::Tcp {
            host: name.to_ascii_lowercase(),
            port: host
                .attribute("port")
                .and_then(|port| port.parse().ok())
                .unwrap_or(NBD_PORT),
        },
        _ => {
            return Err(Refusal::new(
                "its NBD server has neither a name nor an absolute socket path",
                "give its <host> a name, or a socket (virsh edit)",
            ));
        }
    };
    let export = source.attribute("name").unwrap_or_default();
    Ok(NbdOrigin::new(NbdUri { address, export }).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Document;
    use configuration::canonical_origin;

    fn of(text: &str) -> Result<String, Refusal> {
        let document = Document::of(text);
        origin_of(document.root().unwrap()).map(|origin| canonical_origin(&origin))
    }

    #[test]
    fn each_kind_has_its_origin() {
        for (disk, origin) in [
            (
                "<disk type='file'><source file='/srv/a&amp;b.raw'/></disk>",
                "file:/srv/a&b.raw",
            ),
            (
                "<disk type='block'><source dev='/dev/vg/web'/></disk>",
                "file:/dev/vg/web",
            ),
            (
                "<disk type='network'><source protocol='nbd' name='e'><host name='Store'/></source></disk>",
                "nbd://store:10809/e",
            ),
            (
                "<disk type='network'><source protocol='nbd'><host transport='unix' socket='/s'/></source></disk>",
                "nbd+unix:///?socket=/s",
            ),
        ] {
            assert_eq!(of(disk).as_deref(), Ok(origin));
        }
    }

    #[test]
    fn what_has_no_origin_says_what_to_do() {
        for (disk, reason, remedy) in [
            (
                "<disk type='network'><source protocol='rbd' name='p/i'/></disk>",
                "over rbd",
                "rbd-nbd map",
            ),
            (
                "<disk type='network'><source protocol='gluster'/></disk>",
                "over gluster",
                "nbdkit",
            ),
            (
                "<disk type='volume'><source pool='p' volume='v'/></disk>",
                "'volume'",
                "virsh vol-path",
            ),
            ("<disk type='file'/>", "no medium", "insert one"),
            (
                "<disk type='file'><source file='a'/></disk>",
                "no absolute path",
                "virsh edit",
            ),
            (
                "<disk type='network'><source protocol='nbd' tls='yes'/></disk>",
                "TLS",
                "without TLS",
            ),
            (
                "<disk type='network'><source protocol='nbd'/></disk>",
                "one NBD server",
                "<host>",
            ),
        ] {
            let refusal = of(disk).unwrap_err();
            assert!(refusal.reason.contains(reason), "{refusal:?}");
            assert!(refusal.remedy.contains(remedy), "{refusal:?}");
        }
    }
}
