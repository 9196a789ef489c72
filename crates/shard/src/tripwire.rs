//! A loop that panics ends the process.

/// Ends the process when the loop panics. A broken invariant means that the state in memory is
/// not to be trusted; left alone, the thread would take its disks with it while the daemon
/// seems alive. Started anew by its supervisor, the cache recovers from what is on flash, which
/// holds nothing that was not checked before it was written.
pub(crate) struct Tripwire;

impl Drop for Tripwire {
    fn drop(&mut self) {
        if std::thread::panicking() {
            tracing::error!("a shard broke an invariant: the process ends to be started anew");
            std::process::abort();
        }
    }
}
