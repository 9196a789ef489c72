//! What this host remembers of a cache outside of its flash, so that flash which comes back
//! after the origin moved on is not believed.
//!
//! One small file for each cache, by the cache's name, in the state directory:
//!
//! ```text
//!   hearth cache record 2
//!   flash 0123456789abcdef0123456789abcdef     the flash that was used last; zeroes: none
//!   least 3                                    the least incarnation that may be believed
//!   served 3                                   the latest of its incarnations that has served
//!   check 9f86d081884c7d65                     over the lines above
//! ```
//!
//! Rules:
//! - The file is replaced whole (written beside, synced, renamed, folder synced): after a crash
//!   there is the old record or the new one.
//! - Before flash is used, its identity is recorded. Flash that is not the one used last may
//!   be any age, so it starts empty: it has to have an incarnation above all that were seen.
//! - Each opening begins a new incarnation on the flash. It is recorded before a disk is served,
//!   so that a copy of the flash from an earlier life, put back later, starts empty, and what waits
//!   on it for an origin is not taken for all that does.
//! - Before the origin is written without the flash, the flash's incarnation is retired. The same goes
//!   for flash that is late with writes: guests' writes do not wait for it any more. When it has caught
//!   up the incarnation is reinstated: only the process that retired it knows that it may be, so after a
//!   crash in between it stays retired.
//! - Records are written in the order in which the cache asks for them, whatever thread is slow.
//! - A record that is missing or damaged says nothing good about the flash: it starts empty.

use durable_file::Readers;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use xxhash_rust::xxh3::xxh3_64;

const TITLE: &str = "hearth cache record 2";

/// Why a record cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[error("cannot {doing} the cache's record {}", path.display())]
pub struct RecordError {
    doing: &'static str,
    path: PathBuf,
    source: io::Error,
}

/// What is remembered of a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Record {
    /// The flash that was used last; zero for none.
    pub(crate) flash: u128,
    /// The least incarnation that may be believed.
    pub(crate) least: u64,
    /// The latest incarnation of this flash that has served; zero if none has.
    pub(crate) served: u64,
}

impl Record {
    /// The record with which flash of this identity and incarnation may be used. Flash that
    /// was `never_used` has nothing on it that could be wrong.
    pub(crate) fn before_use(self, flash: u128, incarnation: u64, never_used: bool) -> Self {
        let least = if flash == self.flash {
            // An opening that was cut off may have begun an incarnation that was not recorded.
            self.least.max(incarnation)
        } else if never_used {
            // Whatever other flash comes back is not the one used last.
            incarnation
        } else {
            self.least.max(incarnation).saturating_add(1)
        };
        let served = if flash == self.flash { self.served } else { 0 };
        Self {
            flash,
            least,
            served,
        }
    }

    /// The record with which flash that has begun this incarnation may serve. Copies of it that
    /// were made in earlier lives and are put back later are older than the origin.
    pub(crate) fn in_use(self, incarnation: u64) -> Self {
        Self {
            least: self.least.max(incarnation),
            served: incarnation,
            ..self
        }
    }

    /// The record with which the origin may be written without the flash. `incarnation` is
    /// what the flash has, as far as is known: an opening that was cut off, or that failed
    /// half-way, may have begun one more than was recorded.
    pub(crate) fn without_flash(self, incarnation: u64) -> Self {
        Self {
            least: self.least.max(incarnation).saturating_add(2),
            ..self
        }
    }

    /// The record with which flash of this incarnation may be believed again: it is used by the process
    /// that has retired it, and everything that went past it is distrusted there durably.
    pub(crate) fn reinstated(self, incarnation: u64) -> Self {
        Self {
            least: incarnation,
            served: incarnation,
            ..self
        }
    }

    fn to_text(self) -> String {
        let Self {
            flash,
            least,
            served,
        } = self;
        let body = format!("{TITLE}\nflash {flash:032x}\nleast {least}\nserved {served}\n");
        let check = xxh3_64(body.as_bytes());
        format!("{body}check {check:016x}\n")
    }

    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        if lines.next()? != TITLE {
            return None;
        }
        let flash = lines.next()?.strip_prefix("flash ")?;
        let least = lines.next()?.strip_prefix("least ")?;
        let served = lines.next()?.strip_prefix("served ")?;
        let record = Self {
            flash: u128::from_str_radix(flash, 16).ok()?,
            least: least.parse().ok()?,
            served: served.parse().ok()?,
        };
        (record.to_text() == text).then_some(record)
    }
}

/// Where a cache's record is kept.
#[derive(Clone, Debug)]
pub(crate) struct RecordFile {
    path: PathBuf,
    /// The number of the last record that was written or tried.
    last: Arc<Mutex<u64>>,
}

impl RecordFile {
    /// The record of the cache with this name, which has to be fit for a file name.
    pub(crate) fn new(state_dir: &Path, cache: &str) -> Self {
        Self {
            path: state_dir.join(format!("{cache}.cache")),
            last: Arc::default(),
        }
    }

    /// The record, or `None` if there is none or it is damaged.
    pub(crate) fn load(&self) -> Result<Option<Record>, RecordError> {
        match std::fs::read(&self.path) {
            Ok(bytes) => {
                let record = std::str::from_utf8(&bytes).ok().and_then(Record::parse);
                if record.is_none() {
                    tracing::warn!(path = %self.path.display(),
                        "the cache's record is damaged: the cache starts empty");
                }
                Ok(record)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(self.error("read", source)),
        }
    }

    /// Replaces the record, durably.
    pub(crate) fn store(&self, record: Record) -> Result<(), RecordError> {
        let text = record.to_text();
        let stored = durable_file::replace(&self.path, Readers::Anybody, text.as_bytes());
        stored.map_err(|source| self.error("write", source))
    }

    /// Replaces the record, durably, unless one with a higher number has been written or tried: a thread
    /// that was slow has nothing to say any more. Returns whether it was written.
    pub(crate) fn store_in_order(&self, record: Record, number: u64) -> Result<bool, RecordError> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if number < *last {
            return Ok(false);
        }
        *last = number;
        self.store(record).map(|()| true)
    }

    fn error(&self, doing: &'static str, source: io::Error) -> RecordError {
        RecordError {
            doing,
            path: self.path.clone(),
            source,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORD: Record = Record {
        flash: 7,
        least: 3,
        served: 3,
    };

    fn record(flash: u128, least: u64, served: u64) -> Record {
        Record {
            flash,
            least,
            served,
        }
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let file = RecordFile::new(folder.path(), "main");
        assert_eq!(file.load().unwrap(), None);
        file.store(RECORD).unwrap();
        assert_eq!(file.load().unwrap(), Some(RECORD));
        let later = RECORD.without_flash(3);
        file.store(later).unwrap();
        assert_eq!(file.load().unwrap(), Some(later));
    }

    #[test]
    fn each_life_is_recorded_and_earlier_ones_are_not_believed() {
        let living = RECORD.before_use(7, 3, false).in_use(4);
        assert_eq!(living, record(7, 4, 4));
        let older_copy_put_back = living.before_use(7, 3, false);
        assert!(older_copy_put_back.least > 3 && older_copy_put_back.served > 3);
    }

    #[test]
    fn new_flash_is_believed_and_the_one_before_it_no_more() {
        let new = RECORD.before_use(8, 1, true);
        assert_eq!(new, record(8, 1, 0));
        assert!(new.in_use(2).before_use(7, 9, false).least > 9);
    }

    #[test]
    fn a_damaged_record_is_none() {
        let text = RECORD.to_text();
        for at in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= 1;
            let damaged = String::from_utf8(bytes).unwrap();
            assert_eq!(Record::parse(&damaged), None, "{damaged}");
            assert_eq!(Record::parse(&text[..at]), None);
        }
        assert_eq!(Record::parse(&text), Some(RECORD));
    }

    #[test]
    fn the_flash_used_last_is_believed_as_recorded() {
        assert_eq!(RECORD.before_use(7, 3, false), RECORD);
        assert_eq!(RECORD.before_use(7, 2, false), RECORD);
    }

    #[test]
    fn other_flash_has_to_start_empty_and_so_has_the_first_when_it_returns() {
        let other = RECORD.before_use(8, 5, false);
        assert!(other.least > 5);
        let back = other.before_use(7, 3, false);
        assert!(back.least > 3);
        assert!(back.least > other.least);
    }

    #[test]
    fn new_flash_is_taken_as_it_is_and_the_old_one_is_not_believed_when_it_returns() {
        assert_eq!(Record::default().before_use(8, 1, true).least, 1);
        let new = record(7, 1, 1).before_use(8, 1, true);
        assert!(new.before_use(7, 1, false).least > 1);
        assert!(new.before_use(7, 6, false).least > 6);
    }

    #[test]
    fn flash_whose_opening_was_cut_off_is_believed_once_and_not_after_it_was_away() {
        // Incarnation 4 was begun on flash, and the host died before it was recorded.
        assert_eq!(RECORD.before_use(7, 4, false).least, 4);
        assert!(RECORD.without_flash(0).before_use(7, 4, false).least > 4);
        let reopened = RECORD.before_use(7, 4, false);
        assert!(reopened.without_flash(0).least > 5);
    }

    #[test]
    fn flash_that_was_away_while_the_origin_was_written_is_not_believed() {
        let away = RECORD.without_flash(3);
        let back = away.before_use(7, 3, false);
        assert!(back.least > 3);
        // But it is no older copy: what waits on it is all that does.
        assert_eq!(back.served, 3);
        let unknown = Record::default().without_flash(0);
        assert!(unknown.before_use(7, 3, false).least > 3);
    }

    #[test]
    fn flash_that_was_late_is_believed_again_as_it_was() {
        let late = RECORD.without_flash(3);
        assert!(late.before_use(7, 3, false).least > 3, "a crash meanwhile");
        assert_eq!(late.reinstated(3), RECORD);
        // Late twice, since the host could not tell whether the first record was made.
        let twice = late.without_flash(3);
        assert_eq!(twice.reinstated(3), RECORD);
    }

    #[test]
    fn a_record_that_comes_too_late_does_not_replace_a_later_one() {
        let folder = tempfile::tempdir().unwrap();
        let file = RecordFile::new(folder.path(), "main");
        let slow = file.clone();
        let retired = RECORD.without_flash(3);
        assert!(file.store_in_order(retired, 2).unwrap());
        assert!(!slow.store_in_order(RECORD, 1).unwrap());
        assert_eq!(file.load().unwrap(), Some(retired));
        assert!(slow.store_in_order(RECORD, 3).unwrap());
        assert_eq!(file.load().unwrap(), Some(RECORD));
    }

    #[test]
    fn a_state_folder_that_is_missing_is_an_error_with_the_path() {
        let file = RecordFile::new(Path::new("/nonexistent"), "main");
        let error = file.store(RECORD).unwrap_err();
        assert!(error.to_string().contains("/nonexistent/main.cache"));
    }
}
