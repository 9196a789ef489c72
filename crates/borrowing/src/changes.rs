//! What the guests of a disk change at the host that has it, while another one copies its cache ahead.
//!
//! Invariants:
//! - A change is told after it has ended: what is copied behind that has it, or a later one.
//! - A change that was under way when the watch began is told, too.
//! - Once a request has failed nothing is told any more: what the origin has of it, or has lost with it, is not
//!   known.
//! - The same holds once a flush of the origin has failed, whoever asked for the flush: the origin may have lost what
//!   other requests had changed.

use crate::blocks::Blocks;
use crate::guard::{Guard, holds};
use crate::run::Run;
use units::{BlockIndex, Bytes, Offset};

/// The changes of one disk; `K` names a request.
pub struct Changes<K> {
    under_way: Vec<(K, Run)>,
    watch: Option<Watch>,
}

/// What has ended since another host began to copy.
struct Watch {
    changed: Blocks,
    has_failed: bool,
    /// Flushes of the origin that had failed then.
    failed_flushes: u64,
}

impl<K> Default for Changes<K> {
    fn default() -> Self {
        Self {
            under_way: Vec::new(),
            watch: None,
        }
    }
}

impl<K: PartialEq> Changes<K> {
    /// A request begins to change a range that is not empty.
    pub fn begins(&mut self, request: K, offset: Offset, length: Bytes) {
        if length.is_zero() {
            return;
        }
        let first = BlockIndex::containing(offset);
        let last = BlockIndex::containing(Offset::new(offset.get() + length.get() - 1));
        let count = last.get() - first.get() + 1;
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        self.under_way.push((request, Run { first, count }));
    }

    /// A request, of whatever kind, has ended.
    pub fn ends(&mut self, request: &K, has_failed: bool) {
        let at = self.under_way.iter().position(|(one, _)| one == request);
        let change = at.map(|at| self.under_way.swap_remove(at).1);
        let Some(watch) = &mut self.watch else {
            return;
        };
        if let Some(Run { first, count }) = change.filter(|_| holds(Guard::ChangesAreTold)) {
            watch.changed.insert(first, u64::from(count));
        }
        watch.has_failed |= has_failed && holds(Guard::FailureEndsWatch);
    }

    /// Another host begins to copy, after so many flushes of the origin have failed: what ends from now on is told. What
    /// was to be told before is forgotten.
    pub fn watch(&mut self, failed_flushes: u64) {
        self.watch = Some(Watch {
            changed: Blocks::default(),
            has_failed: false,
            failed_flushes,
        });
    }

    /// The other host copies no more.
    pub fn unwatch(&mut self) {
        self.watch = None;
    }

    /// Takes what has changed since the last time, `most` runs of blocks of it; so many flushes of the origin have failed
    /// by now. None: nobody watches, or what has changed is not known.
    pub fn take(&mut self, most: usize, failed_flushes: u64) -> Option<Vec<Run>> {
        let watch = self.watch.as_mut().filter(|watch| !watch.has_failed)?;
        let has_lost = watch.failed_flushes != failed_flushes;
        if has_lost && holds(Guard::FailedFlushEndsCopy) {
            return None;
        }
        Some(watch.changed.take_runs(most))
    }
}
