//! What names an origin. The program's configuration maps onto these.

use crate::open::Kind;
use std::fmt;
use std::path::PathBuf;
use units::Duration;

/// Which origin, and how to reach it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OriginSpec {
    /// A file or a block device on this host (a mounted share, an iSCSI or RBD kernel device).
    File(FileSpec),
    /// An export of an NBD server.
    Nbd(NbdSpec),
    /// An image of a Ceph cluster.
    Rbd(RbdSpec),
    /// A logical unit of an iSCSI target.
    Iscsi(IscsiSpec),
}

impl OriginSpec {
    /// What its kind can do: a line for each.
    pub(crate) fn kind(&self) -> &dyn Kind {
        match self {
            Self::File(file) => file,
            Self::Nbd(nbd) => nbd,
            Self::Rbd(rbd) => rbd,
            Self::Iscsi(iscsi) => iscsi,
        }
    }
}

impl fmt::Display for OriginSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kind().fmt(f)
    }
}

/// A file or block device as an origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileSpec {
    /// The file or block device.
    pub path: PathBuf,
    /// Whether to go around the host's page cache where the file system allows it. Hearth
    /// keeps what is worth keeping on flash; a second copy in RAM only costs memory.
    pub direct: bool,
    /// How long a request may take before it ends with an error, and opening, too: a file whose server is gone
    /// would hold them for ever.
    pub request_timeout: Duration,
}

impl FileSpec {
    /// This file around the page cache, with a minute for each request.
    pub fn new(path: PathBuf) -> Self {
        Self {
            path,
            direct: true,
            request_timeout: Duration::from_secs(60),
        }
    }
}

impl fmt::Display for FileSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "file:{}", self.path.display())
    }
}

/// An export of an NBD server as an origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NbdSpec {
    /// Where the server listens.
    pub address: NbdAddress,
    /// The export's name; empty for the server's default export.
    pub export: String,
    /// How many connections to open, if the server says that several are coherent
    /// (`NBD_FLAG_CAN_MULTI_CONN`); else one is.
    pub connections: u8,
    /// How long connecting and negotiating may take.
    pub connect_timeout: Duration,
    /// The longest pause between two attempts to reconnect; the first pause is short and each
    /// doubles.
    pub reconnect_pause_max: Duration,
    /// How long a request may wait for its answer, reconnects included, before it ends with
    /// an error.
    pub request_timeout: Duration,
    /// How long the server may go on with a change after the connection over which it was sent has
    /// ended. Changes that a former session has left are waited for that long, unless its server
    /// answers them before.
    pub settle_time: Duration,
    /// How the connections are encrypted; not at all if none.
    pub tls: Option<TlsSpec>,
}

/// How connections to an NBD server are encrypted, and who proves what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TlsSpec {
    /// The server shows a certificate (x509).
    Certificates {
        /// The file with the authorities that may have signed the certificate, as PEM; those of the system if none.
        authority: Option<PathBuf>,
        /// The files with this host's own certificate chain and its key, as PEM, if the server wants one.
        own: Option<(PathBuf, PathBuf)>,
        /// The name in the server's certificate; that of the address if none.
        server_name: Option<String>,
    },
    /// Both know a key.
    Key {
        /// What the key is called.
        name: String,
        /// The file with it: `name:hexadecimal key` a line.
        file: PathBuf,
    },
}

/// Where an NBD server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NbdAddress {
    /// A unix socket.
    Unix(PathBuf),
    /// A host name or address, and a port.
    Tcp {
        /// Name or address.
        host: String,
        /// Port; NBD's own is 10809.
        port: u16,
    },
}

impl fmt::Display for NbdSpec {
    /// As an NBD URI.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let s = if self.tls.is_some() { "s" } else { "" };
        match &self.address {
            NbdAddress::Unix(path) => {
                write!(
                    f,
                    "nbd{s}+unix:///{}?socket={}",
                    self.export,
                    path.display()
                )
            }
            NbdAddress::Tcp { host, port } => write!(f, "nbd{s}://{host}:{port}/{}", self.export),
        }
    }
}

/// An image of a Ceph cluster (RBD) as an origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RbdSpec {
    /// The one text for it, by which its clients are remembered and people know it.
    pub name: String,
    /// The cluster's configuration file; Ceph's usual places if none.
    pub conf: Option<PathBuf>,
    /// Who asks, without `client.`; `admin` if none.
    pub user: Option<String>,
    /// The pool.
    pub pool: String,
    /// The namespace in the pool; empty for the default one.
    pub namespace: String,
    /// The image.
    pub image: String,
    /// A snapshot of it, which is only read.
    pub snapshot: Option<String>,
    /// How long opening may take.
    pub connect_timeout: Duration,
    /// How long a request may take before it ends with an error.
    pub request_timeout: Duration,
}

impl fmt::Display for RbdSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// A name and its secret (CHAP, RFC 1994).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chap {
    /// The name.
    pub user: String,
    /// The file whose first line is the secret.
    pub secret_file: PathBuf,
}

/// A logical unit of an iSCSI target as an origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IscsiSpec {
    /// The one text for it, by which it is remembered and people know it.
    pub name: String,
    /// Where the target listens: `host:port`.
    pub portal: String,
    /// The target's name.
    pub target: String,
    /// The unit's number.
    pub unit: u16,
    /// This host's name as an initiator.
    pub initiator: String,
    /// What the target wants to know of this host.
    pub chap: Option<Chap>,
    /// What this host wants to know of the target.
    pub target_chap: Option<Chap>,
    /// How long a login may take.
    pub connect_timeout: Duration,
    /// The longest pause between two logins.
    pub reconnect_pause_max: Duration,
    /// How long a request may take, new logins included.
    pub request_timeout: Duration,
}

impl fmt::Display for IscsiSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}
