//! How long things take, and how many there are.

use std::time::Duration;

/// Connections in their handshake at a time: who has shown no certificate yet gets no more.
pub(crate) const HANDSHAKES_MAX: usize = 16;
/// Frames that wait to be sent to a peer.
pub(crate) const FRAMES_QUEUED: usize = 64;
/// Events that wait to be taken.
pub(crate) const EVENTS_QUEUED: usize = 256;
/// Bytes that are read, or collected to be written, at a time.
pub(crate) const PIECE_BYTES: usize = 256 << 10;

/// How long things take.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// For reaching a peer, TLS and the preface, together.
    pub handshake_max: Duration,
    /// After so long without a frame of ours the peer is told that we are there.
    pub heartbeat: Duration,
    /// After so long without a byte of the peer, or with one of ours that it does not take, the connection is
    /// lost.
    pub silence_max: Duration,
    /// The first pause before a peer is dialed again; each doubles.
    pub pause_min: Duration,
    /// The longest such pause.
    pub pause_max: Duration,
}

impl Default for Times {
    fn default() -> Self {
        Self {
            handshake_max: Duration::from_secs(5),
            heartbeat: Duration::from_secs(2),
            silence_max: Duration::from_secs(7),
            pause_min: Duration::from_millis(250),
            pause_max: Duration::from_secs(5),
        }
    }
}
