//! An export of an NBD server, a connection for each job.
//!
//! One receive is always in flight; one send at most, of everything that was asked for since the
//! one before. The cookie of a request is its slot. A connection that is lost is the job's end:
//! a load generator that quietly connects again would measure something else.

mod dial;

pub(super) use dial::{Connected, open};

use super::{Done, Needs, Request, Target, fill_with_noise};
use crate::limits::RECEIVE_BYTES;
use block_io::{Buf, BufPool, Slice};
use nbd_protocol::client::{Event, Expected, Replies};
use nbd_protocol::{CommandFlags, Cookie, RequestHeader, wire};
use ring::{Op, Ring, SEND_SLICES_MAX, Source, SourceId};
use rustix::net::{SendFlags, Shutdown};
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use units::{Duration, Offset};

const RECEIVE: u64 = 0;
const SEND: u64 = 1;
/// Entries of the job's ring: two operations are in flight at most.
const ENTRIES: u32 = 8;

/// What is to be sent: headers up to a payload, and the payload.
struct Out {
    /// Where its headers end in `NbdTarget::headers`.
    headers_end: usize,
    payload: Option<Slice>,
}

/// An export on a job's ring.
pub(super) struct NbdTarget {
    socket: Rc<OwnedFd>,
    ring: Ring,
    source: Source,
    ready: Vec<SourceId>,
    pool: BufPool,
    replies: Replies,
    /// Headers that were not sent yet, one behind the other.
    headers: Vec<u8>,
    queue: Vec<Out>,
    /// What the kernel has, or has given back.
    sending: bool,
    noise: Slice,
    /// By slot: the bytes of its last read, if they are looked at.
    data: Vec<Vec<u8>>,
    keeps_data: bool,
}

impl NbdTarget {
    pub(super) fn new(connected: Connected, needs: &Needs) -> io::Result<Self> {
        let ring = Ring::sleeping(ENTRIES)?;
        let pool = BufPool::new();
        let mut noise = pool.take(needs.request_bytes);
        fill_with_noise(&mut noise);
        let target = Self {
            socket: Rc::new(connected.socket),
            source: ring.source(),
            ring,
            ready: Vec::new(),
            replies: Replies::new(connected.terms.structured),
            headers: Vec::new(),
            queue: Vec::new(),
            sending: false,
            noise: noise.freeze(),
            data: vec![Vec::new(); needs.depth],
            keeps_data: needs.keeps_data,
            pool,
        };
        let buf = target.pool.take(RECEIVE_BYTES);
        target.receive(buf);
        Ok(target)
    }

    fn receive(&self, buf: Buf) {
        let op = Op::Recv {
            socket: Rc::clone(&self.socket),
            end: buf.len(),
            buf,
            start: 0,
        };
        self.source.submit(RECEIVE, op);
    }

    fn send(&mut self, slices: Vec<Slice>) {
        self.sending = true;
        let socket = Rc::clone(&self.socket);
        self.source.submit(SEND, Op::Send { socket, slices });
    }

    /// Sends what was asked for, unless a send is in flight.
    fn push(&mut self) {
        if self.sending || self.headers.is_empty() {
            return;
        }
        // Each entry is two slices at most; what is too much goes with the next send.
        let count = self.queue.len().min(SEND_SLICES_MAX / 2);
        let end = self.queue[count - 1].headers_end;
        let headers = self.pool.copy_of(&self.headers[..end]);
        let mut slices = Vec::with_capacity(2 * count);
        let mut from = 0;
        for (place, out) in self.queue.drain(..count).enumerate() {
            // Headers of requests without a payload are one slice together.
            if out.payload.is_some() || place + 1 == count {
                slices.push(headers.slice(from..out.headers_end));
                from = out.headers_end;
            }
            slices.extend(out.payload);
        }
        self.headers.drain(..end);
        for out in &mut self.queue {
            out.headers_end -= end;
        }
        self.send(slices);
    }

    /// A send has ended; what the kernel did not take goes first in the next.
    fn sent(&mut self, mut count: usize, slices: Vec<Slice>) {
        let mut rest = Vec::new();
        for slice in slices {
            let taken = count.min(slice.len());
            count -= taken;
            if taken < slice.len() {
                rest.push(slice.slice(taken..slice.len()));
            }
        }
        self.sending = false;
        if rest.is_empty() {
            self.push();
        } else {
            self.send(rest);
        }
    }

    fn take_in(&mut self, mut bytes: &[u8], done: &mut Vec<Done>) -> io::Result<()> {
        let slot = |cookie: Cookie| usize::try_from(cookie.0).expect("a slot's number");
        while let Some(event) = self.replies.next(&mut bytes).map_err(io::Error::other)? {
            match event {
                Event::Data { cookie, at, bytes } if self.keeps_data => {
                    let at = at as usize;
                    self.data[slot(cookie)][at..at + bytes.len()].copy_from_slice(bytes);
                }
                Event::Zeroes { cookie, at, length } if self.keeps_data => {
                    let at = at as usize;
                    self.data[slot(cookie)][at..at + length as usize].fill(0);
                }
                Event::Data { .. } | Event::Zeroes { .. } => {}
                Event::Done { cookie, result } => {
                    let error = |errno: nbd_protocol::Errno| {
                        let number = i32::try_from(errno.to_wire()).unwrap_or(libc::EIO);
                        io::Error::from_raw_os_error(number)
                    };
                    done.push(Done {
                        slot: slot(cookie),
                        result: result.map_err(error),
                    });
                }
            }
        }
        Ok(())
    }
}

impl Target for NbdTarget {
    fn submit(&mut self, slot: usize, request: Request, data: Option<&[u8]>) -> io::Result<()> {
        let (kind, offset, length) = match request {
            Request::Read { offset, length } => (wire::command::READ, offset, length),
            Request::Write { offset, length } => (wire::command::WRITE, offset, length),
            Request::Trim { offset, length } => (wire::command::TRIM, offset, length),
            Request::WriteZeroes { offset, length } => {
                (wire::command::WRITE_ZEROES, offset, length)
            }
            Request::Flush { .. } => (wire::command::FLUSH, 0, 0),
        };
        let cookie = Cookie(slot as u64);
        let mut expected = Expected::Nothing;
        let mut payload = None;
        if kind == wire::command::READ {
            let offset = Offset::new(offset);
            expected = Expected::Read { offset, length };
            if self.keeps_data {
                self.data[slot].resize(length as usize, 0);
            }
        } else if kind == wire::command::WRITE {
            payload = Some(match data {
                Some(bytes) => self.pool.copy_of(bytes),
                None => self.noise.slice(0..length as usize),
            });
        }
        self.replies.expect(cookie, expected);
        let header = RequestHeader {
            flags: CommandFlags::NONE,
            kind,
            cookie,
            offset,
            length,
        };
        self.headers.extend_from_slice(&header.encode());
        self.queue.push(Out {
            headers_end: self.headers.len(),
            payload,
        });
        Ok(())
    }

    fn wait(&mut self, timeout: Duration, done: &mut Vec<Done>) -> io::Result<()> {
        self.push();
        self.ring.submit_and_wait(Some(timeout))?;
        self.ring.take_ready(&mut self.ready);
        self.ready.clear();
        while let Some(completion) = self.source.pop() {
            match (completion.token, completion.result) {
                (RECEIVE, Ok(0)) => {
                    let why = "the server closed the connection";
                    return Err(io::Error::new(io::ErrorKind::ConnectionReset, why));
                }
                (RECEIVE, Ok(count)) => {
                    let buf = completion.buf.expect("a receive returns its buffer");
                    self.take_in(&buf[..count], done)?;
                    self.receive(buf);
                }
                (SEND, Ok(count)) => self.sent(count, completion.slices),
                (RECEIVE, Err(error)) if error.kind() == io::ErrorKind::Interrupted => {
                    let buf = completion.buf.expect("a receive returns its buffer");
                    self.receive(buf);
                }
                (SEND, Err(error)) if error.kind() == io::ErrorKind::Interrupted => {
                    self.send(completion.slices);
                }
                (_, Err(error)) => return Err(error),
                (_, Ok(_)) => {}
            }
        }
        Ok(())
    }

    fn fetch(&mut self, slot: usize, into: &mut [u8]) {
        assert!(self.keeps_data, "whoever looks at data says so before");
        into.copy_from_slice(&self.data[slot][..into.len()]);
    }
}

impl Drop for NbdTarget {
    /// Says goodbye if nothing is in flight, so that the server does not take it for a crash.
    fn drop(&mut self) {
        if self.replies.in_flight() == 0 && !self.sending {
            let goodbye = RequestHeader {
                flags: CommandFlags::NONE,
                kind: wire::command::DISC,
                cookie: Cookie(u64::MAX),
                offset: 0,
                length: 0,
            };
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            // A courtesy: whoever does not get it sees the end of the stream.
            let _ = rustix::net::send(&self.socket, &goodbye.encode(), flags);
        }
        let _ = rustix::net::shutdown(&self.socket, Shutdown::Write);
    }
}
