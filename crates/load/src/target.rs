//! What is loaded: one face for files, NBD exports and vhost-user devices.
//!
//! ```text
//!   Address ── open (blocks; any thread) ──► Vec<Prepared> (Send) ── start (the job's thread) ──► Target
//! ```
//!
//! A target has a buffer for each slot. A read leaves its bytes there; a write takes what it is
//! given, or what lies there.

mod file;
mod memory;
mod nbd;
mod vhost_user;

use crate::LoadError;
use std::fmt;
use std::io;
use std::path::PathBuf;
use units::Duration;

/// Where an NBD server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NbdAddress {
    /// A unix socket.
    Unix(PathBuf),
    /// A TCP port.
    Tcp {
        /// Name or address.
        host: String,
        /// Port.
        port: u16,
    },
}

/// What is loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A file or block device.
    File {
        /// Its path.
        path: PathBuf,
        /// Past the page cache.
        direct: bool,
    },
    /// An export of an NBD server.
    Nbd {
        /// The server.
        server: NbdAddress,
        /// The export's name.
        export: String,
    },
    /// A vhost-user-blk device.
    VhostUser {
        /// Its socket.
        socket: PathBuf,
    },
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, .. } => write!(f, "{}", path.display()),
            Self::Nbd { server, export } => {
                let name = if export.is_empty() { "''" } else { export };
                match server {
                    NbdAddress::Unix(path) => write!(f, "export {name} of {}", path.display()),
                    NbdAddress::Tcp { host, port } => write!(f, "export {name} of {host}:{port}"),
                }
            }
            Self::VhostUser { socket } => write!(f, "vhost-user device {}", socket.display()),
        }
    }
}

impl Address {
    pub(crate) fn unreachable(&self, source: io::Error) -> LoadError {
        let target = self.to_string();
        match source.kind() {
            io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::UnexpectedEof => LoadError::HungUp { target, source },
            _ => LoadError::Unreachable { target, source },
        }
    }

    pub(crate) fn refused(&self, reason: impl Into<String>) -> LoadError {
        LoadError::Refused {
            target: self.to_string(),
            reason: reason.into(),
        }
    }
}

/// Size and abilities of a target.
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is a request that a target serves or not"
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Geometry {
    /// In bytes.
    pub(crate) size: u64,
    /// What offsets and lengths are multiples of, in bytes.
    pub(crate) unit: u32,
    /// The largest request, in bytes.
    pub(crate) request_max: u32,
    /// The longest trim or write-zeroes, in bytes.
    pub(crate) erase_max: u32,
    /// Requests of one job in flight.
    pub(crate) depth_max: usize,
    pub(crate) read_only: bool,
    pub(crate) can_trim: bool,
    pub(crate) can_zero: bool,
    pub(crate) can_flush: bool,
}

/// What the jobs need of their targets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Needs {
    pub(crate) jobs: usize,
    /// Requests of a job in flight.
    pub(crate) depth: usize,
    /// The largest request, in bytes.
    pub(crate) request_bytes: usize,
    /// Whether anything is changed.
    pub(crate) writes: bool,
    /// Whether the bytes of reads are looked at.
    pub(crate) keeps_data: bool,
}

/// One request. Offsets and lengths are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    Read { offset: u64, length: u32 },
    Write { offset: u64, length: u32 },
    Trim { offset: u64, length: u32 },
    WriteZeroes { offset: u64, length: u32 },
    Flush { data_only: bool },
}

/// A request has ended.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) slot: usize,
    pub(crate) result: io::Result<()>,
}

/// A target on a job's thread.
///
/// An error of [`Target::submit`] or [`Target::wait`] is the target's end: what is in flight
/// will not be answered.
pub(crate) trait Target {
    /// Takes a request in a slot that has none in flight. It goes out with the next
    /// [`Target::wait`] at the latest. `data` are a write's bytes; without them it writes
    /// whatever is at hand, which is not all zeroes.
    fn submit(&mut self, slot: usize, request: Request, data: Option<&[u8]>) -> io::Result<()>;

    /// Waits until something has happened or the time is up, and appends what has ended.
    fn wait(&mut self, timeout: Duration, done: &mut Vec<Done>) -> io::Result<()>;

    /// Copies out the first bytes of what the last read in this slot read. Only for targets that
    /// were told to keep them.
    fn fetch(&mut self, slot: usize, into: &mut [u8]);
}

/// A target that can move to its job's thread.
pub(crate) enum Prepared {
    File(file::OpenFile),
    Nbd(nbd::Connected),
    VhostUser(vhost_user::Attached),
}

impl Prepared {
    /// The target, on the thread that will use it.
    pub(crate) fn start(self, needs: &Needs) -> io::Result<Box<dyn Target>> {
        Ok(match self {
            Self::File(file) => Box::new(file::FileTarget::new(file, needs)?),
            Self::Nbd(connected) => Box::new(nbd::NbdTarget::new(connected, needs)?),
            Self::VhostUser(attached) => {
                Box::new(vhost_user::VhostUserTarget::new(attached, needs)?)
            }
        })
    }
}

/// Opens a target for all jobs.
pub(crate) fn open(
    address: &Address,
    needs: &Needs,
) -> Result<(Geometry, Vec<Prepared>), LoadError> {
    match address {
        Address::File { path, direct } => file::open(address, path, *direct, needs),
        Address::Nbd { server, export } => nbd::open(address, server, export, needs),
        Address::VhostUser { socket } => vhost_user::open(address, socket, needs),
    }
}

/// Bytes to write where nobody asked for any in particular: nothing that could be compressed or
/// taken for a hole.
pub(crate) fn fill_with_noise(bytes: &mut [u8]) {
    units::Prng::new(0x006e_6f69_7365).fill(bytes);
}

/// A result in which less was moved than was asked for is an error.
pub(crate) fn whole(result: io::Result<usize>, expected: usize) -> io::Result<()> {
    match result {
        Ok(moved) if moved == expected => Ok(()),
        Ok(moved) => {
            let short = format!("only {moved} of {expected} bytes were moved");
            Err(io::Error::new(io::ErrorKind::UnexpectedEof, short))
        }
        Err(error) => Err(error),
    }
}
