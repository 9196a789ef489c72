//! The sessions of this process with images that are written, until their images are closed.
//!
//! An image is closed on a thread of its own, because its cluster may take its time. The lock is held until then, so whoever
//! opens the image next, here or on another host, waits for that.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

static OPEN: Mutex<BTreeMap<String, usize>> = Mutex::new(BTreeMap::new());
static CLOSED: Condvar = Condvar::new();

fn open() -> MutexGuard<'static, BTreeMap<String, usize>> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A session with an image. It is over when this is dropped.
#[derive(Debug)]
pub(super) struct Session(String);

impl Session {
    pub(super) fn begin(origin: &str) -> Self {
        *open().entry(origin.to_owned()).or_default() += 1;
        Self(origin.to_owned())
    }

    /// Waits until no session with the image is open here. False if one still is after `limit`.
    pub(super) fn wait_for_end(origin: &str, limit: Duration) -> bool {
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
