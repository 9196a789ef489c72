//! Limits of the NBD client, each with its reason.

use units::Duration;

/// Largest payload of one request, in bytes, if the server takes that much. Larger operations
/// are cut, so that one of them does not keep a connection busy for long.
pub(crate) const PIECE_BYTES_MAX: u32 = 1 << 20;

/// Largest range of one request without payload (trim, write-zeroes), in bytes: a server that
/// zeroes by writing has to be done with it well within a request's time.
pub(crate) const RANGE_BYTES_MAX: u32 = 32 << 20;

/// Zeroes that are written at a time where the server cannot zero a range, in bytes.
pub(crate) const ZERO_BYTES: u32 = 256 << 10;

/// Pieces of one operation that are in flight together, so that discarding a whole disk does
/// not keep everything else waiting.
pub(crate) const PIECES_PER_OPERATION_MAX: u32 = 8;

/// Requests in flight on one connection. Servers work on 16 to 64 at a time; what is beyond
/// would only wait there instead of here.
pub(crate) const REQUESTS_PER_LINK_MAX: usize = 64;

/// How long until a server that came back with another disk is looked at again: somebody has to repair
/// that by hand.
pub(crate) const OTHER_DISK_PAUSE: Duration = Duration::from_secs(1);

/// Slices in one send: a header and a payload each for everything that may be in flight.
pub const SEND_SLICES: usize = 2 * REQUESTS_PER_LINK_MAX;

/// Bytes of changes that the server has acknowledged and may still forget at which we flush on
/// our own. It bounds what a reconnect has to repeat.
pub(crate) const UNSTABLE_BYTES_SOFT: usize = 32 << 20;

/// Bytes of such changes at which further changes wait: memory is bounded.
pub(crate) const UNSTABLE_BYTES_HARD: usize = 64 << 20;

/// Such changes, however small, at which we flush on our own.
pub(crate) const UNSTABLE_COUNT_SOFT: usize = 8192;

/// Such changes, however small, at which further changes wait.
pub(crate) const UNSTABLE_COUNT_HARD: usize = 16384;

/// Ranges in doubt, at which they become one: memory is bounded.
pub(crate) const DOUBTS_MAX: usize = 8192;

/// First pause between two attempts to reconnect.
pub(crate) const RECONNECT_PAUSE_MIN: Duration = Duration::from_millis(100);

/// Pause before changes are repeated to a server that is there but failed to keep them.
pub(crate) const REPEAT_PAUSE: Duration = Duration::from_secs(1);

/// Cookies that a connection can use up: none sends as many requests.
pub(crate) const COOKIES_PER_LINK: u64 = 1 << 40;

const _: () = assert!(UNSTABLE_BYTES_SOFT < UNSTABLE_BYTES_HARD);
const _: () = assert!(UNSTABLE_COUNT_SOFT < UNSTABLE_COUNT_HARD);
