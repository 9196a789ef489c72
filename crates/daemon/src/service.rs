//! What systemd is told, and what it hands over and keeps: readiness, state, a watchdog's sign of
//! life, and listening sockets. Without systemd only a daemon that has become another one gets any.

use listenfd::ListenFd;
use sd_notify::NotifyState;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::Duration;

/// What the names of connections to origins' servers begin with.
const ORIGIN_NAME: &str = "origin.";

/// Sockets that were open before this process began, until they are taken.
#[derive(Default)]
pub(super) struct Inherited {
    unix: Vec<(String, UnixListener)>,
    tcp: Vec<TcpListener>,
    /// Connections to origins' servers, by name.
    origins: Vec<(String, OwnedFd)>,
    /// Sockets of other kinds, which Hearth has no use for.
    others: usize,
}

impl Inherited {
    /// Takes the sockets of this process's environment. To be called before any thread is
    /// started, because it changes the environment.
    pub(super) fn take() -> Self {
        // Looked at first: what follows takes it away.
        let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
        let mut names = names.split(':').map(str::to_owned);
        let mut fds = ListenFd::from_env();
        let mut inherited = Self::default();
        for at in 0..fds.len() {
            let name = names.next().unwrap_or_default();
            if name.starts_with(ORIGIN_NAME) {
                // They are of the same family and type as what listens.
                let unix = fds.take_unix_listener(at).ok().flatten();
                let tcp = || fds.take_tcp_listener(at).ok().flatten().map(OwnedFd::from);
                let connection = unix.map(OwnedFd::from).or_else(tcp);
                inherited.origins.extend(connection.map(|fd| (name, fd)));
            } else if let Ok(Some(listener)) = fds.take_unix_listener(at) {
                inherited.unix.push((name, listener));
            } else if let Ok(Some(listener)) = fds.take_tcp_listener(at) {
                inherited.tcp.push(listener);
            } else {
                inherited.others += 1;
            }
        }
        inherited
    }

    #[cfg(test)]
    pub(super) fn of(unix: Vec<(String, UnixListener)>) -> Self {
        Self {
            unix,
            ..Self::default()
        }
    }

    /// The unix socket that was bound to this path, as a service manager does.
    pub(super) fn unix_at(&mut self, path: &Path) -> Option<UnixListener> {
        let at = self.unix.iter().position(|(_, listener)| {
            let address = listener.local_addr().ok();
            address.as_ref().and_then(|address| address.as_pathname()) == Some(path)
        })?;
        Some(self.unix.swap_remove(at).1)
    }

    /// The unix socket of this name.
    pub(super) fn unix_named(&mut self, name: &str) -> Option<UnixListener> {
        let at = self.unix.iter().position(|(other, _)| other == name)?;
        Some(self.unix.swap_remove(at).1)
    }

    /// The socket that is bound to this address.
    pub(super) fn tcp_at(&mut self, address: SocketAddr) -> Option<TcpListener> {
        let is_it = |listener: &TcpListener| listener.local_addr().is_ok_and(|at| at == address);
        let at = self.tcp.iter().position(is_it)?;
        Some(self.tcp.swap_remove(at))
    }

    /// Takes the unix sockets with names such as these.
    pub(super) fn take_unix(
        &mut self,
        is_such: impl Fn(&str) -> bool,
    ) -> Vec<(String, UnixListener)> {
        self.unix
            .extract_if(.., |(name, _)| is_such(name))
            .collect()
    }

    /// Takes the connections to origins' servers.
    pub(super) fn take_origins(&mut self) -> Vec<(String, OwnedFd)> {
        std::mem::take(&mut self.origins)
    }

    /// Closes the sockets of other kinds. Returns how many these were.
    pub(super) fn close_others(&mut self) -> usize {
        let tcp = std::mem::take(&mut self.tcp);
        tcp.len() + std::mem::take(&mut self.others)
    }
}

/// Whether a service manager listens to us, which also keeps our sockets.
pub(super) fn is_managed() -> bool {
    std::env::var_os("NOTIFY_SOCKET").is_some()
}

/// Gives the service manager a copy of a socket, for the process that comes after this one.
pub(super) fn store(name: &str, fd: BorrowedFd<'_>) {
    let states = [NotifyState::FdStore, NotifyState::FdName(name)];
    told(sd_notify::notify_with_fds(&states, &[fd]));
}

/// Takes it back.
pub(super) fn forget(name: &str) {
    notify(&[NotifyState::FdStoreRemove, NotifyState::FdName(name)]);
}

/// The daemon is about to become another one.
pub(super) fn renewing() {
    let mut states = vec![NotifyState::Reloading, NotifyState::Status("renewing")];
    states.extend(NotifyState::monotonic_usec_now());
    notify(&states);
}

/// The daemon serves.
pub(super) fn ready(status: &str) {
    notify(&[NotifyState::Ready, NotifyState::Status(status)]);
}

/// The daemon is still starting, and may be for this long.
pub(super) fn starting(status: &str, time: units::Duration) {
    notify(&[NotifyState::Status(status), extension(time)]);
}

/// The daemon is about to end; it may take this long.
pub(super) fn stopping(time: units::Duration) {
    notify(&[
        NotifyState::Stopping,
        NotifyState::Status("stopping"),
        extension(time),
    ]);
}

fn extension(time: units::Duration) -> NotifyState<'static> {
    NotifyState::ExtendTimeoutUsec(u32::try_from(time.as_nanos() / 1000).unwrap_or(u32::MAX))
}

/// A sign of life.
pub(super) fn alive() {
    notify(&[NotifyState::Watchdog]);
}

/// How often signs of life are due, with room to spare, if systemd wants them.
pub(super) fn watchdog_interval() -> Option<Duration> {
    sd_notify::watchdog_enabled().map(|limit| limit / 3)
}

fn notify(states: &[NotifyState<'_>]) {
    told(sd_notify::notify(states));
}

fn told(outcome: io::Result<()>) {
    if let Err(error) = outcome {
        tracing::warn!(%error, "cannot notify the service manager");
    }
}
