//! Requests pinned, judged, and thrown at random.

use super::*;
use crate::BlockSizes;
use proptest::prelude::*;

fn terms() -> Terms {
    Terms {
        export: Export {
            size: Bytes::mib(1),
            flags: TransmissionFlags::KNOWN.without(TransmissionFlags::READ_ONLY),
            blocks: BlockSizes {
                maximum: 65536,
                ..BlockSizes::OURS
            },
        },
        structured: true,
        base_allocation: true,
    }
}

fn header(kind: u16, flags: CommandFlags, offset: u64, length: u32) -> RequestHeader {
    RequestHeader {
        flags,
        kind,
        cookie: Cookie(7),
        offset,
        length,
    }
}

fn judged(kind: u16, flags: CommandFlags, offset: u64, length: u32) -> Result<Command, Errno> {
    header(kind, flags, offset, length).command(&terms())
}

#[test]
fn a_write_is_pinned_byte_for_byte() {
    let bytes = [
        0x25, 0x60, 0x95, 0x13, 0, 1, 0, 1, // magic, FUA, WRITE
        0, 0, 0, 0, 0, 0, 0, 7, // cookie
        0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 2, 0, // offset 4096, length 512
    ];
    let request = header(wire::command::WRITE, CommandFlags::FUA, 4096, 512);
    assert_eq!(request.encode(), bytes);
    assert_eq!(RequestHeader::decode(&bytes), Ok(request));
    assert_eq!(request.payload_bytes(), 512);
    let command = Command::Write {
        offset: Offset::new(4096),
        length: Bytes::new(512),
        fua: true,
    };
    assert_eq!(request.command(&terms()), Ok(command));
}

#[test]
fn without_the_magic_number_the_stream_is_lost() {
    let mut bytes = header(0, CommandFlags::NONE, 0, 512).encode();
    bytes[0] = 0;
    assert_eq!(
        RequestHeader::decode(&bytes),
        Err(NotARequest { magic: 0x0060_9513 })
    );
}

#[test]
fn ranges_out_of_bounds_or_unaligned_are_refused() {
    use wire::command::{BLOCK_STATUS, CACHE, READ, TRIM, WRITE, WRITE_ZEROES};
    let end = 1 << 20;
    for (kind, beyond) in [
        (READ, Errno::Inval),
        (WRITE, Errno::NoSpc),
        (TRIM, Errno::Inval),
        (CACHE, Errno::Inval),
        (WRITE_ZEROES, Errno::NoSpc),
        (BLOCK_STATUS, Errno::Inval),
    ] {
        let none = CommandFlags::NONE;
        assert!(judged(kind, none, end - 512, 512).is_ok());
        assert_eq!(judged(kind, none, end - 512, 1024), Err(beyond));
        assert_eq!(judged(kind, none, u64::MAX - 511, 512), Err(beyond));
        assert_eq!(judged(kind, none, u64::MAX - 511, 1024), Err(beyond));
        assert_eq!(judged(kind, none, 0, 0), Err(Errno::Inval));
        assert_eq!(judged(kind, none, 1, 512), Err(Errno::Inval));
        assert_eq!(judged(kind, none, 0, 513), Err(Errno::Inval));
    }
}

#[test]
fn only_payloads_are_bounded_by_the_largest_payload() {
    use wire::command::{CACHE, READ, WRITE, WRITE_ZEROES};
    let none = CommandFlags::NONE;
    for kind in [READ, WRITE] {
        assert!(judged(kind, none, 0, 65536).is_ok());
        assert_eq!(judged(kind, none, 0, 65536 + 512), Err(Errno::Inval));
    }
    for kind in [CACHE, WRITE_ZEROES] {
        assert!(judged(kind, none, 0, 1 << 20).is_ok());
    }
}

#[test]
fn flags_of_another_command_are_refused_but_fua_is_not() {
    let own = [
        (0, CommandFlags::DF),
        (1, CommandFlags::NONE),
        (4, CommandFlags::NONE),
        (5, CommandFlags::NONE),
        (6, CommandFlags::NO_HOLE.with(CommandFlags::FAST_ZERO)),
        (7, CommandFlags::REQ_ONE),
    ];
    for (kind, own) in own {
        assert!(judged(kind, own.with(CommandFlags::FUA), 0, 512).is_ok());
        for bit in 1..16 {
            let flag = CommandFlags::from_wire(1 << bit);
            let allowed = own.has(flag);
            assert_eq!(judged(kind, flag, 0, 512).is_ok(), allowed, "{kind} {bit}");
        }
    }
}

#[test]
fn what_was_not_offered_is_refused() {
    for (kind, flag) in [
        (3, TransmissionFlags::SEND_FLUSH),
        (4, TransmissionFlags::SEND_TRIM),
        (5, TransmissionFlags::SEND_CACHE),
        (6, TransmissionFlags::SEND_WRITE_ZEROES),
    ] {
        let length = if kind == 3 { 0 } else { 512 };
        let request = header(kind, CommandFlags::NONE, 0, length);
        let mut terms = terms();
        assert!(request.command(&terms).is_ok());
        terms.export.flags = terms.export.flags.without(flag);
        assert_eq!(request.command(&terms), Err(Errno::Inval));
    }
    let plain = Terms {
        structured: false,
        base_allocation: false,
        ..terms()
    };
    let status = header(7, CommandFlags::NONE, 0, 512);
    assert_eq!(status.command(&plain), Err(Errno::Inval));
    let whole = header(0, CommandFlags::DF, 0, 512);
    assert_eq!(whole.command(&plain), Err(Errno::Inval));
    assert_eq!(judged(3, CommandFlags::NONE, 0, 512), Err(Errno::Inval));
    assert_eq!(judged(99, CommandFlags::NONE, 0, 512), Err(Errno::Inval));
}

#[test]
fn a_read_only_export_takes_no_changes() {
    let mut terms = terms();
    terms.export.flags = terms.export.flags.with(TransmissionFlags::READ_ONLY);
    for kind in [1, 4, 6] {
        let request = header(kind, CommandFlags::NONE, 0, 512);
        assert_eq!(request.command(&terms), Err(Errno::Perm));
    }
    let read = header(0, CommandFlags::NONE, 0, 512);
    assert!(read.command(&terms).is_ok());
}

proptest! {
    #[test]
    fn headers_come_back_from_the_wire(
        flags: u16, kind: u16, cookie: u64, offset: u64, length: u32,
    ) {
        let flags = CommandFlags::from_wire(flags);
        let cookie = Cookie(cookie);
        let request = RequestHeader { flags, kind, cookie, offset, length };
        prop_assert_eq!(RequestHeader::decode(&request.encode()), Ok(request));
    }

    #[test]
    fn every_command_lies_within_the_export(
        flags in 0_u16..32, kind in 0_u16..9,
        offset in prop_oneof![0_u64..3000, (1_u64 << 20) - 3000..(1 << 20) + 3000, any::<u64>()],
        length in prop_oneof![0_u32..5000, any::<u32>()],
        sectors: bool,
    ) {
        let unit = if sectors { 512 } else { 1 };
        let (offset, length) = (offset / unit * unit, length / 512 * 512);
        let request = header(kind, CommandFlags::from_wire(flags), offset, length);
        let range = match request.command(&terms()) {
            Ok(Command::Disconnect | Command::Flush) | Err(_) => None,
            Ok(
                Command::Read { offset, length, .. }
                | Command::Write { offset, length, .. }
                | Command::Trim { offset, length, .. }
                | Command::Cache { offset, length }
                | Command::WriteZeroes { offset, length, .. }
                | Command::BlockStatus { offset, length, .. },
            ) => Some((offset, length)),
        };
        if let Some((offset, length)) = range {
            prop_assert!(offset + length <= Offset::mib(1));
            prop_assert!(offset.is_multiple_of(512));
            prop_assert!(length.is_multiple_of(512));
            prop_assert!(!length.is_zero());
        }
    }
}
