//! Who may have bytes of a disk that its origin lacks.
//!
//! Each period in which a disk is attached for writing has an *epoch*. The *owner's record* is kept
//! with the origin and says which cache had the disk last, in which epoch, and whether that cache
//! may still have bytes that the origin lacks (`open`). The same epoch is in the cache's disk table
//! and in each chunk of the dirty log. So a cache that comes back after another one had the disk
//! (its flash was pulled out and put in again, or copied) is told apart.
//!
//! The disk table has an epoch before the record does, so the table of the record's owner is never
//! behind it, and ahead by the attaches that were cut short or could not be recorded: by more than one
//! it is taken for a record that is older than the flash, which costs the clean blocks. Every attach
//! for writing is recorded, under write-back or not: a cache that served a disk before another one
//! did has copies that may be older than the origin, and the fingerprint of most origins does not
//! show it.
//!
//! A standby keeps records of the owner's log in the epoch after the owner's, which is not in its disk table. They count
//! when the record names this cache, open, with that epoch; then the table is behind the record. The copies beside them
//! count only for who has kept them right (`Tenure::Successor`).
//!
//! A disk that was only ever read has no record, and needs none.

use crate::api::{ControlError, DropReason, OwnerRecord};
use crate::guard::{Guard, holds};
use block_store::LockReason;

/// What a flash says of a disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flashed {
    /// Its epoch in the disk table; 0 if it is not there or never had one.
    pub(crate) epoch: u64,
    /// The latest epoch of records above the watermark, if there are any.
    pub(crate) dirty_epoch: Option<u64>,
    pub(crate) locked: Option<LockReason>,
}

/// What becomes of what is on flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It counts, records above the watermark included.
    Serve,
    /// Records above the watermark count, which another host wrote and this one kept; clean blocks do not.
    ServeLog,
    /// The origin has all of it: clean blocks count, and records are void.
    Void,
    /// Nothing of it counts.
    Drop(DropReason),
}

impl Verdict {
    /// Whether records above the watermark count.
    pub(crate) fn serves_log(self) -> bool {
        matches!(self, Self::Serve | Self::ServeLog)
    }

    /// Why clean blocks do not count, if so.
    pub(crate) fn why_drop(self) -> Option<DropReason> {
        match self {
            Self::Drop(reason) => Some(reason),
            // Only who kept the log knows what has become stale of the copies beside it.
            Self::ServeLog => Some(DropReason::OtherOwner),
            Self::Serve | Self::Void => None,
        }
    }
}

const OTHER_OWNER: Verdict = Verdict::Drop(DropReason::OtherOwner);

/// Judges what cache `here` has on flash by the record that is kept with the origin.
pub(crate) fn judge(
    record: Option<OwnerRecord>,
    here: u128,
    flash: Flashed,
) -> Result<Verdict, ControlError> {
    if !holds(Guard::Epoch) {
        return Ok(Verdict::Serve);
    }
    let unrecorded = |epoch| Err(ControlError::Unrecorded { epoch });
    let Some(record) = record else {
        return match (flash.dirty_epoch, flash.locked) {
            (Some(epoch), _) => unrecorded(epoch),
            // It was never attached for writing, so the log that it may have is none.
            (None, Some(LockReason::Unbelievable)) if flash.epoch == 0 => Ok(Verdict::Serve),
            (None, Some(reason)) => Err(ControlError::Locked(reason)),
            (None, None) => Ok(Verdict::Serve),
        };
    };
    if record.open && record.cache != here {
        return Err(ControlError::Elsewhere { record });
    }
    let is_shipped = record.cache == here
        && record.open
        && flash.epoch < record.epoch
        && flash.dirty_epoch == Some(record.epoch);
    if is_shipped {
        return match flash.locked {
            Some(reason) => Err(ControlError::Locked(reason)),
            None if holds(Guard::ShippedLogAlone) => Ok(Verdict::ServeLog),
            None => Ok(Verdict::Serve),
        };
    }
    if record.cache != here || flash.epoch < record.epoch {
        // Somebody else has written the origin since, or this flash is an older copy.
        return if record.open {
            Err(ControlError::Lost { record })
        } else {
            Ok(OTHER_OWNER)
        };
    }
    // Of a locked log there may be no record that can be read.
    let has_log = flash.dirty_epoch.is_some() || flash.locked.is_some();
    match (flash.dirty_epoch, flash.locked) {
        (Some(epoch), _) if epoch > record.epoch => unrecorded(epoch),
        (_, Some(reason)) if record.open => Err(ControlError::Locked(reason)),
        (Some(_), None) if record.open => Ok(Verdict::Serve),
        // The record is older than the flash: the origin was put back to what it was before.
        _ if flash.epoch > record.epoch + 1 => Ok(OTHER_OWNER),
        // What is missing of the log may have been newer than clean blocks that are there.
        (_, Some(LockReason::Damaged)) => Ok(Verdict::Drop(DropReason::LogDamaged)),
        _ if has_log => Ok(Verdict::Void),
        _ => Ok(Verdict::Serve),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: u128 = 1;
    const OTHER: u128 = 2;

    #[allow(clippy::unnecessary_wraps, reason = "beside no record")]
    fn record(cache: u128, epoch: u64, open: bool) -> Option<OwnerRecord> {
        Some(OwnerRecord { epoch, cache, open })
    }

    fn flash(epoch: u64, dirty_epoch: Option<u64>) -> Flashed {
        Flashed {
            epoch,
            dirty_epoch,
            locked: None,
        }
    }

    #[test]
    fn the_record_decides_what_counts() {
        use Verdict::{Serve, Void};
        let drop = OTHER_OWNER;
        let elsewhere = |record: Option<OwnerRecord>| {
            Err(ControlError::Elsewhere {
                record: record.unwrap(),
            })
        };
        let lost = |record: Option<OwnerRecord>| {
            Err(ControlError::Lost {
                record: record.unwrap(),
            })
        };
        let unrecorded = |epoch| Err(ControlError::Unrecorded { epoch });
        let [closed, open] = [false, true].map(|open| record(HERE, 5, open));
        let [closed_there, open_there] = [false, true].map(|open| record(OTHER, 5, open));
        let table = [
            // No record: the disk was only ever read, or the record is lost.
            (None, flash(0, None), Ok(Serve)),
            (None, flash(5, None), Ok(Serve)),
            (None, flash(5, Some(5)), unrecorded(5)),
            // It was kept for the host that had the disk before, and has come after it, or not.
            (open, flash(4, Some(5)), Ok(Verdict::ServeLog)),
            (open, flash(4, Some(4)), lost(open)),
            (closed, flash(4, Some(5)), Ok(drop)),
            (open_there, flash(4, Some(5)), elsewhere(open_there)),
            // Closed by this cache.
            (closed, flash(5, None), Ok(Serve)),
            (closed, flash(6, None), Ok(Serve)),
            (closed, flash(5, Some(5)), Ok(Void)),
            (closed, flash(6, Some(4)), Ok(Void)),
            (closed, flash(6, Some(6)), unrecorded(6)),
            (closed, flash(4, None), Ok(drop)),
            (closed, flash(4, Some(4)), Ok(drop)),
            (closed, flash(0, None), Ok(drop)),
            (closed, flash(8, None), Ok(drop)),
            // Closed by another one.
            (closed_there, flash(5, None), Ok(drop)),
            (closed_there, flash(4, Some(4)), Ok(drop)),
            (closed_there, flash(6, Some(6)), Ok(drop)),
            // Open, and this cache has it.
            (open, flash(5, Some(5)), Ok(Serve)),
            (open, flash(6, Some(5)), Ok(Serve)),
            (open, flash(5, Some(3)), Ok(Serve)),
            (open, flash(5, None), Ok(Serve)),
            (open, flash(6, None), Ok(Serve)),
            (open, flash(6, Some(6)), unrecorded(6)),
            // Open, and this flash is not the one that has it.
            (open, flash(4, Some(4)), lost(open)),
            (open, flash(4, None), lost(open)),
            (open, flash(0, None), lost(open)),
            // Open elsewhere.
            (open_there, flash(0, None), elsewhere(open_there)),
            (open_there, flash(5, Some(5)), elsewhere(open_there)),
            (open_there, flash(9, Some(9)), elsewhere(open_there)),
        ];
        for (record, flash, expected) in table {
            assert_eq!(
                judge(record, HERE, flash),
                expected,
                "{record:?}, {flash:?}"
            );
        }
    }

    #[test]
    fn a_locked_log_is_served_to_nobody() {
        let locked = Flashed {
            locked: Some(LockReason::Damaged),
            ..flash(5, Some(5))
        };
        let error = judge(record(HERE, 5, true), HERE, locked);
        assert_eq!(error, Err(ControlError::Locked(LockReason::Damaged)));
        // The origin has all of it, but what is cached may be older than what is missing.
        let cold = Ok(Verdict::Drop(DropReason::LogDamaged));
        assert_eq!(judge(record(HERE, 5, false), HERE, locked), cold);
        // So it is if no record of it can be read.
        let nothing = Flashed {
            dirty_epoch: None,
            ..locked
        };
        let error = Err(ControlError::Locked(LockReason::Damaged));
        assert_eq!(judge(record(HERE, 5, true), HERE, nothing), error);
        assert_eq!(judge(None, HERE, nothing), error);
        assert_eq!(judge(record(HERE, 5, false), HERE, nothing), cold);
    }

    #[test]
    fn where_a_log_may_be_only_a_disk_that_was_never_written_is_served() {
        let doubt = |epoch| Flashed {
            locked: Some(LockReason::Unbelievable),
            ..flash(epoch, None)
        };
        let locked = Err(ControlError::Locked(LockReason::Unbelievable));
        assert_eq!(judge(None, HERE, doubt(0)), Ok(Verdict::Serve));
        assert_eq!(judge(None, HERE, doubt(5)), locked);
        assert_eq!(judge(record(HERE, 5, true), HERE, doubt(5)), locked);
        let closed = judge(record(HERE, 5, false), HERE, doubt(5));
        assert_eq!(closed, Ok(Verdict::Void));
    }
}
