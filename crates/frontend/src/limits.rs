//! Limits of the front end, each with its reason.

use units::{Bytes, Duration};

/// Bytes received at once: a few hundred requests without payload, or fifteen small writes.
/// Each connection owns one such buffer for as long as it lives.
pub(crate) const INBOX_BYTES: usize = 64 << 10;

/// A payload of which at least this much is still to come is received straight into its own
/// aligned buffer; less is copied out of the inbox, which costs less than one more receive.
pub(crate) const DIRECT_BYTES_MIN: usize = 32 << 10;

/// Largest payload of a request, either way: what both protocols allow.
pub const LARGEST_REQUEST: Bytes = Bytes::mib(32);

/// What a connection's requests may take without waiting for room in the memory budget: a queue of 32
/// small ones.
pub const ALLOWANCE: Bytes = Bytes::kib(128);

/// What a connection takes of the memory budget for as long as it lives: its inbox, a page of headers
/// that is being filled and one that is being sent, and its allowance.
pub const CONNECTION_BYTES: Bytes =
    Bytes::new((INBOX_BYTES + 2 * HEADERS_BYTES) as u64 + ALLOWANCE.get());

/// How long a client may keep memory for which others wait without doing its part: a payload that does
/// not come, answers that are not received. A guest that is served needs a fraction of that.
pub const STALL_TIME_MAX: Duration = Duration::from_secs(30);

/// Size of the buffer in which reply headers are gathered: a page holds a turn's worth.
pub(crate) const HEADERS_BYTES: usize = 4 << 10;

/// Slices of replies that may wait for the socket before no more requests are read: as many
/// as one send takes.
pub(crate) const UNSENT_SLICES_MAX: usize = ring::SEND_SLICES_MAX;

/// Bytes read from the socket at once during the handshake, which also bounds what can arrive
/// behind it.
pub(crate) const HANDSHAKE_READ_BYTES: usize = 8 << 10;

/// Handshakes under way at a time. An honest one takes milliseconds, so this many are those of hundreds
/// of VMs that are started together, or of clients that say nothing.
pub(crate) const HANDSHAKES_MAX: usize = 256;

/// Buffer of each direction between a TLS session and the shard.
pub(crate) const PIPE_BYTES: usize = 64 << 10;

/// How long a TLS session may take over its goodbye; the disk's side is closed by then.
pub(crate) const GOODBYE: Duration = Duration::from_secs(5);

/// Longest PSK, in bytes: what OpenSSL takes.
pub(crate) const PSK_BYTES_MAX: usize = 256;

/// Silence on a TCP connection before the kernel asks whether the client's host still lives, in
/// whole seconds as the kernel wants it. A dead one is given up after a minute and a half, not
/// after the two hours that are the system's default.
pub(crate) const KEEPALIVE_IDLE: Duration = Duration::from_secs(60);

/// Time between such questions.
pub(crate) const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);

/// Questions without an answer before the client is given up.
pub(crate) const KEEPALIVE_PROBES: u32 = 3;

/// Pause after the system could not accept a connection (no descriptors, no memory): trying
/// again at once would spin.
pub(crate) const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

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

/// What all clients together may ask of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerLimits {
    /// Connections, without those in their handshake. Further ones wait at its end, for as long as a
    /// handshake may take.
    pub connections: usize,
    /// Connections of one export, which is one disk: QEMU opens one, nbdcopy and multi-queue
    /// clients a few. An export's own socket has as many beside those.
    pub connections_per_export: usize,
    /// Time from accepting a connection to the end of its handshake, TLS included.
    pub handshake: Duration,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            connections: 1024,
            connections_per_export: 16,
            handshake: Duration::from_secs(10),
        }
    }
}
