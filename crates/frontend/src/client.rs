//! How a client gets to its disk.

use crate::budget::Account;
use crate::connection::Connection;
use crate::limits::ConnectionLimits;
use crate::reservation::Reservation;
use block_io::BufPool;
use ring::Ring;
use std::fmt;
use units::Bytes;

/// A front end: a way in which clients reach a disk. Its crate has one of these as a constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrontEnd {
    /// What people call it.
    pub name: &'static str,
    /// How many connections one VM may have to a disk over it; `None`: as many as the shard is
    /// configured with.
    pub connections_max: Option<usize>,
}

impl fmt::Display for FrontEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// A client that has come for a disk. It travels to the thread of the disk's shard and becomes a
/// [`Connection`] there. If the shard refuses it, it is dropped, which closes its socket.
pub trait NewClient: Send {
    /// Over which front end it comes.
    fn front_end(&self) -> FrontEnd;

    /// Takes it over. The connection is polled next.
    fn open(self: Box<Self>, context: Context<'_>) -> Box<dyn Connection>;
}

/// What a disk is like for its clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// What people call it.
    pub name: String,
    /// Its size.
    pub size: Bytes,
    /// Whether writes are refused.
    pub read_only: bool,
    /// Whether discards do anything.
    pub can_discard: bool,
}

/// What a shard gives to a connection.
pub struct Context<'a> {
    /// The disk.
    pub offer: Offer,
    /// What drives it: the connection has a source on it.
    pub ring: &'a Ring,
    /// Where its buffers come from.
    pub pool: &'a BufPool,
    /// What it may have in flight.
    pub limits: ConnectionLimits,
    /// Its account in the memory budget.
    pub account: Account,
    /// Shared by the connections of one VM to one disk.
    pub reservation: Reservation,
}
