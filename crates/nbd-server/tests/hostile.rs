//! Clients that mean harm, or are broken: they hurt nobody but themselves.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use nbd_protocol::{CommandFlags, wire};
use nbd_server::limits::ServerLimits;
use std::io::Write;
use support::raw::{Raw, header};
use support::{Options, Rig};
use units::{Duration, Prng};

/// The server still serves a client that behaves.
fn assert_alive(rig: &Rig) {
    let mut raw = Raw::attached(&rig.socket(), "disk");
    raw.request(wire::command::READ, CommandFlags::NONE, 1, (0, 512));
    assert_eq!(raw.reply(512).error, 0);
}

#[test]
fn a_client_that_never_comes_to_the_point_is_cut_off() {
    let rig = Rig::with(&Options {
        server: ServerLimits {
            handshake: Duration::from_millis(200),
            ..ServerLimits::default()
        },
        ..Options::default()
    });
    let mut silent = Raw::connect(&rig.socket());
    silent.receive(18);
    let mut dripping = Raw::connect(&rig.socket());
    dripping.receive(18);
    let mut raw = Raw::connect(&rig.socket());
    raw.receive(18);
    // A byte now and then does not help: the whole handshake has one deadline.
    let drip = std::thread::spawn(move || {
        for byte in b"\0\0\0\x03".iter().chain(b"IHAVEOPT".iter().cycle()) {
            if dripping.stream.write_all(&[*byte]).is_err() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    });
    assert!(silent.is_closed());
    assert!(raw.is_closed());
    drip.join().unwrap();
}

#[test]
fn a_client_that_attached_in_time_may_be_idle() {
    let rig = Rig::with(&Options {
        server: ServerLimits {
            handshake: Duration::from_millis(100),
            ..ServerLimits::default()
        },
        ..Options::default()
    });
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    let mut idle = loop {
        // On a busy machine a tenth of a second may be too little for an honest handshake.
        if let Some(raw) = Raw::try_attached(&rig.socket(), "disk") {
            break raw;
        }
        assert!(std::time::Instant::now() < deadline, "nobody gets in");
    };
    let mut silent = Raw::connect(&rig.socket());
    silent.receive(18);
    assert!(silent.is_closed(), "the deadline has passed");
    idle.request(wire::command::READ, CommandFlags::NONE, 1, (0, 512));
    assert_eq!(idle.reply(512).error, 0);
}

#[test]
fn connections_beyond_the_limit_wait_for_a_place() {
    let rig = Rig::with(&Options {
        server: ServerLimits {
            connections: 3,
            ..ServerLimits::default()
        },
        ..Options::default()
    });
    let first: Vec<Raw> = (0..3)
        .map(|_| Raw::attached(&rig.socket(), "disk"))
        .collect();
    let mut late = Raw::connect(&rig.socket());
    late.greet();
    // It waits rather than being refused.
    let waiting = std::thread::spawn(move || late.go("disk"));
    std::thread::sleep(std::time::Duration::from_millis(100));
    drop(first);
    assert_eq!(waiting.join().unwrap(), wire::option_reply::ACK);
}

#[test]
fn an_export_has_a_limit_of_its_own() {
    let rig = Rig::with(&Options {
        server: ServerLimits {
            connections_per_export: 2,
            ..ServerLimits::default()
        },
        ..Options::default()
    });
    let _first = Raw::attached(&rig.socket(), "disk");
    let second = Raw::attached(&rig.socket(), "disk");
    let mut third = Raw::connect(&rig.socket());
    third.greet();
    assert_eq!(third.go("disk"), wire::option_reply::ERR_POLICY);
    assert_eq!(third.go("fixed"), wire::option_reply::ACK);
    drop(second);
    let mut fourth = Raw::connect(&rig.socket());
    fourth.greet();
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while fourth.go("disk") != wire::option_reply::ACK {
        assert!(
            std::time::Instant::now() < deadline,
            "the place stays taken"
        );
        fourth = Raw::connect(&rig.socket());
        fourth.greet();
    }
}

#[test]
fn hundreds_of_connections_are_served_side_by_side() {
    let rig = Rig::with(&Options {
        server: ServerLimits {
            connections_per_export: 1000,
            ..ServerLimits::default()
        },
        ..Options::default()
    });
    let mut all: Vec<Raw> = (0..200)
        .map(|_| Raw::attached(&rig.socket(), "disk"))
        .collect();
    for (offset, raw) in (0..).zip(&mut all) {
        raw.request(
            wire::command::WRITE,
            CommandFlags::NONE,
            7,
            (offset * 512, 512),
        );
        raw.send(&[u8::try_from(offset).unwrap(); 512]);
    }
    for raw in &mut all {
        assert_eq!(raw.reply(0).cookie, 7);
    }
    all.reverse();
    for (offset, raw) in (0..).zip(&mut all) {
        raw.request(
            wire::command::READ,
            CommandFlags::NONE,
            8,
            (offset * 512, 512),
        );
    }
    for (offset, raw) in (0..).zip(&mut all) {
        assert_eq!(raw.reply(512).data, [u8::try_from(offset).unwrap(); 512]);
    }
}

#[test]
fn noise_instead_of_a_handshake_ends_the_connection() {
    let rig = Rig::new();
    for noise in [
        &b"GET / HTTP/1.1\r\nHost: disk\r\n\r\n"[..],
        &[0xff; 64],
        &[0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        b"\0\0\0\x03IHAVEOPT\0\0\0\x07\xff\xff\xff\xff",
    ] {
        let mut raw = Raw::connect(&rig.socket());
        raw.receive(18);
        raw.send(noise);
        assert!(raw.is_closed());
    }
    assert_alive(&rig);
}

#[test]
fn noise_instead_of_a_request_ends_the_connection() {
    let rig = Rig::new();
    let mut raw = Raw::attached(&rig.socket(), "disk");
    raw.send(&[0x25; 28]);
    assert!(raw.is_closed());
    let mut raw = Raw::attached(&rig.socket(), "disk");
    let boundless = (0, u32::MAX);
    raw.request(wire::command::WRITE, CommandFlags::NONE, 1, boundless);
    assert!(raw.is_closed());
    assert_alive(&rig);
}

#[test]
fn noise_of_many_seeds_kills_nothing() {
    // A client that hung up counts until the server has noticed: seeds may outrun that.
    let rig = Rig::with(&Options {
        server: ServerLimits {
            connections_per_export: 1000,
            ..ServerLimits::default()
        },
        ..Options::default()
    });
    for seed in 0..150 {
        let mut dice = Prng::new(seed);
        let mut raw = if dice.one_in(2) {
            Raw::attached(&rig.socket(), "disk")
        } else {
            let mut raw = Raw::connect(&rig.socket());
            raw.greet();
            raw
        };
        let mut bytes = Vec::new();
        for _ in 0..dice.below(20) {
            let kind = u16::try_from(dice.below(9)).unwrap();
            let flags = CommandFlags::from_wire(u16::try_from(dice.below(64)).unwrap());
            let length = u32::try_from(dice.below(5000)).unwrap();
            bytes.extend(header(kind, flags, seed, (dice.below(1 << 27), length)));
            let mut noise = vec![0; usize::try_from(dice.below(6000)).unwrap()];
            dice.fill(&mut noise);
            bytes.extend(noise);
        }
        // The server may have hung up before all of it is sent.
        let _hung_up = raw.stream.write_all(&bytes);
    }
    assert_alive(&rig);
}
