//! Log lines about operations of flash and origin that have failed.
//!
//! A dead disk fails thousands of operations a second. Of each kind the first failure is told at
//! once; those that follow within [`FAILURE_PAUSE`] are counted, and told as one line at its end.
//!
//! ```text
//!   failure ──► line            failures ──► counted            failure ──► line
//!           └─ FAILURE_PAUSE ─┘ └─ "N more" ─ FAILURE_PAUSE ─┘
//! ```
//!
//! [`Repeats`] decides which failure is told; the time is passed in.

use crate::limits::FAILURE_PAUSE;
use block_io::{Extent, FailureKind, IoError, PAGE_BYTES};
use cache::Damage;
use events::EventKind;
use std::io;
use std::path::Path;
use units::{DiskSlot, Instant};

/// An operation that has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) kind: FailureKind,
    /// Which bytes it was about; none for a flush, which is about all.
    pub(crate) extent: Option<Extent>,
    pub(crate) error: IoError,
    /// The system's or the server's number for it, if there is one.
    pub(crate) number: Option<i32>,
}

impl Failure {
    /// What the system or the server said, where a guest is told another error: its number and words.
    fn cause(self) -> (Option<i32>, Option<String>) {
        let (_, told) = self.error.errno();
        let cause = self.number.filter(|number| *number != told);
        let words = cause.map(|number| io::Error::from_raw_os_error(number).to_string());
        (cause, words)
    }
}

/// What failures are counted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Subject {
    Flash,
    Disk(DiskSlot),
}

/// What people call a cache and its flash.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlashName<'a> {
    pub(crate) cache: &'a str,
    pub(crate) flash: &'a Path,
}

/// Which failures of a shard are told at once, and how many others there were.
#[derive(Debug, Default)]
pub(crate) struct Repeats(Vec<Repeat>);

/// Failures of one kind that are counted.
#[derive(Debug)]
struct Repeat {
    subject: Subject,
    kind: FailureKind,
    until: Instant,
    counted: u64,
}

impl Repeats {
    /// A failure has happened: whether it is told now.
    fn tells(&mut self, subject: Subject, kind: FailureKind, now: Instant) -> bool {
        let is_it = |repeat: &&mut Repeat| repeat.subject == subject && repeat.kind == kind;
        if let Some(repeat) = self.0.iter_mut().find(is_it) {
            repeat.counted += 1;
            return false;
        }
        self.0.push(Repeat {
            subject,
            kind,
            until: now + FAILURE_PAUSE,
            counted: 0,
        });
        true
    }

    /// What was counted in a pause that has ended: at least one. It is told now, and the next pause
    /// begins. Of what had no failure in its pause, the next one is told at once again.
    fn due(&mut self, now: Instant) -> Option<(Subject, FailureKind, u64)> {
        self.0
            .retain(|repeat| repeat.until > now || repeat.counted > 0);
        let repeat = self.0.iter_mut().find(|repeat| repeat.until <= now)?;
        repeat.until = now + FAILURE_PAUSE;
        let counted = std::mem::take(&mut repeat.counted);
        Some((repeat.subject, repeat.kind, counted))
    }

    /// What was counted and not told of somebody of whom nobody will ask again.
    fn leave(&mut self, subject: Subject) -> Vec<(FailureKind, u64)> {
        let leaving = self.0.extract_if(.., |repeat| repeat.subject == subject);
        let counted = leaving.filter(|repeat| repeat.counted > 0);
        counted
            .map(|repeat| (repeat.kind, repeat.counted))
            .collect()
    }

    /// When a pause ends.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.0.iter().map(|repeat| repeat.until).min()
    }

    /// The flash has failed an operation. Guests are not hurt.
    pub(crate) fn flash_failed(&mut self, at: FlashName<'_>, failure: Failure, now: Instant) {
        if !self.tells(Subject::Flash, failure.kind, now) {
            return;
        }
        let (error_name, errno) = failure.error.errno();
        let (cause_errno, cause) = failure.cause();
        let kind = failure.kind;
        tracing::warn!(
            event = EventKind::FlashFailed.word(),
            kind = kind.name(), message_id = kind.message_id(), cache = at.cache,
            flash = %at.flash.display(), offset = offset(failure), length = length(failure),
            error = error_name, errno, cause_errno, cause, "the flash failed {}: {}", doing(kind), failure.error
        );
    }

    /// An origin has failed an operation.
    pub(crate) fn origin_failed(
        &mut self,
        slot: DiskSlot,
        disk: &str,
        failure: Failure,
        now: Instant,
    ) {
        if !self.tells(Subject::Disk(slot), failure.kind, now) {
            return;
        }
        let (error_name, errno) = failure.error.errno();
        let (cause_errno, cause) = failure.cause();
        let kind = failure.kind;
        tracing::error!(
            event = EventKind::OriginFailed.word(),
            kind = kind.name(),
            message_id = kind.message_id(),
            disk,
            offset = offset(failure),
            length = length(failure),
            error = error_name,
            errno,
            cause_errno,
            cause,
            "the origin failed {}: {}",
            doing(kind),
            failure.error
        );
    }

    /// Tells of failures that were counted, in pauses that have ended.
    pub(crate) fn tell_due<'a>(
        &mut self,
        cache: &str,
        disk: impl Fn(DiskSlot) -> Option<&'a str>,
        now: Instant,
    ) {
        while let Some((subject, kind, count)) = self.due(now) {
            let disk = match subject {
                Subject::Flash => None,
                Subject::Disk(slot) => disk(slot),
            };
            tell_of_more(kind, disk, cache, count);
        }
    }

    /// A block came from flash and is not what was written there.
    pub(crate) fn flash_damaged(
        &mut self,
        at: FlashName<'_>,
        disk: Option<&str>,
        damage: Damage,
        now: Instant,
    ) {
        const KIND: FailureKind = FailureKind::FlashDamaged;
        if !self.tells(Subject::Disk(damage.disk), KIND, now) {
            return;
        }
        tracing::warn!(
            event = EventKind::FlashDamaged.word(),
            kind = KIND.name(), message_id = KIND.message_id(), disk,
            offset = damage.block.map(|block| block.start().get()), length = PAGE_BYTES,
            cache = at.cache, flash = %at.flash.display(), flash_offset = damage.at.get(),
            "a block on flash is damaged: its checksum is wrong"
        );
    }

    /// Tells of all failures of a disk that were counted, before it leaves.
    pub(crate) fn tell_last(&mut self, slot: DiskSlot, disk: &str, cache: &str) {
        for (kind, count) in self.leave(Subject::Disk(slot)) {
            tell_of_more(kind, Some(disk), cache, count);
        }
    }
}

fn tell_of_more(kind: FailureKind, disk: Option<&str>, cache: &str, count: u64) {
    tracing::warn!(
        kind = kind.name(),
        message_id = kind.message_id(),
        disk,
        cache,
        count,
        "more failures of this kind since the last line about it"
    );
}

fn doing(kind: FailureKind) -> &'static str {
    match kind {
        FailureKind::OriginRead | FailureKind::FlashRead => "to read",
        FailureKind::OriginFlush | FailureKind::FlashFlush => "to flush",
        _ => "to write",
    }
}

fn offset(failure: Failure) -> Option<u64> {
    failure.extent.map(|extent| extent.offset.get())
}

fn length(failure: Failure) -> Option<u64> {
    failure.extent.map(|extent| extent.length.get())
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Duration;

    const READ: FailureKind = FailureKind::OriginRead;
    const WRITE: FailureKind = FailureKind::OriginWrite;

    #[test]
    fn a_cause_is_named_where_a_guest_is_told_another_error() {
        let failure = |number| Failure {
            kind: READ,
            extent: None,
            error: IoError::Failed,
            number,
        };
        assert_eq!(failure(None).cause(), (None, None));
        assert_eq!(failure(Some(5)).cause(), (None, None));
        let (number, words) = failure(Some(12)).cause();
        assert_eq!(number, Some(12));
        assert!(words.unwrap().contains("memory"));
    }

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    fn disk(number: u16) -> Subject {
        Subject::Disk(DiskSlot::new(number))
    }

    #[test]
    fn the_first_failure_of_each_kind_is_told_and_the_next_ones_are_counted() {
        let mut repeats = Repeats::default();
        assert!(repeats.tells(disk(1), READ, at(0)));
        assert!(repeats.tells(disk(1), WRITE, at(1)));
        assert!(repeats.tells(disk(2), READ, at(1)));
        for _ in 0..1000 {
            assert!(!repeats.tells(disk(1), READ, at(2)));
        }
        let end = at(0) + FAILURE_PAUSE;
        assert_eq!(repeats.next_deadline(), Some(end));
        assert_eq!(repeats.due(at(2)), None);
        assert_eq!(repeats.due(end), Some((disk(1), READ, 1000)));
        assert_eq!(repeats.due(end), None);
        assert!(
            !repeats.tells(disk(1), READ, end),
            "the next pause has begun"
        );
    }

    #[test]
    fn what_was_quiet_for_a_pause_is_told_at_once_again() {
        let mut repeats = Repeats::default();
        assert!(repeats.tells(Subject::Flash, READ, at(0)));
        assert_eq!(repeats.due(at(0) + FAILURE_PAUSE), None);
        assert_eq!(repeats.next_deadline(), None, "nothing is left to wait for");
        assert!(repeats.tells(Subject::Flash, READ, at(0) + FAILURE_PAUSE));
    }

    #[test]
    fn what_was_counted_of_a_disk_is_told_before_it_leaves() {
        let mut repeats = Repeats::default();
        for subject in [disk(1), disk(2)] {
            assert!(repeats.tells(subject, READ, at(0)));
            assert!(repeats.tells(subject, WRITE, at(0)));
            assert!(!repeats.tells(subject, WRITE, at(1)));
        }
        assert_eq!(repeats.leave(disk(1)), [(WRITE, 1)]);
        assert!(
            repeats.tells(disk(1), WRITE, at(2)),
            "the slot is another disk's now"
        );
        assert!(!repeats.tells(disk(2), WRITE, at(2)));
    }
}
