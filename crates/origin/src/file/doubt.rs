//! For which bytes of a file no sync can vouch any more.
//!
//! A kernel that could not write bytes back says so to one `fdatasync` and may drop them: the next one
//! that succeeds says nothing of them. So after a failure every byte that had been changed since the
//! last success is in doubt, until it is written again.
//!
//! ```text
//!   write a, sync: good    a is durable
//!   write b, sync: bad     b is in doubt: what the file has there is old or new
//!   sync: not tried, bad   nothing vouches for b
//!   write b, sync: good    b is durable
//! ```
//!
//! Pure: the shell writes and syncs, and says here what has begun and ended. Invariants:
//! - What ended during a sync is not covered by its success.
//! - A change that was submitted before a failure is in doubt, and does not take doubt away.

use super::ranges::Ranges;
use std::ops::Range;

/// What a file's syncs vouch for.
#[derive(Debug, Default)]
pub(super) struct Doubt {
    /// Changed since the sync began that is under way or was last.
    changed: Ranges,
    /// Changed before the sync that is under way began, and not durable yet.
    covered: Ranges,
    /// Old or new, whatever later syncs say.
    lost: Ranges,
    failures: u64,
}

/// A change under way.
#[derive(Clone, Debug)]
pub(super) struct Change {
    /// The bytes that it changes.
    pub(super) range: Range<u64>,
    failures: u64,
}

impl Doubt {
    /// A change is submitted.
    pub(super) fn begin(&self, range: Range<u64>) -> Change {
        let failures = self.failures;
        Change { range, failures }
    }

    /// A change has ended, well or not.
    pub(super) fn changed(&mut self, change: &Change, is_whole: bool) {
        if is_whole && change.failures == self.failures {
            self.lost.remove(&change.range);
        }
        self.changed.insert(change.range.clone());
    }

    /// A sync was issued. Only one is under way at a time.
    pub(super) fn sync_began(&mut self) {
        self.covered.append(&mut self.changed);
    }

    /// It succeeded.
    pub(super) fn synced(&mut self) {
        self.covered.clear();
    }

    /// It failed while these changes were under way. Tells whether anything has come into doubt.
    pub(super) fn sync_failed<'a>(&mut self, under_way: impl Iterator<Item = &'a Change>) -> bool {
        self.failures += 1;
        self.lost.append(&mut self.covered);
        self.lost.append(&mut self.changed);
        for change in under_way {
            self.lost.insert(change.range.clone());
        }
        self.is_any()
    }

    /// Whether there is anything for which a sync cannot vouch.
    pub(super) fn is_any(&self) -> bool {
        !self.lost.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::iter::empty;

    fn write(doubt: &mut Doubt, range: Range<u64>) {
        let change = doubt.begin(range);
        doubt.changed(&change, true);
    }

    #[test]
    fn a_later_success_does_not_vouch_for_what_a_failure_may_have_dropped() {
        let mut doubt = Doubt::default();
        write(&mut doubt, 0..8);
        doubt.sync_began();
        doubt.synced();
        write(&mut doubt, 8..16);
        doubt.sync_began();
        assert!(doubt.sync_failed(empty()));
        doubt.sync_began();
        doubt.synced();
        assert!(doubt.is_any(), "nothing was written again");
        write(&mut doubt, 8..12);
        assert!(doubt.is_any(), "half of it was");
        write(&mut doubt, 12..16);
        assert!(!doubt.is_any(), "what was durable before is not in doubt");
    }

    #[test]
    fn what_ended_during_a_sync_or_was_under_way_is_in_doubt_too() {
        let mut doubt = Doubt::default();
        doubt.sync_began();
        write(&mut doubt, 0..8);
        doubt.synced();
        assert!(doubt.sync_failed(empty()), "the success did not cover it");
        write(&mut doubt, 0..8);

        doubt.sync_began();
        let slow = doubt.begin(8..16);
        assert!(doubt.sync_failed([&slow].into_iter()));
        write(&mut doubt, 0..8);
        doubt.changed(&slow, true);
        assert!(doubt.is_any(), "it was submitted before the failure");
    }

    #[test]
    fn a_change_that_failed_takes_no_doubt_away() {
        let mut doubt = Doubt::default();
        write(&mut doubt, 0..8);
        doubt.sync_failed(empty());
        let change = doubt.begin(0..8);
        doubt.changed(&change, false);
        assert!(doubt.is_any());
    }

    #[test]
    fn a_sync_that_fails_with_nothing_to_cover_leaves_no_doubt() {
        let mut doubt = Doubt::default();
        doubt.sync_began();
        assert!(!doubt.sync_failed(empty()));
    }
}
