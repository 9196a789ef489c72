//! Requests come out the same however the bytes come in.

use super::*;
use crate::export;
use nbd_protocol::{CommandFlags, wire};
use units::{Bytes, Prng};

fn terms() -> Terms {
    Terms {
        export: export(Bytes::mib(64), false, true),
        structured: false,
        base_allocation: false,
    }
}

fn request(kind: u16, cookie: u64, offset: u64, length: u32) -> Vec<u8> {
    let header = RequestHeader {
        flags: CommandFlags::NONE,
        kind,
        cookie: Cookie(cookie),
        offset,
        length,
    };
    header.encode().to_vec()
}

fn write(cookie: u64, offset: u64, data: &[u8]) -> Vec<u8> {
    let length = u32::try_from(data.len()).unwrap();
    let mut bytes = request(wire::command::WRITE, cookie, offset, length);
    bytes.extend_from_slice(data);
    bytes
}

/// Feeds `stream` in pieces of the sizes that `piece` gives and collects what is taken.
fn feed(stream: &[u8], mut piece: impl FnMut() -> usize) -> Vec<String> {
    let pool = BufPool::new();
    let mut intake = Intake::new(&pool, &[]);
    let mut rest = stream;
    let mut taken = Vec::new();
    loop {
        let mut next = intake.take(&terms(), &pool);
        if let Taken::Announced { memory } = next {
            assert!(memory >= 4096, "what takes no memory is not announced");
            next = intake.admit(&terms(), &pool);
        }
        match next {
            Taken::Announced { .. } => panic!("it was admitted"),
            Taken::Starved => {
                if rest.is_empty() {
                    return taken;
                }
                let mut room = intake.lend().unwrap();
                let step = piece().max(1).min(rest.len()).min(room.end - room.start);
                room.buf[room.start..room.start + step].copy_from_slice(&rest[..step]);
                intake.give_back(room.buf, step);
                rest = &rest[step..];
            }
            Taken::Lost(loss) => {
                taken.push(format!("{loss:?}"));
                return taken;
            }
            Taken::Request {
                cookie,
                command,
                data,
            } => {
                let sum: u64 = data
                    .iter()
                    .flat_map(|data| data.iter())
                    .map(|b| u64::from(*b))
                    .sum();
                taken.push(format!("{cookie:?} {command:?} {sum}"));
            }
            Taken::Refused { cookie, errno } => taken.push(format!("{cookie:?} {errno:?}")),
        }
    }
}

fn conversation() -> (Vec<u8>, usize) {
    let mut stream = Vec::new();
    let mut count = 0;
    for round in 0..4_u64 {
        stream.extend(request(wire::command::READ, round * 10, 4096 * round, 4096));
        let payload: Vec<u8> = (0..200_704_u32).map(|n| n.to_be_bytes()[3]).collect();
        stream.extend(write(round * 10 + 1, 0, &payload));
        stream.extend(write(round * 10 + 2, 512, &payload[..4096]));
        stream.extend(write(round * 10 + 3, 64 << 20, &payload[..65_536]));
        stream.extend(write(round * 10 + 4, 1, &payload[..100]));
        stream.extend(request(99, round * 10 + 5, 0, 0));
        stream.extend(request(wire::command::FLUSH, round * 10 + 6, 0, 0));
        stream.extend(write(round * 10 + 7, 0, &payload[..DIRECT_BYTES_MIN + 512]));
        count += 8;
    }
    (stream, count)
}

#[test]
fn requests_are_the_same_in_whatever_pieces_they_arrive() {
    let (stream, count) = conversation();
    let whole = feed(&stream, || usize::MAX);
    assert_eq!(whole.len(), count);
    for size in [1, 7, 28, 29, 4096, 65_536] {
        assert_eq!(feed(&stream, || size), whole, "pieces of {size}");
    }
    for seed in 0..50 {
        let mut dice = Prng::new(seed);
        let pieces = || usize::try_from(dice.below(100_000)).unwrap();
        assert_eq!(feed(&stream, pieces), whole, "seed {seed}");
    }
}

#[test]
fn a_refused_write_does_not_lose_the_stream() {
    let mut stream = write(1, 1 << 40, &[7; 512]);
    stream.extend(request(wire::command::READ, 2, 0, 512));
    let taken = feed(&stream, || 100);
    assert_eq!(taken[0], "Cookie(1) NoSpc");
    assert!(taken[1].starts_with("Cookie(2) Read"));
}

#[test]
fn nonsense_and_boundless_payloads_lose_the_stream() {
    assert_eq!(
        feed(&[0x47; 28], || 28),
        ["NotARequest { magic: 1195853639 }"]
    );
    let boundless = request(wire::command::WRITE, 1, 0, u32::MAX);
    assert_eq!(
        feed(&boundless, || 28),
        ["PayloadTooLong { length: 4294967295 }"]
    );
}

#[test]
fn a_large_payload_is_received_in_place() {
    let pool = BufPool::new();
    let bytes = write(1, 0, &vec![5; 1 << 20]);
    let mut intake = Intake::new(&pool, &bytes[..1000]);
    let announced = intake.take(&terms(), &pool);
    assert!(matches!(announced, Taken::Announced { memory } if memory == 1 << 20));
    assert!(matches!(intake.admit(&terms(), &pool), Taken::Starved));
    assert_eq!(intake.memory(), 1 << 20);
    let mut room = intake.lend().unwrap();
    assert_eq!((room.start, room.end), (1000 - 28, 1 << 20));
    room.buf[room.start..room.end].fill(5);
    let address = room.buf.as_ptr();
    let received = room.end - room.start;
    intake.give_back(room.buf, received);
    let Taken::Request { data, .. } = intake.take(&terms(), &pool) else {
        panic!("the payload is complete");
    };
    assert_eq!(data.unwrap().as_ptr(), address);
}

#[test]
fn random_bytes_never_panic() {
    for seed in 0..2000 {
        let mut dice = Prng::new(seed);
        let mut stream = Vec::new();
        for _ in 0..dice.below(8) {
            let kind = u16::try_from(dice.below(10)).unwrap();
            let length = u32::try_from(dice.below(2000)).unwrap();
            stream.extend(request(kind, 1, dice.below(1 << 27), length));
            stream.extend((0..dice.below(600)).map(|_| dice.below(256).to_be_bytes()[7]));
        }
        feed(&stream, || usize::try_from(dice.below(700)).unwrap());
    }
}
