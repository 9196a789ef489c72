//! The socket of one connection in the clear.

use super::socket::{Heard, RingSocket};
use super::wire::{Carrier, Sending, Wire};
use crate::late::Kept;
use block_io::{BufPool, OriginDone, Slice};
use nbd_client::{Client, LinkId};
use ring::{Ring, SourceId};
use std::os::fd::OwnedFd;
use units::Instant;

/// A socket that is through with its handshake.
#[derive(Debug)]
pub(super) struct Socket {
    pub(super) socket: OwnedFd,
    /// Somebody keeps a copy of it for the next process.
    pub(super) kept: Option<Kept>,
}

impl Carrier for Socket {
    fn start(self: Box<Self>, link: LinkId, ring: &Ring, pool: &BufPool) -> Box<dyn Wire> {
        Box::new(Stream {
            link,
            socket: RingSocket::new(self.socket, ring, pool),
            kept: self.kept,
        })
    }
}

/// The socket of one connection.
struct Stream {
    link: LinkId,
    socket: RingSocket,
    /// Somebody keeps a copy of it.
    kept: Option<Kept>,
}

impl Wire for Stream {
    fn link(&self) -> LinkId {
        self.link
    }

    fn source(&self) -> SourceId {
        self.socket.source()
    }

    fn send(&mut self, slices: Vec<Slice>) -> Sending {
        self.socket.send(slices);
        Sending::GoesOn
    }

    fn say(&mut self, bytes: &[u8]) {
        self.socket.say(bytes);
    }

    fn half_close(&mut self) {
        self.socket.shut();
    }

    fn leave(&mut self) {
        if let Some(kept) = &mut self.kept {
            kept.leave();
        }
    }

    fn poll(&mut self, client: &mut Client, now: Instant, done: &mut Vec<OriginDone>) {
        while let Some(heard) = self.socket.next() {
            match heard {
                Heard::Received(buf, count) => {
                    client.received(self.link, &buf[..count], now, done);
                    self.socket.receive(buf);
                }
                Heard::Ended(why) => client.ended(self.link, why),
                Heard::Sent => client.sent(self.link),
                Heard::Broken(why) => client.broken(self.link, why),
            }
        }
    }
}

impl Drop for Stream {
    /// Ends the stream, so that the server does not wait for the ring to let go of the socket.
    /// Whoever drops one with requests in flight makes the server write to nobody, at which nbdkit
    /// 1.32 now and then fails an assertion of its own and is gone: better to let them end first.
    fn drop(&mut self) {
        if !self.kept.as_ref().is_some_and(Kept::is_left) {
            self.socket.shut();
        }
    }
}
