//! Whether the new copy of a written block on flash is worth a write.
//!
//! Under write-through each write of a block on flash costs one more write there, and often a page of the
//! journal with it, to distrust the old copy; only a read pays for it. Some guests write a block time and
//! again and hardly read it, others write it once or twice for each read. So copies in a row are counted that
//! nobody read:
//!
//! ```text
//!   filled, or read ──write──► unread 1 ──write──► unread 2 ──write──► leaves flash
//!         ▲                      │                   │
//!         └──────── read ────────┴────── read ───────┘
//! ```
//!
//! The count is in the table of addresses (`ghosts.rs`), which forgets: a block that is written seldom begins
//! anew. So a read is followed by three writes to flash at most, whatever the guest does, and nothing has to be
//! learned before that holds. Learning for each VM how often copies are read was tried: it lost hits while it
//! learned, and saved next to nothing beyond this (`benches/results/admission.md`).

use super::ghosts::COUNT_MAX;
use crate::replacement::{BadValue, Parameter, parse_count};

/// The parameter that says so.
pub(super) const REWRITES: Parameter = Parameter {
    name: "rewrites",
    meaning: "how many copies of a block in a row are written to flash that nobody reads",
    takes: "0 to 3, or always for all",
};

/// Which new copies of blocks on flash are written there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rewrites {
    /// All.
    Always,
    /// So many in a row that nobody reads.
    Unread(u32),
}

impl Rewrites {
    pub(super) fn parse(text: &str) -> Result<Self, BadValue> {
        match text {
            "always" => Ok(Self::Always),
            _ => parse_count(text, 0, COUNT_MAX).map(Self::Unread),
        }
    }

    /// A block is written: its copy ends, which was read or not, after `unread` others in a row that were not.
    /// How many were not with this one; `None` if the new copy is not worth writing.
    pub(super) const fn after(self, unread: u32, was_read: bool) -> Option<u32> {
        let unread = if was_read { 0 } else { unread + 1 };
        match self {
            Self::Always => Some(0),
            Self::Unread(most) if unread <= most => Some(unread),
            Self::Unread(_) => None,
        }
    }
}

impl std::fmt::Display for Rewrites {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Always => f.write_str("always"),
            Self::Unread(copies) => copies.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A fill and six writes; `r` is a read before the write.
    fn copies(rewrites: Rewrites, reads: [bool; 6]) -> usize {
        let mut unread = Some(0);
        let written = reads.iter().take_while(|was_read| {
            unread = unread.and_then(|unread| rewrites.after(unread, **was_read));
            unread.is_some()
        });
        written.count()
    }

    #[test]
    fn a_block_leaves_when_too_many_copies_in_a_row_were_not_read() {
        let (read, not) = (true, false);
        assert_eq!(copies(Rewrites::Unread(2), [not; 6]), 2);
        assert_eq!(copies(Rewrites::Unread(0), [not; 6]), 0);
        assert_eq!(copies(Rewrites::Always, [not; 6]), 6);
        // Each read begins anew.
        let reads = [not, not, read, not, not, not];
        assert_eq!(copies(Rewrites::Unread(2), reads), 5);
        assert_eq!(copies(Rewrites::Unread(0), [read; 6]), 6);
    }

    #[test]
    fn a_parameter_is_read_as_it_is_written() {
        for text in ["0", "3", "always"] {
            assert_eq!(Rewrites::parse(text).unwrap().to_string(), text);
        }
        for text in ["4", "-1", "learned", ""] {
            assert!(Rewrites::parse(text).is_err(), "{text}");
        }
    }
}
