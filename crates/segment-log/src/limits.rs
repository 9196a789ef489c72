//! Bounds of the log, each with its reason.

use flash_format::Geometry;

/// Segments that only survivors of reclaim may take, so that reclaim can always finish: at most half
/// of a victim is kept, so its survivors open one segment at most, and then the victim is free.
pub const SEGMENTS_RESERVED: usize = 1;
/// Reclaim starts when fewer segments than this are free: beside those for survivors one for the
/// next new blocks. In a small log each free segment costs hits ...
pub(crate) const SEGMENTS_FREE_MIN: usize = SEGMENTS_RESERVED + 1;
/// ... or fewer than one in so many, up to [`SEGMENTS_FREE_MAX`].
pub(crate) const SEGMENTS_FREE_SHARE: usize = 64;
/// Free segments beyond which keeping more would only waste flash.
pub(crate) const SEGMENTS_FREE_MAX: usize = 16;

/// While more than one in so many segments is open, survivors of reclaim join the new blocks of their
/// disk instead of opening a segment: with hundreds of disks on a small log there would be nothing
/// but open segments.
pub(crate) const SEGMENTS_OPEN_SHARE: usize = 4;

/// While more quarters of all segments than this are open, new blocks open none. With more disks than
/// segments each would close another's half-empty one; those that have a segment fill it instead, and
/// the others wait until a stream has been idle for long.
pub(crate) const SEGMENTS_OPEN_QUARTERS: usize = 3;
/// A stream is closed for the sake of one that was turned away when so large a part of the log has been
/// appended since it was last.
pub(crate) const STREAM_IDLE_SHARE: u64 = 4;

/// Rewritten blocks that may rest untrusted, as a share of all slots: one in 256, so that a
/// crash costs well under 1 % of the blocks for them.
const RESTING_SHARE: u64 = 256;
/// But at least so many.
const RESTING_MIN: usize = 1024;

/// Blocks of a disk that lie beside each other and are distrusted together, since guests write where they
/// have written: 256 KiB. Sixteen save a quarter less of the journal, 256 a tenth more, and the more are
/// distrusted, the more a crash costs.
pub const REGION_BLOCKS: u64 = 64;

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
