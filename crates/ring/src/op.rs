//! What can be asked of the kernel, and what comes back.

use crate::Foreign;
use block_io::{Buf, Slice};
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;

/// One operation. Offsets and lengths are in bytes.
#[derive(Debug)]
pub enum Op {
    /// Reads from `file` at `offset` into the first `length` bytes of `buf`.
    Read {
        /// What to read from.
        file: Rc<OwnedFd>,
        /// Where in the file.
        offset: u64,
        /// Comes back with the completion, on failure too.
        buf: Buf,
        /// How much, at most the buffer's length.
        length: usize,
    },
    /// Reads from `file` at `offset` into memory that others see too, until all of it is full or
    /// the file ends.
    ReadInto {
        /// What to read from.
        file: Rc<OwnedFd>,
        /// Where in the file.
        offset: u64,
        /// What to fill. At most [`crate::PIECES_MAX`] pieces.
        into: Foreign,
    },
    /// Writes `data` to `file` at `offset`; with `dsync` it is durable at completion
    /// (`RWF_DSYNC`).
    Write {
        /// What to write to.
        file: Rc<OwnedFd>,
        /// Where in the file.
        offset: u64,
        /// What to write.
        data: Slice,
        /// Whether completion implies durability.
        dsync: bool,
    },
    /// Adds to the counter of an eventfd, which others hear.
    Signal {
        /// What to add to. A counter that is full makes this wait.
        eventfd: Rc<OwnedFd>,
        /// How much, as the eight bytes that an eventfd takes.
        count: Slice,
    },
    /// `fsync`, or `fdatasync` with `datasync`.
    Fsync {
        /// What to sync.
        file: Rc<OwnedFd>,
        /// Whether metadata that reading does not need may be left behind.
        datasync: bool,
    },
    /// `fallocate` with the kernel's mode bits.
    Fallocate {
        /// What to change.
        file: Rc<OwnedFd>,
        /// `FALLOC_FL_*` bits.
        mode: i32,
        /// Where in the file.
        offset: u64,
        /// How much.
        length: u64,
    },
    /// Lets the page cache forget a file, so that it is read anew. What is not written back yet stays.
    Forget {
        /// What to forget.
        file: Rc<OwnedFd>,
    },
    /// Asks what a file is now (`statx` of an open file): the kernel's `struct statx` comes back in `buf`.
    Stat {
        /// Which file.
        file: Rc<OwnedFd>,
        /// Comes back with the completion, on failure too; a page or more.
        buf: Buf,
    },
    /// Receives at least one byte, or none at the end of the stream, into `buf[start..end]`.
    Recv {
        /// What to receive from.
        socket: Rc<OwnedFd>,
        /// Comes back with the completion, on failure too.
        buf: Buf,
        /// First byte that may be filled.
        start: usize,
        /// One past the last byte that may be filled.
        end: usize,
    },
    /// Sends the slices one after the other (`sendmsg`, `MSG_NOSIGNAL`). The kernel is asked to
    /// send all (`MSG_WAITALL`) but may send less. At most [`crate::SEND_SLICES_MAX`] slices.
    Send {
        /// What to send to.
        socket: Rc<OwnedFd>,
        /// What to send; comes back with the completion.
        slices: Vec<Slice>,
    },
    /// Completes when `fd` can be read or is hung up; the result is the mask of `poll` events.
    PollIn {
        /// What to watch.
        fd: Rc<OwnedFd>,
    },
    /// Completes each time that `fd` becomes readable, once for what came since the last time, and goes on: what is
    /// there need not be read. Ends when it fails or is cancelled, or when the kernel is out of memory for its completions.
    PollEach {
        /// What to watch: an eventfd, whose every addition counts.
        fd: Rc<OwnedFd>,
    },
    /// Completes when `fd` is hung up, or has failed, or is a socket whose other side sends nothing more; the result is the mask
    /// of `poll` events, which tells these apart.
    PollHangUp {
        /// What to watch.
        fd: Rc<OwnedFd>,
    },
    /// Completes when `fd` can be written or is hung up, which is how a connect in progress
    /// ends; the result is the mask of `poll` events.
    PollOut {
        /// What to watch.
        fd: Rc<OwnedFd>,
    },
    /// Completes in the next turn: for a component that has more to do than fits into one.
    Nop,
}

impl Op {
    /// Whether it ends by itself, when a disk has done it, rather than by what somebody does.
    pub(crate) fn is_for_disk(&self) -> bool {
        match self {
            Self::Read { .. }
            | Self::ReadInto { .. }
            | Self::Write { .. }
            | Self::Fsync { .. }
            | Self::Fallocate { .. }
            | Self::Forget { .. }
            | Self::Stat { .. } => true,
            Self::Signal { .. }
            | Self::Recv { .. }
            | Self::Send { .. }
            | Self::PollIn { .. }
            | Self::PollEach { .. }
            | Self::PollHangUp { .. }
            | Self::PollOut { .. }
            | Self::Nop => false,
        }
    }
}

/// The outcome of an operation.
#[derive(Debug)]
pub struct Completion {
    /// The operation's token.
    pub token: u64,
    /// Bytes moved, a poll mask, or zero; a short transfer is not an error here.
    pub result: io::Result<usize>,
    /// The buffer of a read or a receive.
    pub buf: Option<Buf>,
    /// The slices of a send, for sending what is left and for reuse of the vector.
    pub slices: Vec<Slice>,
    /// The operation is still in flight, and completes again: [`Op::PollEach`].
    pub goes_on: bool,
}

impl Completion {
    /// Of an operation that owned no memory, by the kernel's result.
    pub(crate) fn bare(token: u64, result: i32) -> Self {
        let result = usize::try_from(result)
            .map_err(|_| io::Error::from_raw_os_error(result.wrapping_neg()));
        Self {
            token,
            result,
            buf: None,
            slices: Vec::new(),
            goes_on: false,
        }
    }
}
