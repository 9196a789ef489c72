//! What a client asks of whoever drives it.

use block_io::Slice;
use nbd_protocol::RequestHeader;
use units::Bytes;

/// Names a connection for as long as the client lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub(crate) u64);

/// A request that changes the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SentChange {
    /// The cookie of the request.
    pub cookie: u64,
    /// Where the change begins, in bytes.
    pub offset: u64,
    /// How long it is, in bytes.
    pub length: u64,
}

impl SentChange {
    /// One of which nothing is known.
    pub const ANYWHERE: Self = Self {
        cookie: u64::MAX,
        offset: 0,
        length: u64::MAX,
    };
}

/// What is to be done. Effects of one connection are carried out in order.
#[derive(Debug)]
pub enum Effect {
    /// Remember this change before the next [`Effect::Send`]: until [`Effect::Answered`] the server may
    /// carry it out at any time, whatever becomes of us.
    Remember(SentChange),
    /// The change with this cookie was answered, or cannot happen any more: forget it.
    Answered(u64),
    /// Send these bytes, then call [`crate::Client::sent`], or [`crate::Client::broken`]. The
    /// connection gets no other bytes to send before that. At most [`crate::SEND_SLICES`] slices.
    Send {
        /// Over which connection.
        link: LinkId,
        /// What.
        slices: Vec<Slice>,
    },
    /// Tell the server that nothing more will come, and go on receiving to the end of the stream.
    HalfClose(LinkId),
    /// Close a connection; nothing about it is reported any more.
    Close {
        /// Which.
        link: LinkId,
        /// What to send before, if it can be sent at once.
        goodbye: Option<[u8; RequestHeader::BYTES]>,
    },
    /// Connect, then call [`crate::Client::dialled`] or [`crate::Client::not_reached`].
    Dial,
    /// Tell people.
    Report(Report),
}

/// What people may want to know.
#[derive(Debug, PartialEq, Eq)]
pub enum Report {
    /// The connections are given up.
    Lost {
        /// Why.
        why: String,
    },
    /// They have been made anew.
    Connected {
        /// How many.
        connections: usize,
    },
    /// The server came back with a disk that is shorter, or has larger sectors.
    OtherDisk {
        /// The disk's size.
        was: Bytes,
        /// The size of what the server has now.
        is: Bytes,
    },
}
