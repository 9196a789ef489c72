//! The scrub of a cache's flash: what is asked of it, and how far it is.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// How a pass is to go.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ScrubRequest {
    /// Bytes a second that are read at most, such as `50MiB`; what the cache's `scrub_rate` says unless it is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<String>,
}

/// Blocks that passes have examined, and what they found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ScrubFound {
    /// Blocks of 4096 bytes that were read.
    pub blocks: u64,
    /// Of those, damaged ones that were given up: their origins have them.
    pub damaged_clean_blocks: u64,
    /// Of those, damaged ones that no origin has: they stay, and reads of them fail.
    pub damaged_dirty_blocks: u64,
    /// Segments whose list of blocks is damaged, so that some of their clean blocks were not examined.
    pub damaged_lists: u64,
}

impl ScrubFound {
    /// Every kind of damage with its name.
    pub fn kinds(&self) -> [(&'static str, u64); 3] {
        [
            ("clean", self.damaged_clean_blocks),
            ("dirty", self.damaged_dirty_blocks),
            ("list", self.damaged_lists),
        ]
    }
}

/// A pass that is under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ScrubPass {
    /// Bytes a second that it reads at most.
    pub rate: u64,
    /// The segment at which it is.
    pub segment: u64,
    /// Segments through which it goes.
    pub segments: u64,
    /// What it has found in the segments before.
    pub found: ScrubFound,
}

/// The scrub of a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ScrubStatus {
    /// The pass that is under way, if there is one.
    pub pass: Option<ScrubPass>,
    /// What all passes have found since the daemon was started.
    pub total: ScrubFound,
    /// When the last pass ended that went through all segments, in seconds since 1970; none if there was none.
    pub last_whole_pass: Option<u64>,
    /// What that one found.
    pub last: ScrubFound,
}
