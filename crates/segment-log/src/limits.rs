//! Bounds of the log, each with its reason.

/// Segments that only survivors of reclaim may take, so that reclaim can always finish.
pub const SEGMENTS_RESERVED: usize = 2;
/// Reclaim starts when fewer segments than this are free ...
pub(crate) const SEGMENTS_FREE_MIN: usize = 4;
/// ... or fewer than one in so many, up to [`SEGMENTS_FREE_MAX`].
pub(crate) const SEGMENTS_FREE_SHARE: usize = 64;
/// Free segments beyond which keeping more would only waste flash.
pub(crate) const SEGMENTS_FREE_MAX: usize = 16;
