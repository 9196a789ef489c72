//! Limits that front ends share, each with its reason.

use units::{Bytes, Duration};

/// Largest payload of a request, either way: what both protocols allow.
pub const LARGEST_REQUEST: Bytes = Bytes::mib(32);

/// What a connection's requests may take without waiting for room in the memory budget: a queue of 32
/// small ones.
pub const ALLOWANCE: Bytes = Bytes::kib(128);

/// Bytes of buffers that a connection may own for as long as it lives.
pub const BUFFER_BYTES_MAX: usize = 72 << 10;

/// What a connection takes of the memory budget for as long as it lives: its buffers and its
/// allowance.
pub const CONNECTION_BYTES: Bytes = Bytes::new(BUFFER_BYTES_MAX as u64 + ALLOWANCE.get());

/// How long a client may keep memory for which others wait without doing its part: a payload that does
/// not come, answers that are not received. A guest that is served needs a fraction of that.
pub const STALL_TIME_MAX: Duration = Duration::from_secs(30);

/// Bytes of a range that is erased or prefetched which weigh as much as one byte of payload. Such a
/// request carries nothing, but every block of its range is looked up (some 60 ns each), and a
/// driver that asks for a thousand of the largest would hold up all other disks for seconds: this way
/// 2 GiB are what a connection may have in flight.
pub const RANGE_BYTES_A_BYTE: u64 = 64;

/// What a request without payload weighs that concerns a range of this length.
pub fn weight_of_range(length: Bytes) -> Bytes {
    Bytes::new(length.get() / RANGE_BYTES_A_BYTE)
}

/// What one connection may have in flight. At a limit its socket is not read: the client
/// waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// Requests taken and not answered.
    pub requests: usize,
    /// Bytes of payload of these requests and of unsent replies, and the weight of ranges. The request that crosses the
    /// limit is still taken, so a connection holds at most this and one largest payload.
    pub bytes: Bytes,
}

impl Default for ConnectionLimits {
    /// Deeper than any client queues (QEMU 16, nbdcopy 64, fio as asked), and payload for eight
    /// 4 MiB requests.
    fn default() -> Self {
        Self {
            requests: 512,
            bytes: Bytes::mib(32),
        }
    }
}
