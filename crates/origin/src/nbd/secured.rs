//! The socket of one connection whose bytes are encrypted.

use super::socket::{Heard, RingSocket};
use super::tls::Secured;
use super::wire::{Carrier, Sending, Wire};
use block_io::{BufPool, OriginDone, Slice};
use nbd_client::{Client, LinkId};
use openssl::ssl::ErrorCode;
use ring::{Ring, SourceId};
use std::io::Write as _;
use std::os::fd::OwnedFd;
use units::Instant;

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
        Box::new(SecuredStream {
            link,
            socket: RingSocket::new(self.socket, ring, pool),
            session: self.session,
            pool: pool.clone(),
            sending: None,
            closing: false,
        })
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
    socket: RingSocket,
    session: Secured,
    pool: BufPool,
    /// A send is in flight.
    sending: Option<For>,
    /// Nothing more is sent when that has ended.
    closing: bool,
}

impl SecuredStream {
    /// Sends what OpenSSL has written, unless a send is in flight.
    fn push(&mut self, reason: For) {
        if self.sending.is_some() {
            return;
        }
        let bytes = std::mem::take(&mut self.session.get_mut().outgoing);
        if !bytes.is_empty() {
            self.sending = Some(reason);
            self.socket.send(vec![self.pool.copy_of(&bytes)]);
        } else if self.closing {
            self.socket.shut();
        }
    }

    /// A send has ended.
    fn sent(&mut self, client: &mut Client) {
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
}

impl Wire for SecuredStream {
    fn link(&self) -> LinkId {
        self.link
    }

    fn source(&self) -> SourceId {
        self.socket.source()
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
            self.socket.say(&bytes);
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
        while let Some(heard) = self.socket.next() {
            match heard {
                Heard::Received(buf, count) => {
                    match self.take_in(&buf[..count], client, now, done) {
                        Some(why) => client.ended(self.link, why),
                        None => self.socket.receive(buf),
                    }
                    self.push(For::Tls);
                }
                Heard::Ended(why) => client.ended(self.link, why),
                Heard::Sent => self.sent(client),
                Heard::Broken(why) => client.broken(self.link, why),
            }
        }
    }
}

impl Drop for SecuredStream {
    fn drop(&mut self) {
        self.socket.shut();
    }
}
