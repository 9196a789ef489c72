//! How far the flash of a cache is durable, remembered outside of it: flash that is not so far when it
//! is found again is an older copy of itself (a snapshot, an image of the device), and stale.
//!
//! ```text
//!   memory that outlives the process ── exact ─── gone when the host is started anew
//!   STATE_DIR/CACHE.progress ────────── lags ──── exact after a clean stop
//! ```
//!
//! The file, replaced whole:
//!
//! ```text
//!   hearth cache progress 1
//!   flash 0123456789abcdef0123456789abcdef
//!   superblock 17
//!   journal 4711
//!   check 9f86d081884c7d65                  over the lines above
//! ```
//!
//! Invariant: neither is ever ahead of what is durable on the flash. So a file that is missing, damaged
//! or of other flash only means that less is known.

use crate::control::Message;
use crate::limits::PROGRESS_PAUSE;
use crate::run::Shard;
use cache::Committed;
use durable_file::Readers;
use std::io;
use std::path::{Path, PathBuf};
use units::Instant;
use xxhash_rust::xxh3::xxh3_64;

const TITLE: &str = "hearth cache progress 1";

/// Where the progress of a cache's flash is kept.
#[derive(Clone, Debug)]
pub(crate) struct ProgressFile {
    path: PathBuf,
    flash: u128,
}

/// What is noted, and what is being written.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    noted: Committed,
    stored: Committed,
    is_storing: bool,
    /// When to write next at the earliest.
    due: Option<Instant>,
}

impl ProgressFile {
    /// Of the cache with this name, on flash of this identity.
    pub(crate) fn new(state_dir: &Path, cache: &str, flash: u128) -> Self {
        Self {
            path: state_dir.join(format!("{cache}.progress")),
            flash,
        }
    }

    /// What is known of this flash; zero if that is nothing.
    pub(crate) fn load(&self) -> Committed {
        let text = std::fs::read_to_string(&self.path).ok();
        let known = text.and_then(|text| parse(&text));
        let ours = known.filter(|(flash, _)| *flash == self.flash);
        ours.map(|(_, committed)| committed).unwrap_or_default()
    }

    /// Replaces it, durably. May block.
    pub(crate) fn store(&self, committed: Committed) -> io::Result<()> {
        let text = text(self.flash, committed);
        durable_file::replace(&self.path, Readers::Anybody, text.as_bytes())
    }
}

fn text(flash: u128, committed: Committed) -> String {
    let Committed {
        superblock,
        journal,
    } = committed;
    let body = format!("{TITLE}\nflash {flash:032x}\nsuperblock {superblock}\njournal {journal}\n");
    let check = xxh3_64(body.as_bytes());
    format!("{body}check {check:016x}\n")
}

fn parse(whole: &str) -> Option<(u128, Committed)> {
    let mut lines = whole.lines();
    if lines.next()? != TITLE {
        return None;
    }
    let flash = u128::from_str_radix(lines.next()?.strip_prefix("flash ")?, 16).ok()?;
    let committed = Committed {
        superblock: lines.next()?.strip_prefix("superblock ")?.parse().ok()?,
        journal: lines.next()?.strip_prefix("journal ")?.parse().ok()?,
    };
    (text(flash, committed) == whole).then_some((flash, committed))
}

impl Shard {
    /// Notes how far the flash is durable. Once a turn.
    pub(crate) fn note_progress(&mut self) {
        let Some(committed) = self.cache.committed() else {
            return;
        };
        if committed != self.progress.noted {
            self.progress.noted = committed;
            self.lasting.note_committed(committed);
            self.progress.due.get_or_insert(self.now + PROGRESS_PAUSE);
        }
        let is_due = self.progress.due.is_some_and(|due| due <= self.now);
        if is_due && !self.progress.is_storing && committed != self.progress.stored {
            self.store_progress(committed);
        }
    }

    /// On a thread of its own.
    fn store_progress(&mut self, committed: Committed) {
        self.progress.due = None;
        self.progress.stored = committed;
        let (file, sender) = (self.progress_file(), self.sender.clone());
        let thread = std::thread::Builder::new().name("progress".to_owned());
        let spawned = thread.spawn(move || {
            if let Err(error) = file.store(committed) {
                tracing::warn!(path = %file.path.display(), %error,
                    "an older copy of the flash would not be noticed after a restart of the host");
            }
            // A shard that has ended needs no answer.
            let _ended = sender.send(Message::ProgressStored);
        });
        // It is tried again with the next change.
        self.progress.is_storing = spawned.is_ok();
    }

    pub(crate) fn progress_stored(&mut self) {
        self.progress.is_storing = false;
    }

    /// When there is something to write.
    pub(crate) fn progress_due(&self) -> Option<Instant> {
        self.progress.due.filter(|_| !self.progress.is_storing)
    }

    /// The cache has stopped: what its flash is now is what the next start has to find. May block.
    pub(crate) fn store_last_progress(&self) {
        if let Some(committed) = self.cache.committed()
            && let Err(error) = self.progress_file().store(committed)
        {
            tracing::warn!(cache = self.config.name, %error, "how far the flash is was not recorded");
        }
    }

    fn progress_file(&self) -> ProgressFile {
        ProgressFile::new(&self.config.state_dir, &self.config.name, self.record.flash)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_read_as_it_was_written_and_says_nothing_of_other_flash() {
        let dir = tempfile::tempdir().unwrap();
        let file = |flash| ProgressFile::new(dir.path(), "main", flash);
        assert_eq!(file(7).load(), Committed::default());
        let committed = Committed {
            superblock: 3,
            journal: u64::MAX,
        };
        file(7).store(committed).unwrap();
        assert_eq!(file(7).load(), committed);
        assert_eq!(file(8).load(), Committed::default());
        let path = dir.path().join("main.progress");
        let whole = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, whole.replace("superblock 3", "superblock 4")).unwrap();
        assert_eq!(file(7).load(), Committed::default());
    }
}
