//! The socket of one connection whose bytes are encrypted, on a shard's ring.
//!
//! One receive is always in flight, until the stream ends; one send at most.

use super::limits;
use super::stream::rest_of;
use super::tls::Secured;
use super::wire::{Carrier, Sending, Wire};
use block_io::{Buf, BufPool, OriginDone, Slice};
use nbd_client::{Client, LinkId};
use openssl::ssl::ErrorCode;
use ring::{Op, Ring, Source, SourceId};
use rustix::net::{SendFlags, Shutdown};
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use units::Instant;

const RECEIVE: u64 = 0;
const SEND: u64 = 1;

/// Bytes that are decrypted at a time: a record of TLS.
const RECORD_BYTES: usize = 16 << 10;

/// A socket that is through with both of its handshakes.
pub(super) struct SecuredSocket {
    pub(super) socket: OwnedFd,
    pub(super) session: Secured,
}

impl std::fmt::Debug for SecuredSocket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SecuredSocket")
    }
}

impl Carrier for SecuredSocket {
    fn start(self: Box<Self>, link: LinkId, ring: &Ring, pool: &BufPool) -> Box<dyn Wire> {
        let stream = SecuredStream {
            link,
            source: ring.source(),
            socket: Rc::new(self.socket),
            session: self.session,
            pool: pool.clone(),
            sending: None,
            closing: false,
        };
        stream.receive(pool.take(limits::RECEIVE_BYTES));
        Box::new(stream)
    }
}

/// What a send in flight is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum For {
    /// The client waits for its end.
    Client,
    /// OpenSSL's own words.
    Tls,
}

struct SecuredStream {
    link: LinkId,
    source: Source,
    socket: Rc<OwnedFd>,
    session: Secured,
    pool: BufPool,
    /// A send is in flight.
    sending: Option<For>,
    /// Nothing more is sent when that has ended.
    closing: bool,
}

impl SecuredStream {
    fn receive(&self, buf: Buf) {
        let socket = Rc::clone(&self.socket);
        let end = buf.len();
        let op = Op::Recv {
            socket,
            buf,
            start: 0,
            end,
        };
        self.source.submit(RECEIVE, op);
    }

    /// Sends what OpenSSL has written, unless a send is in flight.
    fn push(&mut self, reason: For) {
        if self.sending.is_some() {
            return;
        }
        let bytes = std::mem::take(&mut self.session.get_mut().outgoing);
        if !bytes.is_empty() {
            self.sending = Some(reason);
            self.submit(vec![self.pool.copy_of(&bytes)]);
        } else if self.closing {
            self.shut();
        }
    }

    fn submit(&self, slices: Vec<Slice>) {
        let socket = Rc::clone(&self.socket);
        self.source.submit(SEND, Op::Send { socket, slices });
    }

    /// A send has ended; what the kernel did not take goes first in the next.
    fn sent(&mut self, count: usize, slices: Vec<Slice>, client: &mut Client) {
        let rest = rest_of(slices, count);
        if !rest.is_empty() {
            return self.submit(rest);
        }
        let reason = self.sending.take();
        // The client's bytes may have waited for OpenSSL's, and are not sent yet.
        if reason == Some(For::Client) && self.session.get_ref().outgoing.is_empty() {
            client.sent(self.link);
        }
        self.push(reason.unwrap_or(For::Tls));
    }

    /// Decrypts what has arrived. Why the stream has ended, if it has.
    fn take_in(
        &mut self,
        bytes: &[u8],
        client: &mut Client,
        now: Instant,
        done: &mut Vec<OriginDone>,
    ) -> Option<String> {
        self.session.get_mut().incoming.extend(bytes);
        let mut record = [0; RECORD_BYTES];
        loop {
            match self.session.ssl_read(&mut record) {
                Ok(count) => client.received(self.link, &record[..count], now, done),
                Err(error) if error.code() == ErrorCode::WANT_READ => return None,
                Err(error) if error.code() == ErrorCode::ZERO_RETURN => {
                    return Some("the server closed the connection".to_owned());
                }
                Err(error) => return Some(error.to_string()),
            }
        }
    }

    /// Tells the server that nothing more will come.
    fn shut(&self) {
        // It fails where the stream has ended already.
        let _ = rustix::net::shutdown(&self.socket, Shutdown::Write);
    }
}

impl Wire for SecuredStream {
    fn link(&self) -> LinkId {
        self.link
    }

    fn source(&self) -> SourceId {
        self.source.id()
    }

    fn send(&mut self, slices: Vec<Slice>) -> Sending {
        for slice in slices {
            // It goes to memory. A session that has failed is told by the next receive.
            let _ = self.session.write_all(&slice);
        }
        if self.sending == Some(For::Tls) {
            self.sending = Some(For::Client);
        }
        self.push(For::Client);
        Sending::GoesOn
    }

    fn say(&mut self, bytes: &[u8]) {
        let _ = self.session.write_all(bytes);
        if self.sending.is_none() {
            let bytes = std::mem::take(&mut self.session.get_mut().outgoing);
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            let _ = rustix::net::send(&self.socket, &bytes, flags);
        }
    }

    fn half_close(&mut self) {
        if !self.closing {
            self.closing = true;
            let _ = self.session.shutdown();
            self.push(For::Tls);
        }
    }

    /// Nobody can keep a connection whose keys die with this process.
    fn leave(&mut self) {}

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
                    match self.take_in(&buf[..count], client, now, done) {
                        Some(why) => client.ended(self.link, why),
                        None => self.receive(buf),
                    }
                    self.push(For::Tls);
                }
                (SEND, Ok(count)) => self.sent(count, completion.slices, client),
                (SEND, Err(error)) => client.broken(self.link, error.to_string()),
                (_, Err(error)) => client.ended(self.link, error.to_string()),
                (_, Ok(_)) => {}
            }
        }
    }
}

impl Drop for SecuredStream {
    fn drop(&mut self) {
        self.shut();
    }
}
