//! Listening sockets, which outlive the process that made them: who connects while the daemon is
//! restarted waits in a socket's queue instead of being refused.
//!
//! ```text
//!   a socket unit of systemd's, by path ────────────┐
//!   systemd's store of descriptors, by name ────────┼─► Sockets ─► served here
//!   ourselves before we became another, by name ────┤      │
//!   nobody: bound anew ─────────────────────────────┘      ├─► FDSTORE=1, at once: for who comes
//!                                                          │   after a crash or a restart
//!                                                          └─► heirs(): for who we become
//! ```
//!
//! A socket's name is `INODE.PATH`: the inode of the file that clients connect to, so that a socket
//! whose file was replaced meanwhile is not taken for the one that clients reach. The path goes with
//! the socket when what it leads to has gone (a disk was detached), and stays when the daemon ends
//! and somebody keeps the socket.
//!
//! Connections to origins' NBD servers are kept in the same way, under `origin.HASH.NUMBER`: over
//! them the next process learns which writes of this one the server still had in hand.

use super::service::{self, Inherited};
use super::socket::{self, SocketError, SocketPath};
use origin::KeepSockets;
use std::collections::BTreeMap;
use std::fmt;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Longest name of a descriptor that systemd stores.
const NAME_BYTES_MAX: usize = 255;

struct State {
    inherited: Inherited,
    /// A copy of each socket that somebody may get after us.
    kept: BTreeMap<String, OwnedFd>,
    /// Sockets outlive us from here on: their paths stay.
    is_leaving: bool,
}

/// All sockets of the daemon that outlive it.
pub(super) struct Sockets {
    /// Held for the few system calls that opening a socket takes; no request passes here.
    state: Mutex<State>,
    /// Connections to origins' servers, by name. Held for one operation on the map.
    origins: Mutex<BTreeMap<String, OwnedFd>>,
    /// To a thread that tells the service manager what it need not keep: a shard must not wait for
    /// that.
    forgotten: Option<Sender<String>>,
}

impl fmt::Debug for Sockets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sockets")
    }
}

impl KeepSockets for Sockets {
    fn keep(&self, name: &str, socket: BorrowedFd<'_>) {
        service::store(name, socket);
        if let Ok(copy) = socket.try_clone_to_owned() {
            self.origins().insert(name.to_owned(), copy);
        }
    }

    fn release(&self, name: &str) {
        drop(self.origins().remove(name));
        if let Some(forgotten) = &self.forgotten {
            // The thread ends with the process.
            let _ = forgotten.send(name.to_owned());
        }
    }

    fn kept(&self, prefix: &str) -> Vec<(String, OwnedFd)> {
        let origins = self.origins();
        let named = origins.iter().filter(|(name, _)| name.starts_with(prefix));
        let copies = named.map(|(name, fd)| Some((name.clone(), fd.try_clone().ok()?)));
        copies.flatten().collect()
    }
}

/// A thread that tells the service manager, if there is one.
fn tell_what_is_forgotten() -> Option<Sender<String>> {
    if !service::is_managed() {
        return None;
    }
    let (sender, names) = channel::<String>();
    let thread = std::thread::Builder::new().name("forget".to_owned());
    let spawned = thread.spawn(move || names.iter().for_each(|name| service::forget(&name)));
    // Without it the service manager forgets connections when their servers end them.
    spawned.ok().map(|_| sender)
}

/// The path of a socket, which goes when this is dropped unless the socket outlives us.
pub(super) struct Place {
    sockets: Arc<Sockets>,
    name: String,
    /// None of a socket that is somebody else's.
    path: Option<SocketPath>,
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.sockets.lets_stay(&self.name)
            && let Some(path) = self.path.take()
        {
            path.leave();
        }
    }
}

impl Sockets {
    pub(super) fn new(mut inherited: Inherited) -> Arc<Self> {
        let origins = inherited.take_origins().into_iter().collect();
        Arc::new(Self {
            origins: Mutex::new(origins),
            forgotten: tell_what_is_forgotten(),
            state: Mutex::new(State {
                inherited,
                kept: BTreeMap::new(),
                is_leaving: false,
            }),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere leaves the state whole: every change is one operation on a map.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn origins(&self) -> MutexGuard<'_, BTreeMap<String, OwnedFd>> {
        self.origins.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the kept connections to servers of origins that no disk has, by what the names of the
    /// others begin with.
    pub(super) fn let_go_of_origins(&self, wanted: &[String]) {
        let is_wanted = |name: &String| wanted.iter().any(|prefix| name.starts_with(prefix));
        let gone = self
            .origins()
            .extract_if(.., |name, _| !is_wanted(name))
            .collect::<Vec<_>>();
        for (name, socket) in gone {
            // One that has ended needs no word.
            let _ = rustix::net::shutdown(&socket, rustix::net::Shutdown::Write);
            self.release(&name);
        }
    }

    /// Listens on a unix socket: the one that was inherited for this path, or a new one.
    ///
    /// # Errors
    /// If somebody else listens there, something else is there, or the system refuses.
    pub(super) fn unix(
        self: &Arc<Self>,
        path: &Path,
        mode: u32,
        group: Option<&str>,
    ) -> Result<(UnixListener, Place), SocketError> {
        let mut state = self.lock();
        let failed = |source| SocketError::Io {
            path: path.to_owned(),
            source,
        };
        let (listener, ours, name) = if let Some(theirs) = state.inherited.unix_at(path) {
            theirs.set_nonblocking(true).map_err(failed)?;
            (theirs, None, path.display().to_string())
        } else if let Some((listener, inode)) = inherited(&mut state, path) {
            listener.set_nonblocking(true).map_err(failed)?;
            let ours = socket::taken_over(path, inode, mode, group)?;
            (listener, Some(ours), name(path, inode))
        } else {
            let (listener, ours) = socket::listen(path, mode, group)?;
            let name = name(path, ours.inode());
            if is_storable(&name) {
                service::store(&name, listener.as_fd());
            }
            (listener, Some(ours), name)
        };
        // Without a copy of it clients are refused during a restart, which they have to bear anyway.
        if let Ok(copy) = listener.try_clone() {
            state.kept.insert(name.clone(), copy.into());
        }
        let sockets = Arc::clone(self);
        let place = Place {
            sockets,
            name,
            path: ours,
        };
        Ok((listener, place))
    }

    /// The socket for a TCP address, if one was inherited.
    pub(super) fn tcp(&self, address: SocketAddr) -> Option<TcpListener> {
        self.lock().inherited.tcp_at(address)
    }

    /// Lets a TCP socket outlive us.
    pub(super) fn keep_tcp(&self, address: SocketAddr, listener: &impl AsFd, is_new: bool) {
        // No colons: names are put in a row with colons between them.
        let name = format!("tcp.{}", address.to_string().replace(':', "."));
        if is_new {
            service::store(&name, listener.as_fd());
        }
        if let Ok(copy) = listener.as_fd().try_clone_to_owned() {
            self.lock().kept.insert(name, copy);
        }
    }

    /// Closes the inherited sockets of ours that nobody has asked for, but not the one at `except`.
    pub(super) fn let_go(&self, except: Option<&Path>) {
        let is_idle = |name: &str| {
            let place = parse(name);
            place.is_some_and(|(_, path)| Some(path.as_path()) != except)
        };
        for (name, listener) in self.lock().inherited.take_unix(is_idle) {
            drop(listener);
            if let Some((inode, path)) = parse(&name) {
                tracing::info!(path = %path.display(), "nobody has asked for this socket");
                service::forget(&name);
                drop(SocketPath::new(path, inode));
            }
        }
    }

    /// Closes what others opened for us and nobody will ask for. Returns how many these were.
    pub(super) fn close_foreign(&self) -> usize {
        let mut state = self.lock();
        let unix = state.inherited.take_unix(|name| parse(name).is_none());
        unix.len() + state.inherited.close_others()
    }

    /// From here on sockets outlive us, if there is anybody to keep them.
    pub(super) fn leave(&self, has_successor: bool) {
        self.lock().is_leaving = has_successor || service::is_managed();
    }

    /// What a successor gets.
    pub(super) fn heirs(&self) -> Vec<(String, OwnedFd)> {
        let origins = std::mem::take(&mut *self.origins());
        let listening = std::mem::take(&mut self.lock().kept);
        listening.into_iter().chain(origins).collect()
    }

    /// A socket is closed here. True if it lives on elsewhere.
    fn lets_stay(&self, name: &str) -> bool {
        let mut state = self.lock();
        if !state.is_leaving && state.kept.remove(name).is_some() && parse(name).is_some() {
            service::forget(name);
        }
        state.is_leaving && is_storable(name)
    }
}

/// The inherited socket that clients reach by this path, and its file's inode.
fn inherited(state: &mut State, path: &Path) -> Option<(UnixListener, u64)> {
    let inode = std::fs::symlink_metadata(path).ok()?.ino();
    let listener = state.inherited.unix_named(&name(path, inode))?;
    Some((listener, inode))
}

fn name(path: &Path, inode: u64) -> String {
    format!("{inode}.{}", path.display())
}

/// Whether a name can be told to a successor: systemd's rule, and colons stand between names.
fn is_storable(name: &str) -> bool {
    let fit = |c: char| c.is_ascii() && !c.is_ascii_control() && c != ':';
    name.len() <= NAME_BYTES_MAX && name.chars().all(fit)
}

/// The inode and path of a name of ours.
fn parse(name: &str) -> Option<(u64, PathBuf)> {
    let (inode, path) = name.split_once('.')?;
    let inode = inode.parse().ok()?;
    path.starts_with('/').then(|| (inode, PathBuf::from(path)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    /// What the next process finds, with the names that it was told.
    fn successor(first: &Sockets) -> Arc<Sockets> {
        let heirs = first.heirs().into_iter();
        let unix = heirs.map(|(name, fd)| (name, UnixListener::from(fd)));
        Sockets::new(Inherited::of(unix.collect()))
    }

    #[test]
    fn who_connects_between_two_daemons_is_served_by_the_second() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let first = Sockets::new(Inherited::of(Vec::new()));
        let (listener, place) = first.unix(&path, 0o600, None).unwrap();
        first.leave(true);
        drop((listener, place));
        let mut client = UnixStream::connect(&path).unwrap();
        let second = successor(&first);
        let (listener, place) = second.unix(&path, 0o660, None).unwrap();
        listener.set_nonblocking(false).unwrap();
        let (mut served, _) = listener.accept().unwrap();
        served.write_all(b"!").unwrap();
        client.read_exact(&mut [0]).unwrap();
        let mode = std::fs::metadata(&path).unwrap().mode();
        assert_eq!(mode & 0o777, 0o660);
        drop((listener, place));
        assert!(!path.exists());
    }

    #[test]
    fn a_socket_whose_file_was_replaced_is_not_taken() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let first = Sockets::new(Inherited::of(Vec::new()));
        let held = first.unix(&path, 0o600, None).unwrap();
        first.leave(true);
        drop(held);
        let second = successor(&first);
        // Made before the other goes, so that it has another inode.
        drop(UnixListener::bind(dir.path().join("new")).unwrap());
        std::fs::rename(dir.path().join("new"), &path).unwrap();
        let (listener, _place) = second.unix(&path, 0o600, None).unwrap();
        let _client = UnixStream::connect(&path).unwrap();
        listener.accept().unwrap();
    }

    #[test]
    fn what_nobody_asks_for_is_closed_with_its_path() {
        let dir = tempfile::tempdir().unwrap();
        let (gone, stays) = (dir.path().join("gone"), dir.path().join("stays"));
        let first = Sockets::new(Inherited::of(Vec::new()));
        let held = [&gone, &stays].map(|path| first.unix(path, 0o600, None).unwrap());
        first.leave(true);
        drop(held);
        let second = successor(&first);
        second.let_go(Some(&stays));
        assert_eq!(second.close_foreign(), 0);
        assert!(!gone.exists());
        let _client = UnixStream::connect(&stays).unwrap();
        let (listener, _place) = second.unix(&stays, 0o600, None).unwrap();
        listener.accept().unwrap();
    }

    #[test]
    fn a_disk_that_was_detached_leaves_no_path() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let sockets = Sockets::new(Inherited::of(Vec::new()));
        drop(sockets.unix(&path, 0o600, None).unwrap());
        assert!(!path.exists());
        assert!(sockets.heirs().is_empty());
    }

    #[test]
    fn names_of_others_are_not_ours() {
        assert_eq!(parse("12./a.b"), Some((12, PathBuf::from("/a.b"))));
        for foreign in ["hearth.socket", "unknown", "12.a", "tcp.0.0.0.0.10809", ""] {
            assert_eq!(parse(foreign), None, "{foreign}");
        }
        assert!(is_storable("12./run/a.sock") && !is_storable("12./run/a:b"));
    }
}
