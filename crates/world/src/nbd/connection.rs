//! A client's connection to the modelled server: a stream of bytes in both directions.

use nbd_protocol::{RequestHeader, wire};
use std::collections::VecDeque;

/// See the module's header.
#[allow(
    clippy::struct_excessive_bools,
    reason = "each comes and goes on its own"
)]
#[derive(Debug, Default)]
pub(super) struct Connection {
    id: u64,
    input: VecDeque<u8>,
    output: VecDeque<u8>,
    /// No more requests are read.
    deaf: bool,
    /// The client sends no more.
    half_closed: bool,
    /// The client listens no more.
    unheard: bool,
    /// The client can read the end of the stream behind the output.
    ended: bool,
}

impl Connection {
    /// A connection of this name.
    pub(super) fn new(id: u64) -> Self {
        Self {
            id,
            ..Self::default()
        }
    }

    /// What it is called.
    pub(super) fn id(&self) -> u64 {
        self.id
    }

    // The client's side.

    /// Bytes of the client. False if they cannot be sent any more.
    pub(super) fn send(&mut self, bytes: &[u8]) -> bool {
        if !self.ended {
            self.input.extend(bytes);
        }
        !self.ended
    }

    /// The client sends no more.
    pub(super) fn half_close(&mut self) {
        self.half_closed = true;
    }

    /// The client has closed its end: what it has sent still arrives.
    pub(super) fn close(&mut self) {
        self.half_closed = true;
        self.unheard = true;
        self.output.clear();
    }

    /// Up to `count` bytes for the client; none at the end of the stream.
    pub(super) fn receive(&mut self, count: usize) -> Option<Vec<u8>> {
        if self.output.is_empty() {
            return self.ended.then(Vec::new);
        }
        let count = count.min(self.output.len());
        Some(self.output.drain(..count).collect())
    }

    // The server's side.

    /// The next request and its payload, if all of it is there.
    pub(super) fn next_request(&mut self) -> Option<(RequestHeader, Vec<u8>)> {
        if self.deaf {
            self.input.clear();
            return None;
        }
        let input = self.input.make_contiguous();
        let Some((header, whole)) = whole_request(input) else {
            if self.half_closed {
                self.input.clear();
            }
            return None;
        };
        let payload = input[RequestHeader::BYTES..whole].to_vec();
        self.input.drain(..whole);
        if header.kind == wire::command::DISC {
            self.half_closed = true;
            return None;
        }
        Some((header, payload))
    }

    /// Bytes for the client, if it listens.
    pub(super) fn answer(&mut self, bytes: &[u8]) {
        if !self.unheard {
            self.output.extend(bytes);
        }
    }

    /// Bytes that are on their way to the client.
    pub(super) fn on_their_way(&self) -> usize {
        self.output.len()
    }

    /// Whether requests are read and answers sent.
    pub(super) fn is_open(&self) -> bool {
        !self.deaf && !self.unheard
    }

    /// Whether no more requests are read.
    pub(super) fn is_deaf(&self) -> bool {
        self.deaf
    }

    /// It breaks behind so many of the bytes that are on their way to the client. What the server has
    /// received goes on.
    pub(super) fn break_behind(&mut self, bytes: usize) {
        self.deaf = true;
        self.unheard = true;
        self.output.truncate(bytes);
    }

    /// The server has died: no more than so many of the bytes on their way come to the client.
    pub(super) fn crash(&mut self, bytes: usize) {
        if !self.ended {
            self.output.truncate(bytes);
        }
        self.input.clear();
        self.deaf = true;
        self.ended = true;
    }

    /// Nothing is done any more for what it asked: it ends if it asks no more.
    pub(super) fn end_if_quiet(&mut self) {
        let received_all = self.half_closed && self.input.is_empty();
        self.ended |= self.deaf || received_all;
    }

    /// Whether the client can read the end of the stream.
    pub(super) fn has_ended(&self) -> bool {
        self.ended
    }

    /// Whether neither side has anything to do with it any more.
    pub(super) fn is_over(&self) -> bool {
        self.ended && self.unheard && self.output.is_empty() && self.half_closed
    }
}

/// The request that the input begins with, if all of it is there, and its length.
fn whole_request(input: &[u8]) -> Option<(RequestHeader, usize)> {
    let header = input.first_chunk::<{ RequestHeader::BYTES }>()?;
    let header = RequestHeader::decode(header).expect("the client sends requests");
    let whole = RequestHeader::BYTES + header.payload_bytes() as usize;
    (input.len() >= whole).then_some((header, whole))
}
