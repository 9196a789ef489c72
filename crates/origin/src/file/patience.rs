//! A time limit for opening files: a mounted share whose server is gone holds whoever opens a file there.
//!
//! Opening runs on a thread of its own. If the time is up, the thread stays behind until the share answers, and what it
//! has opened is closed again. One such thread a path is enough: while it waits, further attempts fail at once.

use crate::{FileSpec, OpenError, OriginSpec};
use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;

/// The paths at which somebody has waited in vain, and a thread waits still.
static HELD_UP: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Does `work` with a file, for no longer than a request of it may take.
///
/// # Errors
/// What `work` says, or [`OpenError::Unreachable`] when it does not come back.
pub(super) fn within<T: Send + 'static>(
    spec: &FileSpec,
    work: impl FnOnce(&FileSpec) -> Result<T, OpenError> + Send + 'static,
) -> Result<T, OpenError> {
    let unreachable = |source| OpenError::Unreachable {
        origin: OriginSpec::File(spec.clone()).to_string(),
        source,
    };
    let does_not_answer = || {
        let said = "its file system does not answer: look whether the server of the share is there";
        unreachable(io::Error::new(io::ErrorKind::TimedOut, said))
    };
    if held_up(|paths| paths.contains(&spec.path)) {
        return Err(does_not_answer());
    }
    let (tell, told) = channel();
    let owned = spec.clone();
    let thread = thread::Builder::new().name("file-open".to_owned());
    let spawned = thread.spawn(move || {
        let outcome = work(&owned);
        // What nobody waits for any more is closed here.
        let _ = tell.send(outcome);
        held_up(|paths| paths.remove(&owned.path));
    });
    spawned.map_err(unreachable)?;
    match told.recv_timeout(spec.request_timeout.to_std()) {
        Ok(outcome) => outcome,
        Err(RecvTimeoutError::Timeout) => {
            held_up(|paths| paths.insert(spec.path.clone()));
            // The thread may have come back since.
            match told.try_recv() {
                Ok(outcome) => {
                    held_up(|paths| paths.remove(&spec.path));
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

fn held_up<T>(look: impl FnOnce(&mut BTreeSet<PathBuf>) -> T) -> T {
    look(&mut HELD_UP.lock().unwrap_or_else(PoisonError::into_inner))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;
    use std::sync::mpsc::Receiver;
    use units::Duration;

    fn attempt(spec: &FileSpec, opens: Receiver<()>) -> Result<u8, OpenError> {
        within(spec, move |_| {
            opens.recv().unwrap();
            Ok(7)
        })
    }

    #[test]
    fn a_share_that_does_not_answer_holds_one_thread_and_nobody_who_waits() {
        let spec = FileSpec {
            request_timeout: Duration::from_millis(20),
            ..FileSpec::new("/nowhere/held-up".into())
        };
        let (server, opens) = channel();
        for opens in [opens, channel().1] {
            let error = attempt(&spec, opens).unwrap_err();
            assert!(matches!(error, OpenError::Unreachable { .. }), "{error:?}");
        }
        // The share answers again.
        server.send(()).unwrap();
        while held_up(|paths| paths.contains(&spec.path)) {
            thread::yield_now();
        }
        let (server, opens) = channel();
        server.send(()).unwrap();
        assert_eq!(attempt(&spec, opens).unwrap(), 7);
    }
}
