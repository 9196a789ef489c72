//! What is borrowed of a disk that has come from another host, as its [`Row`] says: what is asked for as
//! reads need it, and what is pulled into the cache behind the disk.

use super::plan::manner;
use super::pulling::Pull;
use super::steps::Steps;
use super::{Happens, Tell};
use std::sync::Arc;
use std::time::Instant;
use strategies::{Place, Row};
use tokio::task::AbortHandle;

/// What is borrowed of a disk that is here.
pub(super) struct Borrowing {
    /// Which the disk came with.
    epoch: u64,
    row: Row,
    steps: Arc<Steps>,
    tell: Tell,
    /// What pulls, while there is a session.
    pulling: Option<AbortHandle>,
}

impl Drop for Borrowing {
    fn drop(&mut self) {
        self.stop_pulling();
    }
}

impl Borrowing {
    /// Begins when the disk has come.
    pub(super) fn begin(epoch: u64, steps: Arc<Steps>, tell: Tell) -> Self {
        let mut borrowing = Self {
            epoch,
            row: steps.plan.row(),
            steps,
            tell,
            pulling: None,
        };
        let (handle, id) = (&borrowing.steps.handle, borrowing.steps.entry.id);
        handle.borrow(id, manner(borrowing.row));
        borrowing.pull();
        borrowing
    }

    fn pull(&mut self) {
        let (lists, from) = (manner(self.row).is_some(), self.row.behind);
        let (steps, tell) = (Arc::clone(&self.steps), self.tell.clone());
        let pulling = tokio::spawn(pull_all(lists, from, steps, tell));
        self.pulling = Some(pulling.abort_handle());
    }

    fn stop_pulling(&mut self) {
        if let Some(pulling) = self.pulling.take() {
            pulling.abort();
        }
    }

    /// Which epoch the disk came with.
    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// A session with the other host has begun, or has ended.
    pub(super) fn linked(&mut self, is_linked: bool) {
        // It is stopped first: it would take what is dropped for a refusal.
        self.stop_pulling();
        let id = self.steps.entry.id;
        self.steps.handle.set_lender_linked(id, is_linked);
        if is_linked {
            self.pull();
        }
    }
}

/// Lists and pulls everything.
async fn pull_all(lists: bool, from: Option<Place>, steps: Arc<Steps>, tell: Tell) {
    let (id, disk) = (steps.entry.id, &steps.entry.config.name);
    let (began, lender) = (Instant::now(), steps.peering.there());
    let pull = Pull::new(lists, from, &steps, tell.clone());
    let came = pull.round().await;
    let seconds = began.elapsed().as_secs_f64();
    if let (Some(blocks), None) = (came, from) {
        // What is listed stays there, to be read.
        tracing::info!(%disk, from = lender, blocks, seconds, "the disk's cache is read where it is");
        return;
    }
    // Without an answer, too: what is listed would be asked for in vain.
    steps.handle.borrow(id, None);
    let _ = tell.send(Happens::Pulled);
    if let Some(blocks) = came {
        tracing::info!(%disk, from = lender, blocks, seconds, "the disk's cache has come");
    } else {
        tracing::info!(%disk, from = lender, "the disk's last host lends nothing more: \
            the cache fills as the disk is read");
    }
}
