//! The sessions of this process with origins that only one host may write, until the origins are closed.
//!
//! Such an origin is closed on a thread of its own, because its far side may take its time. The lock is held until then, so
//! whoever opens the origin next, here or on another host, waits for that.

use crate::OpenError;
use std::collections::BTreeMap;
use std::io;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a session is waited for that is being closed.
const CLOSING_TIME_MAX: Duration = Duration::from_secs(10);

static OPEN: Mutex<BTreeMap<String, usize>> = Mutex::new(BTreeMap::new());
static CLOSED: Condvar = Condvar::new();

fn open() -> MutexGuard<'static, BTreeMap<String, usize>> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A session with an origin. It is over when this is dropped.
#[derive(Debug)]
pub(crate) struct Session(String);

impl Session {
    fn begin(origin: &str) -> Self {
        *open().entry(origin.to_owned()).or_default() += 1;
        Self(origin.to_owned())
    }

    /// Begins one when those before it are over, which may take [`CLOSING_TIME_MAX`].
    ///
    /// # Errors
    /// [`OpenError::InUse`] if one goes on.
    pub(crate) fn alone(origin: &str) -> Result<Self, OpenError> {
        if Self::wait_for_end(origin, CLOSING_TIME_MAX) {
            return Ok(Self::begin(origin));
        }
        Err(OpenError::InUse {
            origin: origin.to_owned(),
            by: "another disk of this daemon".into(),
        })
    }

    /// Waits until none with the origin is open here; `still` tells people what is kept until then.
    ///
    /// # Errors
    /// [`io::ErrorKind::TimedOut`] if one goes on for longer than [`CLOSING_TIME_MAX`].
    pub(crate) fn settle(origin: &str, still: &str) -> io::Result<()> {
        if Self::wait_for_end(origin, CLOSING_TIME_MAX) {
            return Ok(());
        }
        Err(io::Error::new(io::ErrorKind::TimedOut, still))
    }

    /// Waits until no session with the origin is open here. False if one still is after `limit`.
    fn wait_for_end(origin: &str, limit: Duration) -> bool {
        let until = Instant::now() + limit;
        let mut sessions = open();
        while sessions.contains_key(origin) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let waited = CLOSED.wait_timeout(sessions, left);
            (sessions, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
        true
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let mut sessions = open();
        if let Some(count) = sessions.get_mut(&self.0) {
            *count -= 1;
            if *count == 0 {
                sessions.remove(&self.0);
            }
        }
        drop(sessions);
        CLOSED.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_opens_next_waits_for_the_end() {
        let one = Session::begin("rbd:a/b");
        assert!(!Session::wait_for_end("rbd:a/b", Duration::from_millis(1)));
        assert!(Session::wait_for_end("rbd:a/c", Duration::ZERO));
        let end = std::thread::spawn(move || drop(one));
        assert!(Session::wait_for_end("rbd:a/b", Duration::from_mins(1)));
        let _ = end.join();
    }
}
