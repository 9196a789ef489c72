//! Where an origin is, so that two spellings of one origin are told to be one.
//!
//! What can be told without asking a server: a file or socket by its inode or its path without links, an
//! address in one of its spellings. That a name and an address, or a socket and a port, lead to one
//! server is not known here.

use super::iscsi_uri::IscsiUri;
use super::model::NbdConfig;
use super::origins::OriginConfig;
use super::rbd_uri::RbdUri;
use super::text::Switch;
use super::uri::NbdUriAddress;
use std::fs::Metadata;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

/// What `127.0.0.1` and `::1` are called here.
const LOOPBACK: &str = "localhost";

/// Where an origin is.
#[derive(Clone, Debug)]
pub struct OriginPlace(Place);

#[derive(Clone, Debug)]
enum Place {
    File(Node),
    Export { server: Server, export: String },
    Image(RbdUri),
    Unit { target: String, unit: u16 },
}

#[derive(Clone, Debug)]
enum Server {
    Unix(Node),
    Tcp { host: String, port: u16 },
}

/// A file, device or socket: what has its path, or is the same under another one.
#[derive(Clone, Debug)]
struct Node {
    path: PathBuf,
    /// Which it is now, if it is there.
    identity: Option<(u64, u64)>,
}

impl OriginPlace {
    /// Where this origin is now. Looks at the file system, so it may block.
    pub fn of(origin: &OriginConfig) -> Self {
        let uri = match origin {
            OriginConfig::File(origin) => return Self(Place::File(Node::at(&origin.file))),
            OriginConfig::Nbd(origin) => &origin.nbd.0,
            OriginConfig::Iscsi(origin) => {
                let IscsiUri { target, unit, .. } = origin.iscsi.0.clone();
                return Self(Place::Unit { target, unit });
            }
            OriginConfig::Rbd(origin) => return Self(Place::Image(origin.rbd.0.clone())),
        };
        let server = match &uri.address {
            NbdUriAddress::Unix(path) => Server::Unix(Node::at(path)),
            NbdUriAddress::Tcp { host, port } => Server::Tcp {
                host: canonical_host(host),
                port: *port,
            },
        };
        let export = uri.export.clone();
        Self(Place::Export { server, export })
    }

    /// Whether both are known to be one origin.
    pub fn is(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Place::File(one), Place::File(other)) => one.is(other),
            (
                Place::Export { server, export },
                Place::Export {
                    server: other,
                    export: other_export,
                },
            ) => export == other_export && server.is(other),
            (Place::Image(one), Place::Image(other)) => is_one_image(one, other),
            // A target's name is its own in the world, whatever portal leads to it.
            (
                Place::Unit { target, unit },
                Place::Unit {
                    target: other_target,
                    unit: other,
                },
            ) => target == other_target && unit == other,
            (Place::File(_) | Place::Export { .. } | Place::Image(_) | Place::Unit { .. }, _) => {
                false
            }
        }
    }

    /// Whether it is an export of the server that this configuration describes.
    pub fn is_served_by(&self, nbd: &NbdConfig) -> bool {
        match &self.0 {
            Place::File(_) | Place::Image(_) | Place::Unit { .. } => false,
            Place::Export { server, .. } => match server {
                Server::Unix(node) => match &nbd.unix_socket.0 {
                    Switch::On(path) => node.is(&Node::at(&path.0)),
                    Switch::Off => false,
                },
                Server::Tcp { host, port } => match &nbd.tcp_address.0 {
                    Switch::On(address) => listens_at(address.0, host, *port),
                    Switch::Off => false,
                },
            },
        }
    }
}

/// Whoever asks for an image, it is one; that two configuration files name one cluster is not known here.
fn is_one_image(one: &RbdUri, other: &RbdUri) -> bool {
    let anybody = |uri: &RbdUri| RbdUri {
        user: None,
        ..uri.clone()
    };
    anybody(one) == anybody(other)
}

impl Server {
    fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Unix(one), Self::Unix(other)) => one.is(other),
            (
                Self::Tcp { host, port },
                Self::Tcp {
                    host: other,
                    port: other_port,
                },
            ) => host == other && port == other_port,
            (Self::Unix(_), Self::Tcp { .. }) | (Self::Tcp { .. }, Self::Unix(_)) => false,
        }
    }
}

impl Node {
    fn at(path: &Path) -> Self {
        let real = std::fs::canonicalize(path).or_else(|_| {
            // It may come later, in a folder that is there.
            let (folder, name) = (path.parent(), path.file_name());
            let folder = folder.map(std::fs::canonicalize).transpose()?;
            let joined = folder.zip(name).map(|(folder, name)| folder.join(name));
            joined.ok_or(std::io::ErrorKind::NotFound.into())
        });
        let real = real.unwrap_or_else(|_: std::io::Error| path.to_owned());
        Self {
            identity: std::fs::metadata(&real).ok().map(|found| identity(&found)),
            path: real,
        }
    }

    fn is(&self, other: &Self) -> bool {
        match (self.identity, other.identity) {
            // Both paths are without links then.
            (Some(own), Some(others)) => {
                own == others || self.path.as_os_str() == other.path.as_os_str()
            }
            _ => self.path == other.path,
        }
    }
}

/// Which file this is, whatever path led to it; for a block device, which device.
pub fn identity(metadata: &Metadata) -> (u64, u64) {
    if metadata.file_type().is_block_device() {
        (u64::MAX, metadata.rdev())
    } else {
        (metadata.dev(), metadata.ino())
    }
}

fn canonical_host(host: &str) -> String {
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    match host.parse::<IpAddr>() {
        Ok(address) => canonical_address(address),
        Err(_) if host == "ip6-localhost" || host == "ip6-loopback" => LOOPBACK.to_owned(),
        Err(_) => host,
    }
}

fn canonical_address(address: IpAddr) -> String {
    match address.to_canonical() {
        IpAddr::V4(std::net::Ipv4Addr::LOCALHOST) | IpAddr::V6(std::net::Ipv6Addr::LOCALHOST) => {
            LOOPBACK.to_owned()
        }
        other => other.to_string(),
    }
}

/// Whether a listener at `own` is reached at this host and port.
fn listens_at(own: SocketAddr, host: &str, port: u16) -> bool {
    if own.port() != port {
        return false;
    }
    let is_here = || match host.parse::<IpAddr>() {
        // An address of this machine is one that can be bound.
        Ok(address) => UdpSocket::bind((address, 0)).is_ok(),
        Err(_) => host == LOOPBACK,
    };
    canonical_address(own.ip()) == host || (own.ip().is_unspecified() && is_here())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::origins::{FileOrigin, NbdOrigin, RbdOrigin};

    fn place(origin: &str) -> OriginPlace {
        OriginPlace::of(&match origin.get(..3) {
            Some("nbd") => NbdOrigin::new(origin.parse().unwrap()).into(),
            Some("rbd") => RbdOrigin::new(origin.parse().unwrap()).into(),
            _ => FileOrigin::new(origin.into()).into(),
        })
    }

    #[test]
    fn spellings_of_one_address_are_one_place() {
        let one = place("nbd://Store/web");
        assert!(one.is(&place("nbd://store.:10809/web")));
        assert!(!one.is(&place("nbd://store/web2")));
        assert!(!one.is(&place("nbd://store:10810/web")));
        let here = place("nbd://localhost:99/");
        for same in [
            "127.0.0.1",
            "[::1]",
            "LOCALHOST",
            "[::ffff:127.0.0.1]",
            "[0:0::1]",
        ] {
            assert!(here.is(&place(&format!("nbd://{same}:99/"))), "{same}");
        }
        assert!(
            !here.is(&place("nbd://127.0.0.2:99/")),
            "another server may be there"
        );
    }

    #[test]
    fn a_socket_or_file_is_one_by_whatever_path() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).display().to_string();
        std::fs::create_dir(at("real")).unwrap();
        std::os::unix::fs::symlink(at("real"), at("link")).unwrap();
        let unix = |path: &str| place(&format!("nbd+unix:///e?socket={path}"));
        // Nothing listens yet.
        assert!(unix(&at("real/s")).is(&unix(&at("link/s"))));
        assert!(!unix(&at("real/s")).is(&unix(&at("real/t"))));
        let _socket = std::os::unix::net::UnixListener::bind(at("real/s")).unwrap();
        std::fs::hard_link(at("real/s"), at("hard")).unwrap();
        assert!(unix(&at("link/s")).is(&unix(&at("hard"))));
        std::fs::write(at("image"), "").unwrap();
        std::fs::hard_link(at("image"), at("other")).unwrap();
        assert!(place(&at("image")).is(&place(&at("other"))));
        assert!(!place(&at("image")).is(&unix(&at("real/s"))));
    }

    #[test]
    fn an_image_is_one_whoever_asks_for_it() {
        let one = place("rbd:vms/web?user=a");
        assert!(one.is(&place("rbd:vms/web?user=b")) && one.is(&place("rbd:vms/web")));
        for other in [
            "rbd:vms/db",
            "rbd:vms/t/web",
            "rbd:vms/web@golden",
            "/vms/web",
        ] {
            assert!(!one.is(&place(other)), "{other}");
        }
    }

    #[test]
    fn ones_own_listeners_are_known_by_other_spellings() {
        let mut nbd = NbdConfig::default();
        let mut listen = |address: &str| {
            nbd.tcp_address.0 = Switch::On(address.parse().unwrap());
            nbd.clone()
        };
        let origin = place("nbd://LOCALHOST:9999/web");
        assert!(origin.is_served_by(&listen("127.0.0.1:9999")));
        assert!(origin.is_served_by(&listen("[::1]:9999")));
        assert!(origin.is_served_by(&listen("0.0.0.0:9999")));
        assert!(!origin.is_served_by(&listen("0.0.0.0:9998")));
        // An address of documentation, which is nobody's.
        let far = place("nbd://192.0.2.1:9999/web");
        assert!(!far.is_served_by(&listen("0.0.0.0:9999")));
        assert!(far.is_served_by(&listen("192.0.2.1:9999")));
    }
}
