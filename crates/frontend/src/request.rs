//! A request on its way from a connection to the disk.

use block_io::Verb;

/// Names a request in flight on its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestKey(u32);

impl RequestKey {
    /// The key as a number, for packing it into a wider id.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The key of a number: an index into the connection's table of requests.
    pub const fn from_number(number: u32) -> Self {
        Self(number)
    }
}

/// A request for the disk.
#[derive(Debug)]
pub struct Incoming {
    /// Goes back with [`Connection::reply`](crate::Connection::reply).
    pub key: RequestKey,
    /// What is asked: within the disk's bounds, aligned to the smallest block that was offered.
    pub verb: Verb,
}
