//! What was read because the host expected it to be read, and how much of it was used.
//!
//! ```text
//!   read ahead ─► its file was used a moment ago ──────────────► used
//!             └─► waits ─► its file is opened ─────────────────► used
//!                      └─► an epoch ends, and another one ─────► not used
//! ```
//!
//! The kernel tells nobody which bytes a program reads, so the file stands for them.

use crate::handle::Handle;
use units::{Map, Set};

/// Files that are remembered at most, of each sort.
const FILES_MAX: usize = 4096;

/// Of what was decided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Bytes of files that were used.
    pub used_bytes: u64,
    /// Bytes in all.
    pub of_bytes: u64,
}

/// What was read ahead and is not decided yet.
#[derive(Clone, Debug, Default)]
pub struct Followed {
    /// Bytes, and whether an epoch has ended since.
    waiting: Map<Handle, (u64, bool)>,
    /// Files that were used in this epoch and in the one before.
    recent: [Set<Handle>; 2],
    decided: Outcome,
}

impl Followed {
    /// So many bytes of a file were read ahead.
    pub fn read(&mut self, handle: &Handle, bytes: u64) {
        if self.recent.iter().any(|recent| recent.contains(handle)) {
            self.decide(bytes, true);
        } else if self.waiting.len() < FILES_MAX || self.waiting.contains_key(handle) {
            self.waiting.entry(handle.clone()).or_default().0 += bytes;
        } else {
            self.decide(bytes, false);
        }
    }

    /// A file was used.
    pub fn used(&mut self, handle: &Handle) {
        if let Some((bytes, _)) = self.waiting.remove(handle) {
            self.decide(bytes, true);
        }
        let [now, _] = &mut self.recent;
        if now.len() < FILES_MAX {
            now.insert(handle.clone());
        }
    }

    /// An epoch ends: what has been decided since the last one ended.
    pub fn end_epoch(&mut self) -> Outcome {
        let mut unused = 0;
        self.waiting.retain(|_, (bytes, is_old)| {
            let stays = !std::mem::replace(is_old, true);
            unused += if stays { 0 } else { *bytes };
            stays
        });
        self.decide(unused, false);
        self.recent.swap(0, 1);
        self.recent[0].clear();
        std::mem::take(&mut self.decided)
    }

    fn decide(&mut self, bytes: u64, is_used: bool) {
        self.decided.of_bytes += bytes;
        self.decided.used_bytes += if is_used { bytes } else { 0 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &[u8]) -> Handle {
        Handle::new(1, 1, name).unwrap()
    }

    fn outcome(used_bytes: u64, of_bytes: u64) -> Outcome {
        Outcome {
            used_bytes,
            of_bytes,
        }
    }

    #[test]
    fn a_file_that_is_opened_in_time_was_used() {
        let mut followed = Followed::default();
        followed.read(&named(b"opened"), 10);
        followed.read(&named(b"late"), 5);
        assert_eq!(followed.end_epoch(), outcome(0, 0), "not decided yet");
        followed.used(&named(b"opened"));
        assert_eq!(followed.end_epoch(), outcome(10, 15));
        followed.used(&named(b"late"));
        assert_eq!(followed.end_epoch(), outcome(0, 0));
    }

    #[test]
    fn a_file_that_was_used_a_moment_ago_is_being_read() {
        let mut followed = Followed::default();
        followed.used(&named(b"stream"));
        followed.end_epoch();
        followed.read(&named(b"stream"), 7);
        assert_eq!(followed.end_epoch(), outcome(7, 7));
        followed.read(&named(b"stream"), 7);
        assert_eq!(followed.end_epoch(), outcome(0, 0), "two epochs ago");
    }

    #[test]
    fn of_files_beyond_the_bound_nothing_is_remembered() {
        let mut followed = Followed::default();
        for name in 0..2 * FILES_MAX {
            followed.read(&named(&name.to_le_bytes()), 1);
        }
        let decided = followed.end_epoch();
        assert_eq!(decided, outcome(0, FILES_MAX as u64));
    }
}
