//! The socket of one connection, on a shard's ring.
//!
//! One receive is always in flight, until the stream ends.

use super::limits;
use super::wire::{Carrier, Sending, Wire};
use crate::late::Kept;
use block_io::{Buf, BufPool, OriginDone, Slice};
use nbd_client::{Client, LinkId};
use ring::{Op, Ring, Source, SourceId};
use rustix::net::{SendFlags, Shutdown};
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use units::Instant;

const RECEIVE: u64 = 0;
const SEND: u64 = 1;

/// A socket that is through with its handshake.
#[derive(Debug)]
pub(super) struct Socket {
    pub(super) socket: OwnedFd,
    /// Somebody keeps a copy of it for the next process.
    pub(super) kept: Option<Kept>,
}

impl Carrier for Socket {
    fn start(self: Box<Self>, link: LinkId, ring: &Ring, pool: &BufPool) -> Box<dyn Wire> {
        Box::new(Stream::new(link, *self, ring, pool))
    }
}

/// The socket of one connection.
struct Stream {
    link: LinkId,
    source: Source,
    socket: Rc<OwnedFd>,
    /// Somebody keeps a copy of it.
    kept: Option<Kept>,
}

impl Stream {
    /// Takes over a socket that is through with its handshake.
    fn new(link: LinkId, connected: Socket, ring: &Ring, pool: &BufPool) -> Self {
        let stream = Self {
            link,
            source: ring.source(),
            socket: Rc::new(connected.socket),
            kept: connected.kept,
        };
        stream.receive(pool.take(limits::RECEIVE_BYTES));
        stream
    }

    /// Sends; the client learns when all of it is on its way.
    fn submit(&self, slices: Vec<Slice>) {
        let socket = Rc::clone(&self.socket);
        self.source.submit(SEND, Op::Send { socket, slices });
    }

    /// Tells the server that nothing more will come.
    fn shut(&self) {
        // It fails where the stream has ended already.
        let _ = rustix::net::shutdown(&self.socket, Shutdown::Write);
    }

    fn receive(&self, buf: Buf) {
        let socket = Rc::clone(&self.socket);
        let end = buf.len();
        let start = 0;
        let op = Op::Recv {
            socket,
            buf,
            start,
            end,
        };
        self.source.submit(RECEIVE, op);
    }

    /// A send has ended; what the kernel did not take goes first in the next.
    fn sent(&self, count: usize, slices: Vec<Slice>, client: &mut Client) {
        let rest = rest_of(slices, count);
        if rest.is_empty() {
            client.sent(self.link);
        } else {
            self.submit(rest);
        }
    }
}

/// What is left of slices of which the first `count` bytes were sent.
pub(super) fn rest_of(slices: Vec<Slice>, mut count: usize) -> Vec<Slice> {
    let mut rest = Vec::new();
    for slice in slices {
        let taken = count.min(slice.len());
        count -= taken;
        if taken < slice.len() {
            rest.push(slice.slice(taken..slice.len()));
        }
    }
    rest
}

impl Wire for Stream {
    fn link(&self) -> LinkId {
        self.link
    }

    fn source(&self) -> SourceId {
        self.source.id()
    }

    fn send(&mut self, slices: Vec<Slice>) -> Sending {
        self.submit(slices);
        Sending::GoesOn
    }

    fn say(&mut self, bytes: &[u8]) {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let _ = rustix::net::send(&self.socket, bytes, flags);
    }

    fn half_close(&mut self) {
        self.shut();
    }

    fn leave(&mut self) {
        if let Some(kept) = &mut self.kept {
            kept.leave();
        }
    }

    fn poll(&mut self, client: &mut Client, now: Instant, done: &mut Vec<OriginDone>) {
        while let Some(completion) = self.source.pop() {
            match (completion.token, completion.result) {
                (RECEIVE, Ok(0)) => {
                    client.ended(self.link, "the server closed the connection".to_owned());
                }
                (RECEIVE, Ok(count)) => {
                    let Some(buf) = completion.buf else {
                        continue;
                    };
                    client.received(self.link, &buf[..count], now, done);
                    self.receive(buf);
                }
                (SEND, Ok(count)) => self.sent(count, completion.slices, client),
                (SEND, Err(error)) if is_interruption(&error) => self.submit(completion.slices),
                (SEND, Err(error)) => client.broken(self.link, error.to_string()),
                (_, Err(error)) => match completion.buf {
                    Some(buf) if is_interruption(&error) => self.receive(buf),
                    _ => client.ended(self.link, error.to_string()),
                },
                (_, Ok(_)) => {}
            }
        }
    }
}

fn is_interruption(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::Interrupted
}

impl Drop for Stream {
    /// Ends the stream, so that the server does not wait for the ring to let go of the socket.
    /// Whoever drops one with requests in flight makes the server write to nobody, at which nbdkit
    /// 1.32 now and then fails an assertion of its own and is gone: better to let them end first.
    fn drop(&mut self) {
        if !self.kept.as_ref().is_some_and(Kept::is_left) {
            self.shut();
        }
    }
}
