//! Bounds of a transfer, each with its reason.

use units::Duration;

/// Blocks of one read of the log or write to the origin: 1 MiB keeps large requests large and a single
/// buffer modest.
pub(crate) const RUN_BLOCKS_MAX: u64 = 256;

/// Writes of one log to its origin on their way: a network volume needs some to be busy, and more only
/// queue up.
pub(crate) const DEPTH_MAX: u32 = 16;

/// Records of a log that go to the origin together: what is held of it in memory is 8 MiB.
pub(crate) const BATCH_RECORDS: u64 = 2048;

/// The part of what a log may have that may be written without a flush of the origin: the room is
/// free only after the flush.
pub(crate) const FLUSH_PARTS: u64 = 8;

/// How long nothing is written to an origin whose reads became slow.
pub(crate) const PAUSE: Duration = Duration::from_millis(100);

/// The first pause after an origin refused a write; each is twice as long as the one before ...
pub(crate) const RETRY_PAUSE_MIN: Duration = Duration::from_secs(1);
/// ... up to this.
pub(crate) const RETRY_PAUSE_MAX: Duration = Duration::from_secs(60);
