//! A socket on a shard's ring: one receive is always in flight, until the stream ends, and one send at most.

use super::limits;
use block_io::{Buf, BufPool, Slice};
use ring::{Op, Ring, Source, SourceId};
use rustix::net::{SendFlags, Shutdown};
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;

const RECEIVE: u64 = 0;
const SEND: u64 = 1;

/// A socket on a shard's ring.
pub(super) struct RingSocket {
    socket: Rc<OwnedFd>,
    source: Source,
}

/// What the ring has for a socket.
pub(super) enum Heard {
    /// So many bytes have arrived. Whoever has read them gives the buffer back to [`RingSocket::receive`].
    Received(Buf, usize),
    /// Nothing more arrives.
    Ended(String),
    /// All of the last send is on its way.
    Sent,
    /// Nothing more can be sent.
    Broken(String),
}

impl RingSocket {
    /// Takes over a socket, and begins to receive.
    pub(super) fn new(socket: OwnedFd, ring: &Ring, pool: &BufPool) -> Self {
        let socket = Self {
            socket: Rc::new(socket),
            source: ring.source(),
        };
        socket.receive(pool.take(limits::RECEIVE_BYTES));
        socket
    }

    pub(super) fn source(&self) -> SourceId {
        self.source.id()
    }

    /// Sends; [`Heard::Sent`] when all of it is on its way.
    pub(super) fn send(&self, slices: Vec<Slice>) {
        let socket = Rc::clone(&self.socket);
        self.source.submit(SEND, Op::Send { socket, slices });
    }

    /// Sends a few bytes if that can be done at once.
    pub(super) fn say(&self, bytes: &[u8]) {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let _ = rustix::net::send(&self.socket, bytes, flags);
    }

    /// Receives the next bytes.
    pub(super) fn receive(&self, buf: Buf) {
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

    /// Tells the server that nothing more will come.
    pub(super) fn shut(&self) {
        // It fails where the stream has ended already.
        let _ = rustix::net::shutdown(&self.socket, Shutdown::Write);
    }

    /// What has happened since the last call, one at a time.
    pub(super) fn next(&self) -> Option<Heard> {
        loop {
            let completion = self.source.pop()?;
            match (completion.token, completion.result) {
                (RECEIVE, Ok(0)) => {
                    return Some(Heard::Ended("the server closed the connection".to_owned()));
                }
                (RECEIVE, Ok(count)) => {
                    if let Some(buf) = completion.buf {
                        return Some(Heard::Received(buf, count));
                    }
                }
                (SEND, Ok(count)) => {
                    // What the kernel did not take goes first in the next.
                    let rest = rest_of(completion.slices, count);
                    if rest.is_empty() {
                        return Some(Heard::Sent);
                    }
                    self.send(rest);
                }
                (SEND, Err(error)) if is_interruption(&error) => self.send(completion.slices),
                (SEND, Err(error)) => return Some(Heard::Broken(error.to_string())),
                (_, Err(error)) => match completion.buf {
                    Some(buf) if is_interruption(&error) => self.receive(buf),
                    _ => return Some(Heard::Ended(error.to_string())),
                },
                (_, Ok(_)) => {}
            }
        }
    }
}

/// What is left of slices of which the first `count` bytes were sent.
fn rest_of(slices: Vec<Slice>, mut count: usize) -> Vec<Slice> {
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

fn is_interruption(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::Interrupted
}
