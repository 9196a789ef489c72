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
use cache::Committed;
use durable_file::Readers;
use ring::Sender;
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
pub(crate) struct Progress {
    file: ProgressFile,
    /// To the shard, for the thread that writes.
    sender: Sender<Message>,
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

impl Progress {
    pub(crate) fn new(file: ProgressFile, sender: Sender<Message>) -> Self {
        Self {
            file,
            sender,
            noted: Committed::default(),
            stored: Committed::default(),
            is_storing: false,
            due: None,
        }
    }

    /// Notes how far the flash is durable, once a turn. True if it is farther than before.
    pub(crate) fn note(&mut self, committed: Committed, now: Instant) -> bool {
        let has_changed = committed != self.noted;
        if has_changed {
            self.noted = committed;
            self.due.get_or_insert(now + PROGRESS_PAUSE);
        }
        let is_due = self.due.is_some_and(|due| due <= now);
        if is_due && !self.is_storing && committed != self.stored {
            self.store(committed);
        }
        has_changed
    }

    /// On a thread of its own.
    fn store(&mut self, committed: Committed) {
        self.due = None;
        self.stored = committed;
        let (file, sender) = (self.file.clone(), self.sender.clone());
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
        self.is_storing = spawned.is_ok();
    }

    /// The thread has ended.
    pub(crate) fn stored(&mut self) {
        self.is_storing = false;
    }

    /// When there is something to write.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.due.filter(|_| !self.is_storing)
    }

    /// The cache has stopped: what its flash is now is what the next start has to find. May block.
    pub(crate) fn store_last(&self, committed: Committed, cache: &str) {
        if let Err(error) = self.file.store(committed) {
            tracing::warn!(cache, %error, "how far the flash is was not recorded");
        }
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
