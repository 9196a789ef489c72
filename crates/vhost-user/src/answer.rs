//! What a message is answered with.

use std::os::fd::OwnedFd;

/// What a message is answered with.
#[derive(Debug)]
pub(crate) enum Answer {
    /// An acknowledgement, if it was asked for.
    Done,
    /// A number.
    Number(u64),
    /// A reply, and a descriptor beside it.
    Bytes(Vec<u8>, Option<OwnedFd>),
    /// A reply when nothing is in flight any more.
    Later(Wait),
}

/// What a reply waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// A queue that is to stop.
    Queue(usize),
    /// All of them: the device is to be reset.
    Reset,
}
