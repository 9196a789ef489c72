//! The NBD client against a real server that is slow, dies, forgets, and comes back changed.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use block_io::{IoError, OriginVerb};
use origin::{NbdAddress, NbdSpec, OpenError, OriginSpec};
use std::os::unix::net::UnixListener;
use support::Rig;
use support::nbdkit::Nbdkit;
use units::{Bytes, Duration, Offset, Prng};

/// Starts nbdkit with arguments, or leaves the test if it is not installed.
macro_rules! nbdkit_or_skip {
    ($($argument:expr),* $(,)?) => {{
        if !Nbdkit::is_here() {
            return;
        }
        Nbdkit::start(&[$($argument),*])
    }};
}

fn flush(rig: &mut Rig) -> Result<(), IoError> {
    rig.submit(OriginVerb::Flush);
    rig.one().result
}

fn write(rig: &mut Rig, at: u64, byte: u8, length: usize, fua: bool) -> Result<(), IoError> {
    rig.write(at, byte, length, fua);
    rig.one().result
}

fn file_of(server: &Nbdkit, bytes: u64) {
    let file = std::fs::File::create(server.path("disk")).unwrap();
    file.set_len(bytes).unwrap();
}

/// A server of a file that takes 20 ms for a write; none if it is not installed.
fn slow_file() -> Option<Nbdkit> {
    Nbdkit::is_here().then(|| {
        let mut server = Nbdkit::prepare();
        file_of(&server, 16 << 20);
        server.set_arguments(&["--filter=delay", "file", "{folder}/disk", "wdelay=20ms"]);
        server.start_again();
        server
    })
}

#[test]
fn a_server_killed_in_mid_flight_and_restarted_is_not_noticed() {
    let Some(mut server) = slow_file() else {
        return;
    };
    let mut rig = Rig::nbd(server.spec());
    let mut dice = Prng::new(3);
    let mut model = vec![0_u8; 4096];
    for round in 0..5_u8 {
        for n in 0..100_u8 {
            let block = dice.below(40) * 100 + u64::from(n);
            let byte = round * 50 + n % 50 + 1;
            model[usize::try_from(block).unwrap()] = byte;
            rig.write(block * 4096, byte, 4096, dice.one_in(4));
        }
        let early = rig.finish_some(20);
        assert!(early.values().all(|done| done.result == Ok(())));
        server.kill();
        // Notices the loss, and fails to reconnect at least once.
        rig.run_until(|rig| !rig.origin.condition().connected);
        server.start_again();
        let late = rig.finish(100 - early.len());
        assert!(late.values().all(|done| done.result == Ok(())));
        assert_eq!(flush(&mut rig), Ok(()));
    }
    for (block, byte) in (0_u64..).zip(&model) {
        rig.expect(block * 4096, 4096, *byte);
    }
    drop(rig);
    let disk = std::fs::read(server.path("disk")).unwrap();
    for (block, byte) in disk.chunks(4096).zip(model) {
        assert!(block.iter().all(|b| *b == byte));
    }
}

#[test]
fn a_server_that_is_told_to_stop_under_load_and_restarted_is_not_noticed() {
    let Some(mut server) = slow_file() else {
        return;
    };
    let mut rig = Rig::nbd(server.spec());
    for round in 1..=3_u8 {
        for n in 0..200 {
            rig.write(n * 8192, round, 8192, false);
        }
        let mut ended = rig.finish_some(20);
        // It finishes what it works on, and answers ESHUTDOWN to what it receives meanwhile.
        server.terminate();
        while !server.has_ended() {
            ended.extend(rig.take_ended());
        }
        server.start_again();
        ended.extend(rig.finish(200 - ended.len()));
        assert!(ended.values().all(|done| done.result == Ok(())));
        rig.expect(0, 200 * 8192, round);
    }
}

#[test]
fn what_a_crashed_server_forgot_is_repeated_until_a_flush_vouched_for_it() {
    let mut server = nbdkit_or_skip!("memory", "8M");
    let mut rig = Rig::nbd(server.spec());
    assert_eq!(write(&mut rig, 0, 1, 8192, false), Ok(()));
    assert_eq!(write(&mut rig, 4096, 2, 4096, false), Ok(()));
    assert_eq!(write(&mut rig, 1 << 20, 9, 3 << 20, false), Ok(()));
    rig.submit(OriginVerb::WriteZeroes {
        offset: Offset::mib(2),
        length: Bytes::mib(1),
        may_unmap: true,
        fua: false,
    });
    assert_eq!(rig.one().result, Ok(()));
    for _ in 0..2 {
        server.kill();
        server.start_again();
        rig.expect(0, 4096, 1);
        rig.expect(4096, 4096, 2);
        rig.expect(1 << 20, 1 << 20, 9);
        rig.expect(2 << 20, 1 << 20, 0);
        rig.expect(3 << 20, 1 << 20, 9);
    }
    // This server's memory does not survive it, whatever its flush says: so what a flush has
    // vouched for is the server's to keep, and is not repeated.
    assert_eq!(flush(&mut rig), Ok(()));
    assert_eq!(write(&mut rig, 8192, 3, 512, false), Ok(()));
    server.kill();
    server.start_again();
    rig.expect(0, 8192, 0);
    rig.expect(8192, 512, 3);
}

#[test]
fn durable_bytes_are_never_overwritten_by_older_ones() {
    let mut server = nbdkit_or_skip!("memory", "8M");
    let mut rig = Rig::nbd(server.spec());
    assert_eq!(write(&mut rig, 0, 1, 16384, false), Ok(()));
    assert_eq!(write(&mut rig, 4096, 2, 4096, true), Ok(()));
    server.kill();
    server.start_again();
    rig.expect(0, 4096, 1);
    // Durable by the server's word, lost by its nature; the older bytes must not be there.
    rig.expect(4096, 4096, 0);
    rig.expect(8192, 8192, 1);
}

#[test]
fn a_server_that_vanishes_for_good_ends_in_errors() {
    let mut server = nbdkit_or_skip!("memory", "8M");
    let mut rig = Rig::nbd(NbdSpec {
        request_timeout: Duration::from_millis(500),
        ..server.spec()
    });
    rig.expect(0, 4096, 0);
    server.kill();
    rig.read(0, 4096);
    let done = rig.one();
    assert_eq!(done.result, Err(IoError::Disconnected));
    assert!(done.buf.is_some());
    assert_eq!(write(&mut rig, 0, 1, 512, true), Err(IoError::Disconnected));
    // And it is welcome when it comes back after all.
    server.start_again();
    rig.run_until(|rig| rig.origin.condition().connected);
    rig.expect(0, 4096, 0);
}

#[test]
fn a_server_that_hangs_ends_requests_and_keeps_later_writes_behind_earlier_ones() {
    let server = nbdkit_or_skip!("memory", "8M");
    let mut rig = Rig::nbd(NbdSpec {
        request_timeout: Duration::from_millis(300),
        ..server.spec()
    });
    rig.expect(0, 4096, 0);
    server.freeze();
    assert_eq!(write(&mut rig, 0, 1, 4096, false), Err(IoError::TimedOut));
    // The first may still happen, so the second must wait for it, and times out too.
    assert_eq!(write(&mut rig, 512, 2, 512, false), Err(IoError::TimedOut));
    assert!(
        rig.origin.condition().connected,
        "a slow server is not given up"
    );
    server.thaw();
    // The late answer frees the range; until it is in, a write may time out again.
    rig.until_ok(|rig| write(rig, 1024, 3, 512, false));
    rig.expect(1024, 512, 3);
    rig.expect(1536, 512, 1);
}

#[test]
fn a_disk_that_comes_back_shorter_fails_until_it_has_its_size_again() {
    let mut server = nbdkit_or_skip!("memory", "8M");
    let mut rig = Rig::nbd(server.spec());
    assert_eq!(write(&mut rig, 0, 1, 512, false), Ok(()));
    server.kill();
    server.set_arguments(&["memory", "4M"]);
    server.start_again();
    rig.read(0, 512);
    assert_eq!(rig.one().result, Err(IoError::Failed));
    assert_eq!(write(&mut rig, 0, 1, 512, false), Err(IoError::Failed));
    assert_eq!(flush(&mut rig), Err(IoError::Failed));
    assert!(!rig.origin.condition().connected);
    server.kill();
    server.set_arguments(&["memory", "8M"]);
    server.start_again();
    rig.run_until(|rig| rig.origin.condition().connected);
    assert_eq!(write(&mut rig, 4096, 2, 512, false), Ok(()));
    // What that server had not flushed is written again.
    rig.expect(0, 512, 1);
    rig.expect(4096, 512, 2);
}

#[test]
fn an_export_that_became_longer_is_used_as_far_as_the_disk_goes() {
    let mut server = nbdkit_or_skip!("memory", "8M");
    let mut rig = Rig::nbd(server.spec());
    server.kill();
    server.set_arguments(&["memory", "16M"]);
    server.start_again();
    rig.run_until(|rig| rig.origin.condition().connected);
    let behind = 12 << 20;
    assert_eq!(
        write(&mut rig, behind, 1, 512, false),
        Err(IoError::Invalid)
    );
    assert_eq!(rig.origin.grow(Bytes::mib(4)), Err(IoError::Invalid));
    assert_eq!(rig.origin.grow(Bytes::mib(16)), Ok(()));
    assert_eq!(write(&mut rig, behind, 1, 512, false), Ok(()));
    rig.expect(behind, 512, 1);
}

#[test]
fn as_many_connections_are_made_as_the_server_vouches_for() {
    let server = nbdkit_or_skip!("memory", "8M");
    assert_eq!(Rig::nbd(server.spec()).origin.sources().len(), 4);
    let alone = nbdkit_or_skip!(
        "--filter=multi-conn",
        "memory",
        "8M",
        "multi-conn-mode=disable"
    );
    assert_eq!(Rig::nbd(alone.spec()).origin.sources().len(), 1);
}

#[test]
fn block_sizes_of_the_server_are_kept_to() {
    let server = nbdkit_or_skip!(
        "--filter=blocksize-policy",
        "memory",
        "8M",
        "blocksize-minimum=4096",
        "blocksize-preferred=4096",
        "blocksize-maximum=64k",
        "blocksize-error-policy=error",
    );
    let mut rig = Rig::nbd(server.spec());
    assert_eq!(rig.origin.geometry().sector, Bytes::kib(4));
    assert_eq!(write(&mut rig, 4096, 5, 3 << 20, false), Ok(()));
    rig.expect(4096, 3 << 20, 5);
    assert_eq!(write(&mut rig, 512, 5, 512, false), Err(IoError::Invalid));
}

/// One run through all verbs, on servers that lack one thing or another.
fn exercise(rig: &mut Rig) {
    for fua in [false, true] {
        assert_eq!(write(rig, 0, 7, 3 << 20, fua), Ok(()));
        rig.submit(OriginVerb::WriteZeroes {
            offset: Offset::kib(512),
            length: Bytes::mib(1),
            may_unmap: false,
            fua,
        });
        assert_eq!(rig.one().result, Ok(()));
        rig.submit(OriginVerb::Discard {
            offset: Offset::mib(4),
            length: Bytes::mib(1),
        });
        assert_eq!(rig.one().result, Ok(()));
        assert_eq!(flush(rig), Ok(()));
        rig.expect(0, 512 << 10, 7);
        rig.expect(512 << 10, 1 << 20, 0);
        rig.expect(1536 << 10, 1536 << 10, 7);
    }
}

#[test]
fn servers_that_lack_something_serve_all_the_same() {
    if !Nbdkit::is_here() {
        return;
    }
    let lacking: [&[&str]; 7] = [
        &["memory", "8M"],
        &["--no-sr", "memory", "8M"],
        &["--mask-handshake=0", "memory", "8M"],
        &["--filter=nozero", "memory", "8M"],
        &["--filter=fua", "memory", "8M"],
        &["--filter=fua", "memory", "8M", "fuamode=force"],
        &["--filter=nozero", "--filter=fua", "memory", "8M"],
    ];
    for arguments in lacking {
        eprintln!("nbdkit {arguments:?}");
        let server = Nbdkit::start(arguments);
        exercise(&mut Rig::nbd(server.spec()));
    }
}

#[test]
fn qemu_serves_too_holes_and_all() {
    let mut server = Nbdkit::prepare();
    file_of(&server, 8 << 20);
    if !server.start_qemu("disk") {
        return;
    }
    let mut rig = Rig::nbd(server.spec());
    exercise(&mut rig);
    // A read over data and holes comes in chunks of both kinds.
    assert_eq!(write(&mut rig, 6 << 20, 5, 64 << 10, false), Ok(()));
    rig.read((6 << 20) - 4096, 128 << 10);
    let done = rig.one();
    assert_eq!(done.result, Ok(()));
    let buf = done.buf.expect("a read's buffer comes back");
    assert!(buf[..4096].iter().all(|byte| *byte == 0));
    assert!(buf[4096..4096 + (64 << 10)].iter().all(|byte| *byte == 5));
    assert!(
        buf[4096 + (64 << 10)..128 << 10]
            .iter()
            .all(|byte| *byte == 0)
    );
}

#[test]
fn errors_of_the_server_reach_the_caller() {
    let server = nbdkit_or_skip!(
        "--filter=error",
        "memory",
        "8M",
        "error=ENOSPC",
        "error-pwrite-rate=100%",
    );
    let mut rig = Rig::nbd(server.spec());
    assert_eq!(write(&mut rig, 0, 1, 4096, false), Err(IoError::NoSpace));
    rig.expect(0, 4096, 0);
}

#[test]
fn what_a_failed_flush_dropped_is_repeated() {
    if !Nbdkit::is_here() {
        return;
    }
    let mut server = Nbdkit::prepare();
    file_of(&server, 1 << 20);
    // A server that loses everything at its first flush, and says so.
    server.set_arguments(&[
        "eval",
        "get_size=echo 1M",
        "can_write=exit 0",
        "can_flush=exit 0",
        "thread_model=echo serialize_all_requests",
        "pread=dd if={folder}/disk iflag=skip_bytes,count_bytes skip=$4 count=$3 status=none",
        "pwrite=dd of={folder}/disk oflag=seek_bytes seek=$4 conv=notrunc status=none",
        "flush=test -e {folder}/failed && exit 0
         touch {folder}/failed; cp /dev/null {folder}/disk; truncate -s 1M {folder}/disk
         echo EIO >&2; exit 1",
    ]);
    server.start_again();
    let mut rig = Rig::nbd(server.spec());
    assert_eq!(write(&mut rig, 4096, 3, 8192, false), Ok(()));
    rig.expect(4096, 8192, 3);
    assert_eq!(flush(&mut rig), Err(IoError::Failed));
    rig.expect(4096, 8192, 3);
    assert_eq!(flush(&mut rig), Ok(()));
    drop(rig);
    let disk = std::fs::read(server.path("disk")).unwrap();
    assert!(disk[4096..12288].iter().all(|byte| *byte == 3));
}

#[test]
fn a_slow_server_is_waited_for_and_answers_out_of_order() {
    let server = nbdkit_or_skip!(
        "--filter=delay",
        "memory",
        "8M",
        "rdelay=30ms",
        "wdelay=10ms"
    );
    let mut rig = Rig::nbd(server.spec());
    for n in 0..200_u8 {
        if n % 2 == 0 {
            rig.write(u64::from(n) * 8192, n, 8192, false);
        } else {
            rig.read(u64::from(n) * 8192, 4096);
        }
    }
    assert!(rig.finish(200).values().all(|done| done.result == Ok(())));
}

#[test]
fn tcp_works_like_a_unix_socket() {
    if !Nbdkit::is_here() {
        return;
    }
    let port = {
        let free = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
        free.local_addr().unwrap().port()
    };
    let mut server = Nbdkit::prepare();
    // A second server in front of nothing but the port: nbdkit listens on one address.
    let child = std::process::Command::new("nbdkit")
        .args([
            "--foreground",
            "--exit-with-parent",
            "-i",
            "127.0.0.1",
            "-p",
        ])
        .args([&port.to_string(), "memory", "8M"])
        .spawn()
        .unwrap();
    server.adopt(child);
    let spec = NbdSpec {
        address: NbdAddress::Tcp {
            host: "localhost".to_owned(),
            port,
        },
        ..server.spec()
    };
    Nbdkit::until(|| std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
    exercise(&mut Rig::nbd(spec));
}

fn refusal(spec: NbdSpec) -> OpenError {
    let opened = origin::open(&OriginSpec::Nbd(spec), false);
    opened.expect_err("there is nothing to open")
}

#[test]
fn a_server_that_cannot_serve_is_refused_with_the_reason() {
    let read_only = nbdkit_or_skip!("--readonly", "memory", "8M");
    assert!(matches!(
        refusal(read_only.spec()),
        OpenError::ReadOnly { .. }
    ));
    let odd = nbdkit_or_skip!("memory", "1000");
    assert!(matches!(refusal(odd.spec()), OpenError::Size { .. }));
    let strict = nbdkit_or_skip!(
        "--filter=exportname",
        "memory",
        "8M",
        "exportname-strict=true",
        "exportname=vm1",
    );
    assert!(matches!(refusal(strict.spec()), OpenError::Refused { .. }));
    let named = NbdSpec {
        export: "vm1".to_owned(),
        ..strict.spec()
    };
    assert!(origin::open(&OriginSpec::Nbd(named), false).is_ok());
    let coarse = nbdkit_or_skip!(
        "--filter=blocksize-policy",
        "memory",
        "8M",
        "blocksize-minimum=8192",
        "blocksize-preferred=8192",
    );
    assert!(matches!(refusal(coarse.spec()), OpenError::Refused { .. }));
}

#[test]
fn a_listener_that_says_nothing_is_left_after_the_time_limit() {
    let server = Nbdkit::prepare();
    let spec = NbdSpec {
        connect_timeout: Duration::from_millis(200),
        ..server.spec()
    };
    let nobody = refusal(spec.clone());
    assert!(matches!(nobody, OpenError::Unreachable { .. }));
    let NbdAddress::Unix(path) = &spec.address else {
        unreachable!("a unix socket");
    };
    let _listener = UnixListener::bind(path).unwrap();
    assert!(matches!(refusal(spec), OpenError::Unreachable { .. }));
}
