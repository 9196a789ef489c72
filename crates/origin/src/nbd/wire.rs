//! What carries an NBD client's requests: a socket, or something in this process that answers as a server would.

use crate::OpenError;
use crate::late::Keeper;
use block_io::{BufPool, OriginDone, Slice};
use nbd_client::{Client, LinkId};
use nbd_protocol::Terms;
use ring::{Ring, SourceId};
use std::fmt;
use std::io;
use units::{Duration, Instant};

/// A far side, and how to reach it again.
pub(crate) trait Remote: fmt::Debug + fmt::Display + Send + Sync {
    /// Makes all connections that are wished for, one at least. Blocks.
    ///
    /// # Errors
    /// If there is not even one.
    fn connect_all(&self, keeper: Option<&Keeper>) -> Result<Vec<Connected>, DialError>;

    /// How long is waited for whom.
    fn times(&self) -> Times;
}

/// How long is waited for whom.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    /// The longest pause between two attempts to reconnect.
    pub(crate) reconnect_pause_max: Duration,
    /// How long a request may take, reconnects included.
    pub(crate) request_timeout: Duration,
    /// How long the far side may go on with a change after its connection has ended.
    pub(crate) settle_time: Duration,
}

/// A connection that is through with its handshake.
#[derive(Debug)]
pub(crate) struct Connected {
    pub(crate) carrier: Box<dyn Carrier>,
    pub(crate) terms: Terms,
}

/// A connection on its way to its shard's thread.
pub(crate) trait Carrier: fmt::Debug + Send {
    /// Puts it on a shard's ring.
    fn start(self: Box<Self>, link: LinkId, ring: &Ring, pool: &BufPool) -> Box<dyn Wire>;
}

/// Whether all that was sent is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sending {
    /// It is.
    Done,
    /// The client is told later.
    GoesOn,
}

/// A connection on a shard's ring.
pub(crate) trait Wire {
    /// What the client calls it.
    fn link(&self) -> LinkId;

    /// Where the ring hears of it.
    fn source(&self) -> SourceId;

    /// Sends bytes of the protocol.
    fn send(&mut self, slices: Vec<Slice>) -> Sending;

    /// Sends a few bytes if that can be done at once: whoever does not get them sees the end of the stream.
    fn say(&mut self, bytes: &[u8]);

    /// Nothing more will be sent.
    fn half_close(&mut self);

    /// If somebody keeps a copy of the connection, that stays as it is.
    fn leave(&mut self);

    /// Tells the client what the ring has for this connection.
    fn poll(&mut self, client: &mut Client, now: Instant, done: &mut Vec<OriginDone>);
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DialError {
    /// Nobody answers, or not in time.
    #[error("{0}")]
    Unreachable(io::Error),
    /// Somebody answers and refuses.
    #[error("{0}")]
    Refused(String),
}

impl DialError {
    /// The same of an origin that is being opened.
    pub(crate) fn of(self, origin: String) -> OpenError {
        match self {
            Self::Unreachable(source) => OpenError::Unreachable { origin, source },
            Self::Refused(reason) => OpenError::Refused { origin, reason },
        }
    }
}
