//! What the protocol asks of a server in its corners, driven by hand.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use block_io::IoError;
use frontend::limits::ConnectionLimits;
use nbd_protocol::{CommandFlags, wire};
use std::io::{Read, Write};
use std::net::Shutdown;
use support::disk::HUNG_UP;
use support::raw::{Raw, Reply, header};
use support::{DISK_BYTES, Options, Rig};
use units::Bytes;

const NONE: CommandFlags = CommandFlags::NONE;
const FUA: CommandFlags = CommandFlags::FUA;

const EPERM: u32 = 1;
const EINVAL: u32 = 22;
const ENOSPC: u32 = 28;

#[test]
fn every_refusal_has_its_number_and_the_connection_goes_on() {
    let rig = Rig::new();
    let mut raw = Raw::attached(&rig.socket(), "disk");
    for (cookie, (kind, flags, range, error)) in (0..).zip([
        (wire::command::READ, NONE, (DISK_BYTES, 512), EINVAL),
        (wire::command::READ, NONE, (u64::MAX - 511, 512), EINVAL),
        (wire::command::READ, NONE, (1, 512), EINVAL),
        (wire::command::READ, NONE, (0, 0), EINVAL),
        (wire::command::READ, NONE, (0, 33 << 20), EINVAL),
        (wire::command::READ, CommandFlags::DF, (0, 512), EINVAL),
        (wire::command::TRIM, NONE, (DISK_BYTES - 512, 1024), EINVAL),
        (wire::command::WRITE_ZEROES, NONE, (DISK_BYTES, 512), ENOSPC),
        (
            wire::command::WRITE_ZEROES,
            CommandFlags::FAST_ZERO,
            (0, 512),
            EINVAL,
        ),
        (wire::command::FLUSH, NONE, (512, 0), EINVAL),
        (wire::command::BLOCK_STATUS, NONE, (0, 512), EINVAL),
        (4711, NONE, (0, 0), EINVAL),
    ]) {
        raw.request(kind, flags, cookie, range);
        let data = Vec::new();
        let expected = Reply {
            cookie,
            error,
            data,
        };
        assert_eq!(raw.reply(0), expected, "command {kind} on {range:?}");
    }
    assert!(rig.log().is_empty(), "nothing of this reached the disk");
    raw.request(wire::command::READ, NONE, 99, (0, 512));
    assert_eq!(raw.reply(512).data, [0; 512]);
}

#[test]
fn a_read_only_export_refuses_every_change() {
    let rig = Rig::new();
    let mut raw = Raw::attached(&rig.socket(), "fixed");
    raw.request(wire::command::WRITE, NONE, 1, (0, 512));
    raw.send(&[7; 512]);
    assert_eq!(raw.reply(0).error, EPERM);
    raw.request(wire::command::TRIM, NONE, 2, (0, 512));
    assert_eq!(raw.reply(0).error, EPERM);
    raw.request(wire::command::WRITE_ZEROES, NONE, 3, (0, 512));
    assert_eq!(raw.reply(0).error, EPERM);
    raw.request(wire::command::READ, NONE, 4, (0, 512));
    assert_eq!(raw.reply(512).data, [0; 512]);
}

#[test]
fn a_durable_trim_is_a_discard_and_a_flush() {
    let rig = Rig::new();
    let mut raw = Raw::attached(&rig.socket(), "disk");
    raw.request(wire::command::TRIM, FUA, 1, (4096, 8192));
    assert_eq!(raw.reply(0).error, 0);
    assert_eq!(rig.log(), ["discard @4096 8192B", "flush"]);
}

#[test]
fn flags_reach_the_disk() {
    let rig = Rig::new();
    let mut raw = Raw::attached(&rig.socket(), "disk");
    raw.request(wire::command::WRITE, FUA, 1, (0, 512));
    raw.send(&[7; 512]);
    raw.request(wire::command::WRITE, NONE, 2, (512, 512));
    raw.send(&[8; 512]);
    let no_hole = CommandFlags::NO_HOLE;
    raw.request(wire::command::WRITE_ZEROES, no_hole, 3, (1024, 512));
    raw.request(wire::command::WRITE_ZEROES, FUA, 4, (2048, 512));
    raw.request(wire::command::CACHE, NONE, 5, (0, 1 << 20));
    raw.request(wire::command::FLUSH, NONE, 6, (0, 0));
    for cookie in 1..=6 {
        assert_eq!(raw.reply(0).cookie, cookie);
    }
    assert_eq!(
        rig.log(),
        [
            "write @0 512B fua=true",
            "write @512 512B fua=false",
            "zero @1024 512B may_unmap=false fua=false",
            "zero @2048 512B may_unmap=true fua=true",
            "prefetch @0 1048576B",
            "flush",
        ]
    );
}

#[test]
fn requests_behind_the_handshake_in_one_packet_are_served() {
    let rig = Rig::new();
    let mut raw = Raw::connect(&rig.socket());
    assert_eq!(raw.receive(18).len(), 18);
    let mut bytes = 3_u32.to_be_bytes().to_vec();
    bytes.extend_from_slice(b"IHAVEOPT\0\0\0\x07\0\0\0\x0a\0\0\0\x04disk\0\0");
    bytes.extend(header(wire::command::WRITE, NONE, 1, (0, 4096)));
    bytes.extend_from_slice(&[9; 4096]);
    bytes.extend(header(wire::command::READ, NONE, 2, (0, 4096)));
    raw.send(&bytes);
    while raw.option_reply().0 != wire::option_reply::ACK {}
    assert_eq!(raw.reply(0).cookie, 1);
    assert_eq!(raw.reply(4096).data, [9; 4096]);
}

#[test]
fn a_goodbye_waits_for_what_is_in_flight() {
    let rig = Rig::new();
    let mut raw = Raw::attached(&rig.socket(), "disk");
    rig.hold();
    raw.request(wire::command::READ, NONE, 1, (0, 4096));
    raw.request(wire::command::FLUSH, NONE, 2, (0, 0));
    raw.request(wire::command::DISC, NONE, 3, (0, 0));
    rig.release();
    assert_eq!(raw.reply(4096).data, [0; 4096]);
    assert_eq!(raw.reply(0).cookie, 2);
    assert!(raw.is_closed());
}

#[test]
fn a_half_closed_client_still_gets_its_answers() {
    let rig = Rig::new();
    let mut raw = Raw::attached(&rig.socket(), "disk");
    rig.hold();
    for cookie in 0..10 {
        raw.request(wire::command::READ, NONE, cookie, (cookie * 4096, 4096));
    }
    // A request that will never be whole is dropped without a word.
    raw.send(&header(wire::command::WRITE, NONE, 99, (0, 4096)));
    raw.stream.shutdown(Shutdown::Write).unwrap();
    rig.release();
    for cookie in 0..10 {
        assert_eq!(raw.reply(4096).cookie, cookie);
    }
    assert!(raw.is_closed());
    assert!(!rig.log().iter().any(|line| line.starts_with("write")));
}

#[test]
fn a_client_that_vanishes_leaves_the_disk_to_finish() {
    let rig = Rig::new();
    rig.hold();
    for _ in 0..8 {
        let mut raw = Raw::attached(&rig.socket(), "disk");
        raw.request(wire::command::READ, NONE, 1, (0, 1 << 20));
        raw.request(wire::command::WRITE, NONE, 2, (0, 4096));
        raw.send(&[1; 4096]);
        wait_for(&rig, |log| log.iter().any(|line| line.starts_with("write")));
        rig.log.lock().unwrap().clear();
    }
    rig.release();
    let mut raw = Raw::attached(&rig.socket(), "disk");
    raw.request(wire::command::READ, NONE, 1, (0, 512));
    assert_eq!(raw.reply(512).data, [1; 512]);
}

/// A server that takes three requests of a client at a time.
fn three_at_a_time() -> Rig {
    let connection = ConnectionLimits {
        requests: 3,
        bytes: Bytes::mib(1),
    };
    Rig::with(&Options {
        connection,
        ..Options::default()
    })
}

/// What the disk is asked by a client that sends `count` flushes to a disk that keeps its answers back, and how that ends: at most
/// three are taken.
fn flushes_and(count: u64, end: impl FnOnce(&mut Raw)) -> Vec<String> {
    let rig = three_at_a_time();
    let mut raw = Raw::attached(&rig.socket(), "disk");
    rig.hold();
    for cookie in 0..count {
        raw.request(wire::command::FLUSH, NONE, cookie, (0, 0));
    }
    let taken = usize::try_from(count.min(3)).unwrap();
    wait_for(&rig, |log| log.len() == taken);
    end(&mut raw);
    // Others are served meanwhile: the shard has had its turn.
    for turn in 1..10 {
        let mut other = Raw::attached(&rig.socket(), "disk");
        other.request(wire::command::TRIM, NONE, 1, (0, 4096));
        wait_for(&rig, |log| {
            let turns = log.iter().filter(|line| line.starts_with("discard"));
            turns.count() == turn
        });
        other.request(wire::command::DISC, NONE, 2, (0, 0));
    }
    let mut log = rig.log();
    log.retain(|line| !line.starts_with("discard"));
    log
}

/// The client goes, with what it has said.
fn hangs_up(raw: &mut Raw) {
    raw.stream = std::os::unix::net::UnixStream::pair().unwrap().0;
}

#[test]
fn a_client_that_hangs_up_is_heard_while_its_requests_wait() {
    for count in [1, 2, 3, 20] {
        let log = flushes_and(count, hangs_up);
        assert!(log.iter().any(|line| line == HUNG_UP), "{count}: {log:?}");
    }
}

#[test]
fn a_client_that_says_goodbye_or_still_receives_has_not_hung_up() {
    let goodbye = |raw: &mut Raw| {
        raw.request(wire::command::DISC, NONE, 99, (0, 0));
        hangs_up(raw);
    };
    for count in [1, 2, 3, 20] {
        let log = flushes_and(count, goodbye);
        assert!(!log.iter().any(|line| line == HUNG_UP), "{count}: {log:?}");
        let log = flushes_and(count, |raw| raw.stream.shutdown(Shutdown::Write).unwrap());
        assert!(!log.iter().any(|line| line == HUNG_UP), "{count}: {log:?}");
    }
}

#[test]
fn everything_before_a_goodbye_is_carried_out_for_a_client_that_has_hung_up() {
    let rig = three_at_a_time();
    let mut raw = Raw::attached(&rig.socket(), "disk");
    rig.hold();
    for cookie in 0..3 {
        raw.request(wire::command::FLUSH, NONE, cookie, (0, 0));
    }
    raw.request(wire::command::DISC, NONE, 99, (0, 0));
    wait_for(&rig, |log| log.len() == 3);
    drop(raw);
    rig.release();
    let mut other = Raw::attached(&rig.socket(), "disk");
    other.request(wire::command::FLUSH, NONE, 1, (0, 0));
    assert_eq!(other.reply(0).cookie, 1);
    assert!(!rig.log().iter().any(|line| line == HUNG_UP));
}

#[test]
fn at_its_limits_a_connection_is_not_read() {
    let limits = ConnectionLimits {
        requests: 4,
        bytes: Bytes::mib(1),
    };
    held_up_after(4, limits, (wire::command::READ, 512), 20);
}

#[test]
fn payload_counts_against_the_limit() {
    let limits = ConnectionLimits {
        requests: 100,
        bytes: Bytes::mib(1),
    };
    held_up_after(2, limits, (wire::command::READ, 512 << 10), 6);
}

#[test]
fn ranges_that_carry_nothing_count_too() {
    let limits = ConnectionLimits {
        requests: 100,
        bytes: Bytes::kib(8),
    };
    for command in [wire::command::TRIM, wire::command::WRITE_ZEROES] {
        held_up_after(1, limits, (command, 512 << 10), 4);
    }
}

/// Sends `count` requests to a disk that keeps its answers back. `taken` of them reach it, and another
/// client's; when it answers, all are answered in order.
fn held_up_after(
    taken: usize,
    connection: ConnectionLimits,
    (command, length): (u16, u32),
    count: u64,
) {
    let rig = Rig::with(&Options {
        connection,
        ..Options::default()
    });
    let mut raw = Raw::attached(&rig.socket(), "disk");
    rig.hold();
    for cookie in 0..count {
        raw.request(command, NONE, cookie, (0, length));
    }
    wait_for(&rig, |log| log.len() == taken);
    // Another client is served meanwhile, which shows that the shard has had its turn.
    let mut other = Raw::attached(&rig.socket(), "disk");
    other.request(wire::command::FLUSH, NONE, 1, (0, 0));
    wait_for(&rig, |log| log.len() == taken + 1);
    rig.release();
    let data = if command == wire::command::READ {
        usize::try_from(length).unwrap()
    } else {
        0
    };
    let answered: Vec<u64> = (0..count).map(|_| raw.reply(data).cookie).collect();
    assert_eq!(answered, (0..count).collect::<Vec<u64>>());
}

#[test]
fn a_client_that_does_not_read_is_not_read_either() {
    const REQUESTS: u64 = 20_000;
    const LENGTH: u32 = 64 << 10;
    let rig = Rig::new();
    let mut raw = Raw::attached(&rig.socket(), "disk");
    // 1.2 GiB of answers asked for, none taken: far beyond any limit. The writer gets stuck when
    // the server stops reading, and comes free when the reader begins.
    let mut writer = raw.stream.try_clone().unwrap();
    let thread = std::thread::spawn(move || {
        for cookie in 0..REQUESTS {
            let request = header(wire::command::READ, NONE, cookie, (0, LENGTH));
            writer.write_all(&request).unwrap();
        }
    });
    wait_for(&rig, |log| log.len() > 100);
    for cookie in 0..REQUESTS {
        let reply = raw.reply(usize::try_from(LENGTH).unwrap());
        assert_eq!((reply.cookie, reply.error), (cookie, 0));
        if cookie == 0 {
            // The default limit is 32 MiB of unsent payload, plus what the socket holds.
            assert!(rig.log().len() < 2000, "{}", rig.log().len());
        }
    }
    thread.join().unwrap();
}

#[test]
fn large_and_small_writes_in_one_stream_land_where_they_belong() {
    let rig = Rig::new();
    let mut raw = Raw::attached(&rig.socket(), "disk");
    let mut writer = raw.stream.try_clone().unwrap();
    let mut dice = units::Prng::new(5);
    let mut model = vec![0_u8; 16 << 20];
    let mut stream = Vec::new();
    let mut count = 0;
    for cookie in 0..60_u64 {
        let sectors = match dice.below(3) {
            0 => 1 + dice.below(8),
            1 => 60 + dice.below(10),
            _ => 100 + dice.below(4000),
        };
        let length = usize::try_from(sectors * 512).unwrap();
        let offset = usize::try_from(dice.below(20_000) * 512).unwrap();
        let mut data = vec![0; length];
        dice.fill(&mut data);
        model[offset..offset + length].copy_from_slice(&data);
        let range = (offset as u64, u32::try_from(length).unwrap());
        stream.extend(header(wire::command::WRITE, NONE, cookie, range));
        stream.extend(data);
        count += 1;
    }
    let thread = std::thread::spawn(move || writer.write_all(&stream).unwrap());
    for cookie in 0..count {
        assert_eq!(raw.reply(0).cookie, cookie);
    }
    thread.join().unwrap();
    raw.request(wire::command::READ, NONE, 1, (0, 16 << 20));
    assert!(raw.reply(16 << 20).data == model, "the disk differs");
}

#[test]
fn errors_of_the_disk_reach_the_client() {
    let rig = Rig::new();
    let mut raw = Raw::attached(&rig.socket(), "disk");
    for (error, number) in [
        (IoError::Failed, 5),
        (IoError::NoSpace, 28),
        (IoError::NotPermitted, 1),
        (IoError::ShuttingDown, 108),
    ] {
        rig.fail(error);
        raw.request(wire::command::READ, NONE, 1, (0, 4096));
        assert_eq!(raw.reply(4096).error, number);
        raw.request(wire::command::TRIM, FUA, 2, (0, 4096));
        assert_eq!(raw.reply(0).error, number);
        raw.request(wire::command::FLUSH, NONE, 3, (0, 0));
        assert_eq!(raw.reply(0).error, number);
    }
    assert_eq!(rig.log().iter().filter(|line| *line == "flush").count(), 4);
}

#[test]
fn structured_errors_carry_a_text() {
    let rig = Rig::new();
    let mut raw = Raw::connect(&rig.socket());
    raw.greet();
    raw.option(wire::option::STRUCTURED_REPLY, &[]);
    assert_eq!(raw.option_reply().0, wire::option_reply::ACK);
    assert_eq!(raw.go("disk"), wire::option_reply::ACK);
    raw.request(wire::command::READ, NONE, 5, (DISK_BYTES, 512));
    let chunk = raw.receive(20);
    assert_eq!(chunk[..4], wire::STRUCTURED_REPLY_MAGIC.to_be_bytes());
    assert_eq!(chunk[4..6], wire::chunk::FLAG_DONE.to_be_bytes());
    assert_eq!(chunk[6..8], wire::chunk::ERROR.to_be_bytes());
    assert_eq!(chunk[8..16], 5_u64.to_be_bytes());
    let length = u32::from_be_bytes(chunk[16..20].try_into().unwrap());
    let payload = raw.receive(usize::try_from(length).unwrap());
    assert_eq!(payload[..4], EINVAL.to_be_bytes());
    assert!(payload.len() > 6);
}

#[test]
fn stopping_the_server_ends_handshakes_but_not_attached_clients() {
    let rig = Rig::new();
    let mut attached = Raw::attached(&rig.socket(), "disk");
    let mut greeting = Raw::connect(&rig.socket());
    greeting.greet();
    rig.stop_listening();
    assert!(greeting.is_closed());
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while rig.socket().exists() {
        assert!(std::time::Instant::now() < deadline, "the socket stays");
        std::thread::yield_now();
    }
    attached.request(wire::command::READ, NONE, 1, (0, 512));
    assert_eq!(attached.reply(512).data, [0; 512]);
    let mut rest = Vec::new();
    drop(rig);
    attached.stream.read_to_end(&mut rest).unwrap();
    assert!(rest.is_empty());
}

/// Waits until the disk's log is as expected.
fn wait_for(rig: &Rig, expected: impl Fn(&[String]) -> bool) {
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while !expected(&rig.log.lock().unwrap()) {
        assert!(
            std::time::Instant::now() < deadline,
            "the disk was asked something else: {:?}",
            rig.log()
        );
        std::thread::yield_now();
    }
}
