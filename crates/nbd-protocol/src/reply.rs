//! What a server sends in the transmission phase.
//!
//! ```text
//! simple:      | magic 4 | error 4 | cookie 8 |                       and the data of a read
//! structured:  | magic 4 | flags 2 | type 2 | cookie 8 | length 4 |   and `length` bytes:
//!   OFFSET_DATA   | offset 8 | data |
//!   OFFSET_HOLE   | offset 8 | length 4 |
//!   BLOCK_STATUS  | context 4 | (length 4, state 4)* |
//!   ERROR         | error 4 | text length 2 | text |
//! ```
//!
//! Headers come back as arrays so that a server can put them into a scatter list in front of
//! data that it never copies.

use crate::{Cookie, Errno, limits, wire};
use units::Offset;

/// Length of a simple reply, without the data of a read.
pub const SIMPLE_BYTES: usize = 16;
/// Length of a chunk's header, without its payload.
pub const CHUNK_BYTES: usize = 20;
/// Length of what precedes the data of an `OFFSET_DATA` chunk.
pub const DATA_HEADER_BYTES: usize = CHUNK_BYTES + 8;
/// Length of a whole `OFFSET_HOLE` chunk.
pub const HOLE_BYTES: usize = CHUNK_BYTES + 12;

/// A simple reply. After a successful read its data follows.
pub fn simple(cookie: Cookie, result: Result<(), Errno>) -> [u8; SIMPLE_BYTES] {
    let error = result.err().map_or(0, Errno::to_wire);
    let mut bytes = [0; SIMPLE_BYTES];
    bytes[0..4].copy_from_slice(&wire::SIMPLE_REPLY_MAGIC.to_be_bytes());
    bytes[4..8].copy_from_slice(&error.to_be_bytes());
    bytes[8..16].copy_from_slice(&cookie.0.to_be_bytes());
    bytes
}

/// A chunk's header.
fn chunk(cookie: Cookie, done: bool, kind: u16, length: u32) -> [u8; CHUNK_BYTES] {
    let flags = if done { wire::chunk::FLAG_DONE } else { 0 };
    let mut bytes = [0; CHUNK_BYTES];
    bytes[0..4].copy_from_slice(&wire::STRUCTURED_REPLY_MAGIC.to_be_bytes());
    bytes[4..6].copy_from_slice(&flags.to_be_bytes());
    bytes[6..8].copy_from_slice(&kind.to_be_bytes());
    bytes[8..16].copy_from_slice(&cookie.0.to_be_bytes());
    bytes[16..20].copy_from_slice(&length.to_be_bytes());
    bytes
}

/// A final chunk with nothing in it: success of anything but a read.
pub fn none(cookie: Cookie) -> [u8; CHUNK_BYTES] {
    chunk(cookie, true, wire::chunk::NONE, 0)
}

/// What precedes `length` bytes of data read from `offset`.
///
/// # Panics
/// If `length` and the offset's eight bytes do not fit in 32 bits; reads are bounded by
/// [`limits::PAYLOAD_BYTES_MAX`].
pub fn data_header(
    cookie: Cookie,
    done: bool,
    offset: Offset,
    length: u32,
) -> [u8; DATA_HEADER_BYTES] {
    let payload = length.checked_add(8).expect("a read is within its limit");
    let mut bytes = [0; DATA_HEADER_BYTES];
    bytes[..CHUNK_BYTES].copy_from_slice(&chunk(cookie, done, wire::chunk::OFFSET_DATA, payload));
    bytes[CHUNK_BYTES..].copy_from_slice(&offset.get().to_be_bytes());
    bytes
}

/// `length` bytes from `offset` that read as zeroes.
pub fn hole(cookie: Cookie, done: bool, offset: Offset, length: u32) -> [u8; HOLE_BYTES] {
    let mut bytes = [0; HOLE_BYTES];
    bytes[..CHUNK_BYTES].copy_from_slice(&chunk(cookie, done, wire::chunk::OFFSET_HOLE, 12));
    bytes[CHUNK_BYTES..CHUNK_BYTES + 8].copy_from_slice(&offset.get().to_be_bytes());
    bytes[CHUNK_BYTES + 8..].copy_from_slice(&length.to_be_bytes());
    bytes
}

/// Appends a final error chunk. The text is for people and is cut at
/// [`limits::MESSAGE_BYTES_MAX`].
///
/// # Panics
/// Never: a text that was cut there has a length that fits.
pub fn error(into: &mut Vec<u8>, cookie: Cookie, errno: Errno, text: &str) {
    let text = &text[..text.floor_char_boundary(limits::MESSAGE_BYTES_MAX)];
    let length = u16::try_from(text.len()).expect("a message is within its limit");
    let kind = wire::chunk::ERROR;
    into.extend_from_slice(&chunk(cookie, true, kind, 6 + u32::from(length)));
    into.extend_from_slice(&errno.to_wire().to_be_bytes());
    into.extend_from_slice(&length.to_be_bytes());
    into.extend_from_slice(text.as_bytes());
}

/// One run of a range with the same allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Length in bytes.
    pub length: u32,
    /// [`wire::STATE_HOLE`] and [`wire::STATE_ZERO`].
    pub state: u32,
}

/// Appends a final `base:allocation` chunk.
///
/// # Panics
/// If there is no extent, or more than [`limits::CHUNK_BYTES_MAX`] holds.
pub fn block_status(into: &mut Vec<u8>, cookie: Cookie, extents: &[Extent]) {
    assert!(!extents.is_empty(), "a range has at least one extent");
    let length = u32::try_from(4 + extents.len() * 8).expect("extents are few");
    assert!(length <= limits::CHUNK_BYTES_MAX, "extents are few");
    into.extend_from_slice(&chunk(cookie, true, wire::chunk::BLOCK_STATUS, length));
    into.extend_from_slice(&wire::BASE_ALLOCATION_ID.to_be_bytes());
    for extent in extents {
        into.extend_from_slice(&extent.length.to_be_bytes());
        into.extend_from_slice(&extent.state.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COOKIE: Cookie = Cookie(0x0102_0304_0506_0708);

    #[test]
    fn simple_replies_are_pinned_byte_for_byte() {
        let ok = [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];
        assert_eq!(simple(COOKIE, Ok(())), ok);
        let failed = [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 5, 1, 2, 3, 4, 5, 6, 7, 8];
        assert_eq!(simple(COOKIE, Err(Errno::Io)), failed);
    }

    #[test]
    fn chunks_are_pinned_byte_for_byte() {
        let data = [
            0x66, 0x8e, 0x33, 0xef, 0, 1, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8, // DONE, OFFSET_DATA
            0, 0, 2, 8, 0, 0, 0, 0, 0, 0, 0x10, 0, // 8 + 512 bytes, from 4096
        ];
        assert_eq!(data_header(COOKIE, true, Offset::kib(4), 512), data);
        let zeroes = [
            0x66, 0x8e, 0x33, 0xef, 0, 0, 0, 2, 1, 2, 3, 4, 5, 6, 7, 8, // OFFSET_HOLE
            0, 0, 0, 12, 0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 2, 0,
        ];
        assert_eq!(hole(COOKIE, false, Offset::kib(4), 512), zeroes);
        let nothing = [
            0x66, 0x8e, 0x33, 0xef, 0, 1, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0,
        ];
        assert_eq!(none(COOKIE), nothing);
    }

    #[test]
    fn a_block_status_is_pinned_byte_for_byte() {
        let mut chunk = Vec::new();
        let extents = [
            Extent {
                length: 4096,
                state: 0,
            },
            Extent {
                length: 512,
                state: wire::STATE_HOLE | wire::STATE_ZERO,
            },
        ];
        block_status(&mut chunk, COOKIE, &extents);
        let expected = [
            0x66, 0x8e, 0x33, 0xef, 0, 1, 0, 5, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 20, // header
            0, 0, 0, 1, 0, 0, 0x10, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 3,
        ];
        assert_eq!(chunk, expected);
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        let mut chunk = Vec::new();
        error(&mut chunk, COOKIE, Errno::Io, &"ü".repeat(200));
        assert_eq!(chunk.len(), CHUNK_BYTES + 6 + limits::MESSAGE_BYTES_MAX);
        let mut odd = Vec::new();
        error(
            &mut odd,
            COOKIE,
            Errno::Io,
            &format!("x{}", "ü".repeat(200)),
        );
        assert_eq!(odd.len(), CHUNK_BYTES + 6 + limits::MESSAGE_BYTES_MAX - 1);
        assert!(std::str::from_utf8(&odd[CHUNK_BYTES + 6..]).is_ok());
    }
}
