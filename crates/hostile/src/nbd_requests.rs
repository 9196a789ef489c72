//! A client that asks for anything at all.
//!
//! The first byte chooses the terms, the rest are headers back to back.

use crate::pieces;
use nbd_protocol::{
    BlockSizes, Command, Errno, Export, RequestHeader, Terms, TransmissionFlags, wire,
};
use units::Bytes;

const SIZE: Bytes = Bytes::mib(64);

pub(crate) fn run(bytes: &[u8]) {
    let Some((choice, stream)) = pieces::choice(bytes) else {
        return;
    };
    let bit = |n: u8| choice & (1 << n) != 0;
    let terms = Terms {
        export: Export {
            size: SIZE,
            flags: TransmissionFlags::HAS_FLAGS
                .with_if(bit(0), TransmissionFlags::READ_ONLY)
                .with_if(bit(1), TransmissionFlags::SEND_FLUSH)
                .with_if(bit(1), TransmissionFlags::SEND_FUA)
                .with_if(bit(2), TransmissionFlags::SEND_TRIM)
                .with_if(bit(3), TransmissionFlags::SEND_WRITE_ZEROES)
                .with_if(bit(4), TransmissionFlags::SEND_FAST_ZERO)
                .with_if(bit(4), TransmissionFlags::SEND_DF)
                .with_if(bit(5), TransmissionFlags::SEND_CACHE),
            blocks: if bit(6) {
                BlockSizes::OURS
            } else {
                BlockSizes::UNSAID
            },
        },
        structured: bit(7),
        base_allocation: bit(7),
    };
    for header in stream.chunks_exact(RequestHeader::BYTES) {
        let header = header.try_into().expect("a chunk has its size");
        judge(header, &terms);
    }
}

fn judge(bytes: &[u8; RequestHeader::BYTES], terms: &Terms) {
    let Ok(request) = RequestHeader::decode(bytes) else {
        assert_ne!(bytes[..4], wire::REQUEST_MAGIC.to_be_bytes());
        return;
    };
    assert_eq!(request.encode(), *bytes);
    let read_only = terms.export.flags.has(TransmissionFlags::READ_ONLY);
    let (offset, length, writes) = match request.command(terms) {
        Err(errno) => {
            assert_ne!(errno, Errno::Io, "nothing was tried yet");
            return;
        }
        Ok(Command::Disconnect | Command::Flush) => return,
        Ok(
            Command::Read { offset, length, .. }
            | Command::Cache { offset, length }
            | Command::BlockStatus { offset, length, .. },
        ) => (offset, length, false),
        Ok(
            Command::Write { offset, length, .. }
            | Command::Trim { offset, length, .. }
            | Command::WriteZeroes { offset, length, .. },
        ) => (offset, length, true),
    };
    assert!(!(writes && read_only), "a read-only export is not changed");
    assert!(!length.is_zero());
    assert!(
        offset
            .checked_add(length)
            .is_some_and(|end| end.from_start() <= SIZE)
    );
    let unit = u64::from(terms.export.blocks.minimum);
    assert!(offset.is_multiple_of(unit));
    assert!(length.is_multiple_of(unit));
    assert!(request.payload_bytes() <= terms.export.blocks.maximum);
}
