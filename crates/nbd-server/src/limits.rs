//! Limits of the NBD server, each with its reason.

use frontend::limits::BUFFER_BYTES_MAX;
use units::Duration;

/// Bytes received at once: a few hundred requests without payload, or fifteen small writes.
/// Each connection owns one such buffer for as long as it lives.
pub(crate) const INBOX_BYTES: usize = 64 << 10;

/// A payload of which at least this much is still to come is received straight into its own
/// aligned buffer; less is copied out of the inbox, which costs less than one more receive.
pub(crate) const DIRECT_BYTES_MIN: usize = 32 << 10;

/// Size of the buffer in which reply headers are gathered: a page holds a turn's worth.
pub(crate) const HEADERS_BYTES: usize = 4 << 10;

const _: () = assert!(
    INBOX_BYTES + 2 * HEADERS_BYTES <= BUFFER_BYTES_MAX,
    "an inbox, a page of headers that is being filled, and one that is being sent"
);

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
