//! Which kinds of libvirt's disks Hearth can serve: the table, and how each kind's source becomes an origin.

use crate::domain::Element;
use configuration::{
    FileOrigin, ISCSI_SCHEME, IscsiOrigin, NbdOrigin, NbdUri, NbdUriAddress, OriginConfig,
    OriginFormat, ParseIscsiUriError, RbdOrigin, RbdUri,
};
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
    /// Its source is an origin of Hearth's. The second element is the `<auth>`, inside of the source or beside it.
    As(fn(Element<'_>, Option<Element<'_>>) -> Result<OriginConfig, Refusal>),
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
    kind("file", None, Served::As(|source, _| at_path(source, "file"))),
    kind("block", None, Served::As(|source, _| at_path(source, "dev"))),
    kind("network", Some("nbd"), Served::As(nbd)),
    kind("network", Some("rbd"), Served::As(rbd)),
    kind("network", Some("iscsi"), Served::As(iscsi)),
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
        Some(Served::As(origin)) => {
            let auth = source.child("auth").or_else(|| disk.child("auth"));
            origin(source, auth)
        }
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

fn nbd(source: Element<'_>, auth: Option<Element<'_>>) -> Result<OriginConfig, Refusal> {
    if auth.is_some() {
        return Err(Refusal::new(
            "its storage wants a password",
            "offer the storage without one on a unix socket",
        ));
    }
    if source.attribute("tls").as_deref() == Some("yes") {
        return Err(Refusal::new(
            "its NBD server wants TLS, whose certificates libvirt has in a place of its own",
            "write the disk into Hearth's configuration, with nbds:// and tls_authority, and give the VM Hearth's export (hearth xml)",
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
    Ok(NbdOrigin::new(NbdUri {
        tls: false,
        address,
        export,
    })
    .into())
}

/// The monitors that the XML names are those of the cluster's configuration file, which Ceph's library reads.
fn rbd(source: Element<'_>, auth: Option<Element<'_>>) -> Result<OriginConfig, Refusal> {
    let unclear = |reason: String| {
        Refusal::new(
            reason,
            "name the image as POOL/IMAGE in the disk's source (virsh edit)",
        )
    };
    let name = source.attribute("name").unwrap_or_default();
    let mut parts: Vec<String> = name.split('/').map(str::to_owned).collect();
    let (Some(image), 2..=3) = (parts.pop(), parts.len() + 1) else {
        return Err(unclear(format!("its source names no image ('{name}')")));
    };
    let pool = parts.remove(0);
    let namespace = parts.pop().unwrap_or_default();
    let named = |element: &str, attribute: &str| source.child(element)?.attribute(attribute);
    let uri = RbdUri {
        pool,
        namespace,
        image,
        snapshot: named("snapshot", "name"),
        conf: named("config", "file").map(PathBuf::from),
        user: auth.and_then(|auth| auth.attribute("username")),
    };
    match uri.to_string().parse() {
        Ok(uri) => Ok(RbdOrigin::new(uri).into()),
        Err(error) => Err(unclear(error.to_string())),
    }
}

fn iscsi(source: Element<'_>, auth: Option<Element<'_>>) -> Result<OriginConfig, Refusal> {
    if auth.is_some() {
        return Err(Refusal::new(
            "its target wants a secret, which libvirt keeps to itself",
            "write the disk into Hearth's configuration, with chap_user and chap_secret_file, and give the VM Hearth's export (hearth xml)",
        ));
    }
    let name = source.attribute("name").unwrap_or_default();
    let (target, unit) = name.split_once('/').unwrap_or((&name, "0"));
    let host = source.child("host");
    let Some(address) = host.and_then(|host| host.attribute("name")) else {
        return Err(Refusal::new(
            "its source names no portal",
            "name one <host> in the disk's source (virsh edit)",
        ));
    };
    let address = if address.contains(':') {
        format!("[{address}]")
    } else {
        address
    };
    let port = host.and_then(|host| host.attribute("port"));
    let port = port.map_or_else(String::new, |port| format!(":{port}"));
    match format!("{ISCSI_SCHEME}{address}{port}/{target}/{unit}").parse() {
        Ok(uri) => Ok(IscsiOrigin::new(uri).into()),
        Err(error) => {
            let error: ParseIscsiUriError = error;
            Err(Refusal::new(
                error.to_string(),
                "correct the disk's source (virsh edit)",
            ))
        }
    }
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
            (
                "<disk type='network'><source protocol='rbd' name='vms/web'><host name='mon-1' port='6789'/></source></disk>",
                "rbd:vms/web",
            ),
            (
                "<disk type='network'><source protocol='rbd' name='vms/t/web'><snapshot name='golden'/>\
                 <config file='/etc/ceph/b.conf'/><auth username='libvirt'/></source></disk>",
                "rbd:vms/t/web@golden?conf=/etc/ceph/b.conf&user=libvirt",
            ),
            (
                "<disk type='network'><auth username='cinder'/><source protocol='rbd' name='volumes/volume-1'/></disk>",
                "rbd:volumes/volume-1?user=cinder",
            ),
            (
                "<disk type='network'><source protocol='iscsi' name='iqn.2013-07.com.example:vms/2'>\
                 <host name='Store' port='3261'/></source></disk>",
                "iscsi://store:3261/iqn.2013-07.com.example:vms/2",
            ),
            (
                "<disk type='network'><source protocol='iscsi' name='iqn.2013-07.com.example:vms'>\
                 <host name='::1'/></source></disk>",
                "iscsi://[::1]:3260/iqn.2013-07.com.example:vms/0",
            ),
        ] {
            assert_eq!(of(disk).as_deref(), Ok(origin));
        }
    }

    #[test]
    fn what_has_no_origin_says_what_to_do() {
        for (disk, reason, remedy) in [
            (
                "<disk type='network'><source protocol='rbd' name='web'/></disk>",
                "no image",
                "POOL/IMAGE",
            ),
            (
                "<disk type='network'><source protocol='iscsi' name='iqn.a:b/1'><auth username='u'/></source></disk>",
                "secret",
                "chap_secret_file",
            ),
            (
                "<disk type='network'><auth username='u'/><source protocol='iscsi' name='iqn.a:b/1'/></disk>",
                "secret",
                "chap_secret_file",
            ),
            (
                "<disk type='network'><source protocol='nbd'><host name='h'/></source><auth username='u'/></disk>",
                "password",
                "unix socket",
            ),
            (
                "<disk type='network'><source protocol='iscsi' name='iqn.a:b/1'/></disk>",
                "no portal",
                "<host>",
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
                "nbds://",
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
