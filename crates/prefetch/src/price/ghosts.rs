//! Refused guesses, as addresses: what would have become of them?
//!
//! ```text
//!   refused ─► newest ┌───────────┐ oldest ─► not read within `life` demanded blocks, or pushed out: wasted
//!                     └─────┬─────┘
//!                           └─► the guest reads it: it would have been used
//! ```
//!
//! So a miner that is refused is measured as well as one that is heard, and at no cost. The idea is that of
//! sandbox prefetching (S. Pugsley et al., HPCA 2014): candidates are judged by a filter of what they would have
//! fetched. `life` is how long a fetched block would have stayed in memory.

use super::{Key, Label};
use crate::rows::Rows;
use units::Bytes;

#[derive(Clone, Copy, Debug)]
struct Ghost {
    label: Label,
    /// The count of demanded blocks when it was refused.
    since: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Ghosts {
    rows: Rows<Ghost>,
    life: u64,
    /// Demanded blocks so far.
    now: u64,
}

impl Ghosts {
    pub(super) fn new(rows: u32, life: u64) -> Self {
        Self {
            rows: Rows::new(u64::from(rows)),
            life,
            now: 0,
        }
    }

    pub(super) fn memory(&self) -> Bytes {
        self.rows.memory()
    }

    /// A fetched block would have stayed for so many demanded ones from now on.
    pub(super) fn set_life(&mut self, life: u64) {
        self.life = life;
    }

    /// A guess was refused: whose older one is known to be wasted now, if one had to leave.
    pub(super) fn refuse(&mut self, key: Key, label: Label) -> Option<Label> {
        if self.rows.get(key.0).is_some() {
            return None;
        }
        let ghost = Ghost {
            label,
            since: self.now,
        };
        self.rows.insert(key.0, ghost).map(|(_, left)| left.label)
    }

    /// A block was demanded: whose guess it was, if it was refused not longer ago than it would have stayed.
    pub(super) fn demanded(&mut self, key: Key) -> Option<Label> {
        self.now += 1;
        self.rows.remove(key.0).map(|ghost| ghost.label)
    }

    /// One that would have left memory by now.
    pub(super) fn expired(&mut self) -> Option<Label> {
        let (key, oldest) = self.rows.oldest()?;
        let label = oldest.label;
        if self.now - oldest.since <= self.life {
            return None;
        }
        self.rows.remove(key);
        Some(label)
    }

    /// A block is fetched after all, and measured as such.
    pub(super) fn fetched(&mut self, key: Key) {
        self.rows.remove(key.0);
    }
}
