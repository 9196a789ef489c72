//! Replies become bytes for one gathering send.
//!
//! Headers are written one behind the other into a page; read data stay where they are.
//!
//! ```text
//!  headers page  |h1|h2|h3|h4        |
//!  queue         [h1, data1, h2+h3, data3a, data3b, h4]   ──► one sendmsg
//! ```
//!
//! Pure: whoever owns it does the sending, one send at a time. Bytes leave in the order in
//! which replies were put in, each exactly once.

use crate::limits::HEADERS_BYTES;
use block_io::{Buf, BufPool, Payload, Slice};
use nbd_protocol::{Cookie, Errno, reply};
use ring::SEND_SLICES_MAX;
use std::ops::Range;
use units::Offset;

enum Piece {
    /// Of the open headers page.
    Header(Range<usize>),
    Data(Slice),
}

pub(crate) struct Outbox {
    pool: BufPool,
    structured: bool,
    /// The page that headers are being written to, and how far.
    page: Option<Buf>,
    written: usize,
    /// Replies since the page was opened, in order.
    pieces: Vec<Piece>,
    /// Replies before those, in order.
    sealed: Vec<Slice>,
    /// Bytes put in and not known to be sent.
    bytes: u64,
    /// A vector for reuse.
    spare: Vec<Slice>,
    /// For errors, whose text has no fixed length.
    scratch: Vec<u8>,
}

impl Outbox {
    pub(crate) fn new(pool: &BufPool, structured: bool) -> Self {
        Self {
            pool: pool.clone(),
            structured,
            page: None,
            written: 0,
            pieces: Vec::new(),
            sealed: Vec::new(),
            bytes: 0,
            spare: Vec::new(),
            scratch: Vec::new(),
        }
    }

    /// Bytes put in and not known to be sent.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Slices that wait for the next send.
    pub(crate) fn waiting(&self) -> usize {
        self.sealed.len() + self.pieces.len()
    }

    /// Success of anything but a read. A simple reply is right with chunks agreed on, too, and
    /// shorter.
    pub(crate) fn success(&mut self, cookie: Cookie) {
        self.header(&reply::simple(cookie, Ok(())));
    }

    /// Failure of anything.
    pub(crate) fn failure(&mut self, cookie: Cookie, errno: Errno) {
        if self.structured {
            let mut scratch = std::mem::take(&mut self.scratch);
            reply::error(&mut scratch, cookie, errno, explain(errno));
            self.header(&scratch);
            scratch.clear();
            self.scratch = scratch;
        } else {
            self.header(&reply::simple(cookie, Err(errno)));
        }
    }

    /// A read's data.
    ///
    /// # Panics
    /// If they are not exactly `length` bytes: the client would lose the stream.
    pub(crate) fn data(&mut self, cookie: Cookie, offset: Offset, length: u32, data: Payload) {
        let bytes: usize = data.iter().map(|slice| slice.len()).sum();
        assert!(
            bytes as u64 == u64::from(length),
            "a read is answered with what it asked for"
        );
        if self.structured {
            self.header(&reply::data_header(cookie, true, offset, length));
        } else {
            self.header(&reply::simple(cookie, Ok(())));
        }
        self.bytes += u64::from(length);
        let pool = &self.pool;
        let modest = data.into_iter().map(|slice| modest(slice, pool));
        self.pieces.extend(modest.map(Piece::Data));
    }

    /// A range without holes.
    pub(crate) fn all_allocated(&mut self, cookie: Cookie, length: u32) {
        let mut scratch = std::mem::take(&mut self.scratch);
        let extent = reply::Extent { length, state: 0 };
        reply::block_status(&mut scratch, cookie, &[extent]);
        self.header(&scratch);
        scratch.clear();
        self.scratch = scratch;
    }

    fn header(&mut self, bytes: &[u8]) {
        if self.written + bytes.len() > HEADERS_BYTES {
            self.seal();
        }
        let page = self
            .page
            .get_or_insert_with(|| self.pool.take(HEADERS_BYTES));
        let start = self.written;
        let end = start + bytes.len();
        page[start..end].copy_from_slice(bytes);
        self.written = end;
        self.bytes += bytes.len() as u64;
        if let Some(Piece::Header(last)) = self.pieces.last_mut() {
            last.end = end;
        } else {
            self.pieces.push(Piece::Header(start..end));
        }
    }

    /// Closes the headers page and turns the pieces into slices.
    fn seal(&mut self) {
        let Some(page) = self.page.take() else {
            return;
        };
        self.written = 0;
        let page = page.freeze();
        let slices = self.pieces.drain(..).map(|piece| match piece {
            Piece::Header(range) => page.slice(range),
            Piece::Data(slice) => slice,
        });
        self.sealed.extend(slices);
    }

    /// The next send's slices, if there is something to send.
    pub(crate) fn take(&mut self) -> Option<Vec<Slice>> {
        self.seal();
        if self.sealed.is_empty() {
            return None;
        }
        let mut batch = std::mem::replace(&mut self.sealed, std::mem::take(&mut self.spare));
        if batch.len() > SEND_SLICES_MAX {
            self.sealed.extend(batch.drain(SEND_SLICES_MAX..));
        }
        Some(batch)
    }

    /// Takes back a batch of which the first `sent` bytes went out; the rest goes first next
    /// time.
    pub(crate) fn sent(&mut self, mut batch: Vec<Slice>, sent: usize) {
        self.bytes -= sent as u64;
        let mut left = sent;
        let mut whole = 0;
        for slice in &mut batch {
            if left < slice.len() {
                *slice = slice.slice(left..slice.len());
                break;
            }
            left -= slice.len();
            whole += 1;
        }
        batch.drain(..whole);
        if batch.is_empty() {
            self.spare = batch;
        } else {
            batch.append(&mut self.sealed);
            self.sealed = batch;
        }
    }

    /// Forgets everything: there is nobody to send it to.
    pub(crate) fn clear(&mut self) {
        self.page = None;
        self.written = 0;
        self.pieces.clear();
        self.sealed.clear();
        self.bytes = 0;
    }
}

/// A slice that keeps little more memory than it has bytes: a small part of what was fetched for
/// somebody else would keep all of it until the client has received its part.
fn modest(slice: Slice, pool: &BufPool) -> Slice {
    if slice.pinned_bytes() > 2 * BufPool::bytes_taken(slice.len()) {
        pool.copy_of(&slice)
    } else {
        slice
    }
}

fn explain(errno: Errno) -> &'static str {
    match errno {
        Errno::Perm => "the export does not permit this",
        Errno::Io => "input/output error",
        Errno::NoMem => "out of memory",
        Errno::Inval => "unknown, out of bounds, or not a multiple of the smallest block",
        Errno::NoSpc => "beyond the end of the export, or no space left",
        Errno::Overflow => "the answer is too long",
        Errno::NotSup => "not supported",
        Errno::Shutdown => "shutting down",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(batch: &[Slice]) -> Vec<u8> {
        batch.iter().flat_map(|slice| slice.to_vec()).collect()
    }

    #[test]
    fn headers_without_data_between_them_share_a_slice() {
        let pool = BufPool::new();
        let mut outbox = Outbox::new(&pool, false);
        outbox.success(Cookie(1));
        outbox.success(Cookie(2));
        let data = pool.copy_of(&[9; 512]);
        outbox.data(Cookie(3), Offset::ZERO, 512, Payload::from_elem(data, 1));
        let batch = outbox.take().unwrap();
        assert_eq!(batch.len(), 2);
        assert_eq!(batch[0].len(), 48);
        assert_eq!(outbox.bytes(), 48 + 512);
        assert!(outbox.take().is_none());
        outbox.sent(batch, 48 + 512);
        assert_eq!(outbox.bytes(), 0);
    }

    #[test]
    fn read_data_are_not_copied() {
        let pool = BufPool::new();
        let mut outbox = Outbox::new(&pool, true);
        let data = pool.copy_of(&[9; 4096]);
        let address = data.as_ptr();
        outbox.data(Cookie(3), Offset::ZERO, 4096, Payload::from_elem(data, 1));
        assert_eq!(outbox.take().unwrap()[1].as_ptr(), address);
    }

    #[test]
    fn a_partial_send_goes_on_where_it_stopped() {
        let pool = BufPool::new();
        for stop in 0..=64 {
            let mut outbox = Outbox::new(&pool, false);
            let mut whole = Outbox::new(&pool, false);
            for out in [&mut outbox, &mut whole] {
                out.success(Cookie(1));
                let data = pool.copy_of(b"0123456789abcdef");
                out.data(Cookie(2), Offset::ZERO, 16, Payload::from_elem(data, 1));
                out.success(Cookie(3));
            }
            let batch = outbox.take().unwrap();
            let mut sent = bytes(&batch)[..stop].to_vec();
            outbox.success(Cookie(4));
            whole.success(Cookie(4));
            outbox.sent(batch, stop);
            while let Some(batch) = outbox.take() {
                sent.extend(bytes(&batch));
                let length = bytes(&batch).len();
                outbox.sent(batch, length);
            }
            assert_eq!(sent, bytes(&whole.take().unwrap()), "stopped at {stop}");
            assert_eq!(outbox.bytes(), 0);
        }
    }

    #[test]
    fn more_slices_than_a_send_takes_go_in_several() {
        let pool = BufPool::new();
        let mut outbox = Outbox::new(&pool, true);
        let data = pool.copy_of(&[1; 512]);
        for cookie in 0..1500 {
            let payload = Payload::from_elem(data.clone(), 1);
            outbox.data(Cookie(cookie), Offset::ZERO, 512, payload);
        }
        let mut sent = Vec::new();
        while let Some(batch) = outbox.take() {
            assert!(batch.len() <= SEND_SLICES_MAX);
            let chunk = bytes(&batch);
            outbox.sent(batch, chunk.len());
            sent.extend(chunk);
        }
        assert_eq!(sent.len(), 1500 * (28 + 512));
        for (cookie, reply) in (0_u64..).zip(sent.chunks(540)) {
            assert_eq!(reply[8..16], cookie.to_be_bytes());
        }
    }

    #[test]
    #[should_panic(expected = "what it asked for")]
    fn a_short_answer_is_a_bug() {
        let pool = BufPool::new();
        let payload = Payload::from_elem(pool.copy_of(&[0; 511]), 1);
        Outbox::new(&pool, false).data(Cookie(1), Offset::ZERO, 512, payload);
    }
}
