//! What a scrub has found, and how far it is: plain values.

use units::Bytes;

/// What was examined and found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scrubbed {
    /// Blocks that were read and judged.
    pub blocks: u64,
    /// Blocks that are damaged or unreadable, and were given up: their origins have them.
    pub damaged_clean: u64,
    /// Blocks that are damaged or unreadable and that no origin has.
    pub damaged_dirty: u64,
    /// Segments whose list of blocks is damaged: some of their clean blocks were not examined.
    pub damaged_lists: u64,
}

impl Scrubbed {
    pub(crate) fn add(&mut self, more: Self) {
        self.blocks += more.blocks;
        self.damaged_clean += more.damaged_clean;
        self.damaged_dirty += more.damaged_dirty;
        self.damaged_lists += more.damaged_lists;
    }
}

/// How far a pass is: what it needs to go on after a restart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScrubPass {
    /// The segment that it examines now, or next.
    pub segment: u32,
    /// What it has found before that segment.
    pub found: Scrubbed,
}

/// What there is to see of the scrub.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScrubStatus {
    /// How far the pass under way is, and its rate in bytes a second; none if there is none.
    pub pass: Option<(ScrubPass, Bytes)>,
    /// Segments that a pass goes through; zero without a flash in use.
    pub segments: u32,
    /// What all passes have found since the cache was opened.
    pub total: Scrubbed,
    /// Passes that went through all segments since the cache was opened.
    pub whole_passes: u64,
    /// What the last of those found.
    pub last: Scrubbed,
}

impl Scrubbed {
    /// What has come since.
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            blocks: self.blocks - before.blocks,
            damaged_clean: self.damaged_clean - before.damaged_clean,
            damaged_dirty: self.damaged_dirty - before.damaged_dirty,
            damaged_lists: self.damaged_lists - before.damaged_lists,
        }
    }
}
