use super::*;
use crate::area::fake::Fake;

const HEADER: u64 = 0x100;
const DATA: u64 = 0x1000;
const STATUS: u64 = 0x8000;

fn terms() -> Terms {
    Terms {
        size: Bytes::mib(1),
        sector: 512,
        read_only: false,
        can_discard: true,
    }
}

fn header(kind: u32, sector: u64) -> Vec<u8> {
    let mut bytes = kind.to_le_bytes().to_vec();
    bytes.extend([0; 4]);
    bytes.extend(sector.to_le_bytes());
    bytes
}

fn segment(address: u64, length: u32) -> Segment {
    let address = GuestAddress(address);
    Segment { address, length }
}

fn segments(pieces: &[(u64, u32)]) -> Segments {
    pieces
        .iter()
        .map(|(at, length)| segment(*at, *length))
        .collect()
}

fn call(
    header: &[u8],
    out: &[(u64, u32)],
    room: &[(u64, u32)],
    terms: &Terms,
) -> (Result<Call, BadCall>, Chain) {
    let memory = Fake::new(0x10_000);
    memory.put(usize::try_from(HEADER).unwrap(), header);
    let mut chain = Chain {
        readable: segments(out),
        writable: segments(room),
    };
    let call = Call::read(&mut chain, &memory, terms);
    (call, chain)
}

fn ask(header: &[u8], out: &[(u64, u32)], room: &[(u64, u32)]) -> Result<Ask, Status> {
    call(header, out, room, &terms()).0.unwrap().ask
}

fn free(kind: u32, sector: u64, sectors: u32, flags: u32, terms: &Terms) -> Result<Ask, Status> {
    let mut bytes = header(kind, 0);
    bytes.extend(sector.to_le_bytes());
    bytes.extend(sectors.to_le_bytes());
    bytes.extend(flags.to_le_bytes());
    let (call, _) = call(&bytes, &[(HEADER, 32)], &[(STATUS, 1)], terms);
    call.unwrap().ask
}

#[test]
fn a_read_fills_what_is_writable_but_for_the_last_byte() {
    let (read, chain) = call(
        &header(TYPE_READ, 8),
        &[(HEADER, 16)],
        &[(DATA, 512), (DATA + 0x1000, 1537)],
        &terms(),
    );
    let read = read.unwrap();
    let (offset, length) = (Offset::kib(4), Bytes::kib(2));
    assert_eq!(read.ask, Ok(Ask::Read { offset, length }));
    assert_eq!(read.status, GuestAddress(DATA + 0x1000 + 1536));
    assert_eq!(read.room, 2048);
    let data = segments(&[(DATA, 512), (DATA + 0x1000, 1536)]);
    assert_eq!(chain.writable, data);
    assert!(chain.readable.is_empty());
}

#[test]
fn segments_mean_nothing() {
    // The header in three pieces, its last one with the first data behind it.
    let at = HEADER;
    let (write, chain) = call(
        &header(TYPE_WRITE, 2),
        &[(at, 1), (at + 1, 14), (at + 15, 1 + 100), (DATA, 412)],
        &[(STATUS, 1)],
        &terms(),
    );
    let (offset, length) = (Offset::kib(1), Bytes::new(512));
    assert_eq!(write.unwrap().ask, Ok(Ask::Write { offset, length }));
    assert_eq!(chain.readable, segments(&[(at + 16, 100), (DATA, 412)]));
    assert!(chain.writable.is_empty());
}

#[test]
fn what_cannot_be_answered_is_a_broken_driver() {
    let of = |out: &[(u64, u32)], room: &[(u64, u32)]| {
        call(&header(TYPE_READ, 0), out, room, &terms()).0
    };
    assert_eq!(of(&[(HEADER, 16)], &[]), Err(BadCall::Status));
    assert_eq!(of(&[(HEADER, 15)], &[(STATUS, 1)]), Err(BadCall::Header));
    assert_eq!(of(&[], &[(STATUS, 1)]), Err(BadCall::Header));
    let nowhere = of(&[(1 << 40, 16)], &[(STATUS, 1)]);
    assert!(matches!(nowhere, Err(BadCall::Unmapped(_))));
}

#[test]
fn nothing_reaches_beyond_the_disk() {
    let read = |sector, length| {
        ask(
            &header(TYPE_READ, sector),
            &[(HEADER, 16)],
            &[(DATA, length)],
        )
    };
    assert!(read(2047, 513).is_ok());
    for (sector, length) in [(2048, 513), (2047, 1025), (u64::MAX, 513), (1 << 55, 513)] {
        assert_eq!(read(sector, length), Err(Status::Failed));
    }
    assert_eq!(read(0, 1), Err(Status::Failed), "nothing");
    assert_eq!(read(0, 101), Err(Status::Failed), "half a sector");
}

#[test]
fn large_sectors_are_kept_whole() {
    let terms = Terms {
        sector: 4096,
        ..terms()
    };
    let read = |sector, length| {
        let header = header(TYPE_READ, sector);
        let (call, _) = call(&header, &[(HEADER, 16)], &[(DATA, length)], &terms);
        call.unwrap().ask.is_ok()
    };
    assert!(read(8, 4097));
    assert!(!read(1, 4097));
    assert!(!read(8, 513));
}

#[test]
fn a_payload_has_a_limit() {
    let terms = Terms {
        size: Bytes::gib(1),
        ..terms()
    };
    let header = header(TYPE_WRITE, 0);
    let of = |bytes: u32| {
        let (call, _) = call(&header, &[(HEADER, 16 + bytes)], &[(STATUS, 1)], &terms);
        call.unwrap().ask.is_ok()
    };
    assert!(of(32 << 20));
    assert!(!of((32 << 20) + 512));
}

#[test]
fn a_read_only_disk_is_not_changed() {
    let terms = Terms {
        read_only: true,
        ..terms()
    };
    let header = header(TYPE_WRITE, 0);
    let (call, _) = call(&header, &[(HEADER, 16 + 512)], &[(STATUS, 1)], &terms);
    assert_eq!(call.unwrap().ask, Err(Status::Failed));
    for kind in [TYPE_DISCARD, TYPE_WRITE_ZEROES] {
        assert_eq!(free(kind, 0, 8, 0, &terms), Err(Status::Failed));
    }
}

#[test]
fn ranges_are_freed_and_zeroed() {
    let (offset, length) = (Offset::kib(4), Bytes::kib(8));
    let discard = Ask::Discard { offset, length };
    assert_eq!(free(TYPE_DISCARD, 8, 16, 0, &terms()), Ok(discard));
    for (flags, may_unmap) in [(0, false), (1, true)] {
        let zero = Ask::WriteZeroes {
            offset,
            length,
            may_unmap,
        };
        assert_eq!(free(TYPE_WRITE_ZEROES, 8, 16, flags, &terms()), Ok(zero));
    }
}

#[test]
fn ranges_that_make_no_sense_are_refused() {
    let large = Terms {
        size: Bytes::gib(1 << 20),
        ..terms()
    };
    let most = RANGE_SECTORS_MAX;
    assert!(free(TYPE_DISCARD, 0, most, 0, &large).is_ok());
    assert_eq!(
        free(TYPE_DISCARD, 0, most + 1, 0, &large),
        Err(Status::Failed)
    );
    assert_eq!(
        free(TYPE_DISCARD, u64::MAX, 1, 0, &large),
        Err(Status::Failed)
    );
    assert_eq!(free(TYPE_DISCARD, 0, 0, 0, &large), Err(Status::Failed));
    assert_eq!(
        free(TYPE_DISCARD, 0, 8, 1, &large),
        Err(Status::Unsupported)
    );
    assert_eq!(
        free(TYPE_WRITE_ZEROES, 0, 8, 2, &large),
        Err(Status::Unsupported)
    );
    let fixed = Terms {
        can_discard: false,
        ..terms()
    };
    assert_eq!(
        free(TYPE_DISCARD, 0, 8, 0, &fixed),
        Err(Status::Unsupported)
    );
    let two = ask(&header(TYPE_DISCARD, 0), &[(HEADER, 48)], &[(STATUS, 1)]);
    assert_eq!(two, Err(Status::Failed));
}

#[test]
fn an_unknown_kind_is_unsupported() {
    let unknown = ask(&header(77, 0), &[(HEADER, 16)], &[(STATUS, 1)]);
    assert_eq!(unknown, Err(Status::Unsupported));
}

#[test]
fn a_serial_number_is_cut_and_padded() {
    assert_eq!(&serial("vm-17")[..6], b"vm-17\0");
    assert_eq!(&serial("0123456789abcdefghijklm"), b"0123456789abcdefghij");
}
