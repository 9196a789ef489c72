//! Bounds of the log, each with its reason.

use flash_format::Geometry;

/// Segments that only survivors of reclaim may take, so that reclaim can always finish.
pub const SEGMENTS_RESERVED: usize = 2;
/// Reclaim starts when fewer segments than this are free ...
pub(crate) const SEGMENTS_FREE_MIN: usize = 4;
/// ... or fewer than one in so many, up to [`SEGMENTS_FREE_MAX`].
pub(crate) const SEGMENTS_FREE_SHARE: usize = 64;
/// Free segments beyond which keeping more would only waste flash.
pub(crate) const SEGMENTS_FREE_MAX: usize = 16;

/// Rewritten blocks that may rest untrusted, as a share of all slots: one in 256, so that a
/// crash costs well under 1 % of the blocks for them.
const RESTING_SHARE: u64 = 256;
/// But at least so many.
const RESTING_MIN: usize = 1024;

/// How many rewritten blocks may rest untrusted in a log of this layout.
pub fn resting_limit(geometry: &Geometry) -> usize {
    let share = usize::try_from(geometry.slots() / RESTING_SHARE).unwrap_or(usize::MAX);
    share.max(RESTING_MIN)
}

/// Reclaim begins when a log of so many segments has fewer free ones than this.
pub(crate) fn free_wanted(segments: u32) -> usize {
    let share = segments as usize / SEGMENTS_FREE_SHARE;
    share.clamp(SEGMENTS_FREE_MIN, SEGMENTS_FREE_MAX)
}

/// Segments of a log that tenants can hold at a time: all but those that reclaim keeps free.
pub fn segments_for_shares(geometry: &Geometry) -> u32 {
    let segments = geometry.segment_count();
    segments.saturating_sub(u32::try_from(free_wanted(segments)).unwrap_or(segments))
}
