//! A time limit for opening an origin: a mounted share whose server is gone, or a library whose cluster does not answer,
//! holds whoever opens there.
//!
//! Opening runs on a thread of its own. If the time is up, the thread stays behind until the far side answers, and what it
//! has opened is closed again. One such thread an origin is enough: while it waits, further attempts fail at once.

use crate::OpenError;
use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use units::Duration;

/// The origins for which somebody has waited in vain, and a thread waits still.
static HELD_UP: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Does `work` with an origin, for no longer than `limit`. `silence` tells people about a far side that does not answer.
///
/// # Errors
/// What `work` says, or [`OpenError::Unreachable`] when it does not come back.
pub(crate) fn within<S, T>(
    spec: &S,
    limit: Duration,
    silence: &'static str,
    work: impl FnOnce(&S) -> Result<T, OpenError> + Send + 'static,
) -> Result<T, OpenError>
where
    S: Clone + fmt::Display + Send + 'static,
    T: Send + 'static,
{
    let origin = spec.to_string();
    let unreachable = |source| OpenError::Unreachable {
        origin: origin.clone(),
        source,
    };
    let does_not_answer = || unreachable(io::Error::new(io::ErrorKind::TimedOut, silence));
    if held_up(|origins| origins.contains(&origin)) {
        return Err(does_not_answer());
    }
    let (tell, told) = channel();
    let (spec, name) = (spec.clone(), origin.clone());
    let thread = thread::Builder::new().name("origin-open".to_owned());
    let spawned = thread.spawn(move || {
        let _back = Back(name);
        let outcome = work(&spec);
        // What nobody waits for any more is closed here.
        let _ = tell.send(outcome);
    });
    spawned.map_err(unreachable)?;
    match told.recv_timeout(limit.to_std()) {
        Ok(outcome) => outcome,
        Err(RecvTimeoutError::Timeout) => {
            held_up(|origins| origins.insert(origin.clone()));
            // The thread may have come back since.
            match told.try_recv() {
                Ok(outcome) => {
                    held_up(|origins| origins.remove(&origin));
                    outcome
                }
                Err(_) => Err(does_not_answer()),
            }
        }
        Err(RecvTimeoutError::Disconnected) => Err(unreachable(io::Error::other(
            "the thread that opens it has ended",
        ))),
    }
}

/// The thread that waited for an origin comes back when this is dropped, even by a panic.
struct Back(String);

impl Drop for Back {
    fn drop(&mut self) {
        held_up(|origins| origins.remove(&self.0));
    }
}

fn held_up<T>(look: impl FnOnce(&mut BTreeSet<String>) -> T) -> T {
    look(&mut HELD_UP.lock().unwrap_or_else(PoisonError::into_inner))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;
    use std::sync::mpsc::Receiver;

    const ORIGIN: &str = "file:/nowhere/held-up";

    fn attempt(opens: Receiver<()>) -> Result<u8, OpenError> {
        within(&ORIGIN, Duration::from_millis(20), "silence", move |_| {
            opens.recv().unwrap();
            Ok(7)
        })
    }

    #[test]
    fn a_share_that_does_not_answer_holds_one_thread_and_nobody_who_waits() {
        let (server, opens) = channel();
        for opens in [opens, channel().1] {
            let error = attempt(opens).unwrap_err();
            assert!(matches!(error, OpenError::Unreachable { .. }), "{error:?}");
        }
        // The share answers again.
        server.send(()).unwrap();
        while held_up(|origins| origins.contains(ORIGIN)) {
            thread::yield_now();
        }
        let (server, opens) = channel();
        server.send(()).unwrap();
        assert_eq!(attempt(opens).unwrap(), 7);
    }
}
