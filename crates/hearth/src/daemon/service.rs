//! What systemd is told, and what it hands over: readiness, state, a watchdog's sign of life,
//! and listening sockets. Without systemd all of it does nothing.

use listenfd::ListenFd;
use sd_notify::NotifyState;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::Duration;

/// Sockets that systemd listens on for us, until they are taken.
pub(super) struct Inherited {
    unix: Vec<UnixListener>,
    /// Sockets of other kinds, which Hearth has no use for.
    others: usize,
}

impl Inherited {
    /// Takes the sockets of this process's environment. To be called before any thread is
    /// started, because it changes the environment.
    pub(super) fn take() -> Self {
        let mut fds = ListenFd::from_env();
        let mut inherited = Self {
            unix: Vec::new(),
            others: 0,
        };
        for at in 0..fds.len() {
            match fds.take_unix_listener(at) {
                Ok(Some(listener)) => inherited.unix.push(listener),
                Ok(None) | Err(_) => inherited.others += 1,
            }
        }
        inherited
    }

    /// The unix socket that is bound to this path, if systemd has it.
    pub(super) fn unix(&mut self, path: &Path) -> Option<UnixListener> {
        let at = self.unix.iter().position(|listener| {
            let address = listener.local_addr().ok();
            address.as_ref().and_then(|address| address.as_pathname()) == Some(path)
        })?;
        Some(self.unix.swap_remove(at))
    }

    /// How many are left that the configuration does not name.
    pub(super) fn unclaimed(&self) -> usize {
        self.unix.len() + self.others
    }
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
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(%error, "cannot notify the service manager");
    }
}
