//! A disk served from real files: every byte right, warm after a restart.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use shard::{DiskPhase, ShardError};
use std::io::Read as _;
use support::{DISK, FUA, Lab, ask, connect, status, stop, until, verify};
use units::{DiskId, Prng};

#[test]
fn a_disk_reads_as_its_origin_first_cold_then_from_flash() {
    let lab = Lab::new();
    let shard = lab.spawn();
    let (attached, mut guest) = lab.attach(&shard);
    assert_eq!(attached.warm_blocks, 0);
    assert_eq!(attached.geometry.size, DISK);
    verify(&mut guest, &lab.expected);
    let cold = status(&shard).disks[0].stats;
    assert_eq!(cold.origin_read_bytes, DISK.get());
    verify(&mut guest, &lab.expected);
    let warm = status(&shard);
    let disk = &warm.disks[0];
    assert_eq!(disk.stats.origin_read_bytes, DISK.get());
    assert_eq!(disk.stats.read_block_hits, DISK.get() / 4096);
    assert_eq!(disk.guest_latency.read.count(), 128);
    assert!(disk.origin_latency.read.count() > 0);
    assert!(warm.flash_latency.read.count() > 0);
    assert_eq!(disk.in_flight, 0);
    stop(shard);
}

#[test]
fn a_clean_stop_and_a_start_keep_every_block() {
    let lab = Lab::new();
    let shard = lab.spawn();
    let (_, mut guest) = lab.attach(&shard);
    verify(&mut guest, &lab.expected);
    stop(shard);
    let shard = lab.spawn();
    let opening = status(&shard).opening;
    assert!(opening.clean, "{opening:?}");
    assert_eq!(opening.cold, None);
    let (attached, mut guest) = lab.attach(&shard);
    assert_eq!(attached.dropped, None);
    assert_eq!(attached.warm_blocks, DISK.get() / 4096);
    verify(&mut guest, &lab.expected);
    assert_eq!(status(&shard).disks[0].stats.origin_read_bytes, 0);
    stop(shard);
}

#[test]
fn what_guests_write_is_read_and_reaches_the_origin() {
    let mut lab = Lab::new();
    let shard = lab.spawn();
    let (_, mut guest) = lab.attach(&shard);
    verify(&mut guest, &lab.expected);
    let mut dice = Prng::new(3);
    for _ in 0..300 {
        let sectors = 1 + dice.below(64);
        let offset = dice.below(DISK.get() / 512 - sectors) * 512;
        let (length, at) = (sectors * 512, usize::try_from(offset).unwrap());
        let range = at..at + usize::try_from(length).unwrap();
        let length = u32::try_from(length).unwrap();
        match dice.below(8) {
            0 => {
                assert_eq!(guest.zero(offset, length), 0);
                lab.expected[range].fill(0);
            }
            1 => {
                assert_eq!(guest.trim(offset, length, FUA), 0);
                let after = guest.read(offset, length);
                lab.expected[range].copy_from_slice(&after);
            }
            2 => assert_eq!(guest.flush(), 0),
            kind => {
                let mut data = vec![0; range.len()];
                dice.fill(&mut data);
                let flags = if kind == 3 { FUA } else { 0 };
                assert_eq!(guest.write(offset, &data, flags), 0);
                lab.expected[range.clone()].copy_from_slice(&data);
                assert!(guest.read(offset, length) == data);
            }
        }
    }
    verify(&mut guest, &lab.expected);
    assert_eq!(guest.flush(), 0);
    guest.disconnect();
    let counted = until(&shard, |s| s.disks[0].connections == 0);
    assert!(counted.disks[0].guest_latency.write.count() > 100);
    assert!(counted.disks[0].guest_latency.flush.count() > 10);
    stop(shard);
    assert!(std::fs::read(lab.origin_path()).unwrap() == lab.expected);
    let shard = lab.spawn();
    let (_, mut guest) = lab.attach(&shard);
    verify(&mut guest, &lab.expected);
    stop(shard);
}

#[test]
fn a_shard_that_dies_loses_nothing() {
    let mut lab = Lab::new();
    let shard = lab.spawn();
    let (_, mut guest) = lab.attach(&shard);
    verify(&mut guest, &lab.expected);
    let mut dice = Prng::new(5);
    for _ in 0..200 {
        let offset = dice.below(DISK.get() / 4096) * 4096;
        let mut data = vec![0; 4096];
        dice.fill(&mut data);
        assert_eq!(guest.write(offset, &data, 0), 0);
        let at = usize::try_from(offset).unwrap();
        lab.expected[at..at + 4096].copy_from_slice(&data);
    }
    // What a kill leaves: the flash as it is at some moment while the shard goes on.
    let copy = Lab::new();
    std::fs::copy(lab.flash_path(), copy.flash_path()).unwrap();
    std::fs::copy(lab.origin_path(), copy.origin_path()).unwrap();
    let record = "state/main.cache";
    std::fs::copy(
        lab.folder.path().join(record),
        copy.folder.path().join(record),
    )
    .unwrap();
    let after = copy.spawn();
    let opening = status(&after).opening;
    assert!(!opening.clean);
    assert!(opening.blocks > 0, "{opening:?}");
    let (_, mut guest) = copy.attach(&after);
    verify(&mut guest, &lab.expected);
    stop(after);
    stop(shard);
}

#[test]
fn several_clients_of_a_disk_see_one_disk() {
    let lab = Lab::new();
    let shard = lab.spawn();
    let (_, mut one) = lab.attach(&shard);
    let mut two = connect(&shard, lab.spec().id).unwrap();
    assert_eq!(one.write(8192, &[7; 4096], 0), 0);
    assert_eq!(two.read(8192, 4096), [7; 4096]);
    assert_eq!(two.flush(), 0);
    // One that goes away in the middle of its requests harms nobody.
    for block in 0..100 {
        two.send_read(block * 4096, 4096);
    }
    drop(two);
    until(&shard, |s| {
        s.disks[0].connections == 1 && s.disks[0].in_flight == 0
    });
    assert_eq!(one.read(8192, 4096), [7; 4096]);
    let more: Vec<_> = (0..3).map(|_| connect(&shard, lab.spec().id)).collect();
    assert!(more.iter().all(Result::is_ok));
    let refused = connect(&shard, lab.spec().id).err();
    assert_eq!(refused, Some(ShardError::TooManyConnections(4)));
    stop(shard);
}

#[test]
fn a_detach_answers_what_is_in_flight_and_closes_its_clients() {
    let lab = Lab::new();
    let shard = lab.spawn();
    let (_, mut guest) = lab.attach(&shard);
    let id = lab.spec().id;
    for block in 0..64 {
        guest.send_read(block * 4096, 4096);
    }
    let first = guest.receive().unwrap();
    assert_eq!(first.1, 0);
    guest.receive_data(4096);
    let (tell, told) = std::sync::mpsc::channel();
    shard.detach(
        id,
        cache::OfDirty::Refuse,
        Box::new(move |result| tell.send(result).unwrap()),
    );
    let mut rest = Vec::new();
    guest.socket.read_to_end(&mut rest).unwrap();
    assert_eq!(rest.len() % (16 + 4096), 0, "no answer was cut");
    assert_eq!(told.recv().unwrap(), Ok(()));
    assert!(status(&shard).disks.is_empty());
    assert!(matches!(
        ask(|reply| shard.detach(id, cache::OfDirty::Refuse, reply)),
        Err(ShardError::NoSuchDisk)
    ));
    let (attached, mut guest) = lab.attach(&shard);
    assert_eq!(attached.dropped, None);
    verify(&mut guest, &lab.expected);
    stop(shard);
}

#[test]
fn a_client_that_reads_no_answers_holds_up_no_detach() {
    let lab = Lab::new();
    let shard = lab.spawn();
    let (_, mut guest) = lab.attach(&shard);
    for block in 0..64 {
        guest.send_read(block * (128 << 10), 128 << 10);
    }
    until(&shard, |s| s.disks[0].guest_latency.read.count() > 16);
    ask(|reply| shard.detach(lab.spec().id, cache::OfDirty::Refuse, reply)).unwrap();
    stop(shard);
}

#[test]
fn commands_do_what_they_say() {
    let lab = Lab::new();
    let shard = lab.spawn();
    let (_, mut guest) = lab.attach(&shard);
    let id = lab.spec().id;
    verify(&mut guest, &lab.expected);
    assert_eq!(status(&shard).disks[0].phase, DiskPhase::Serving);
    ask(|reply| shard.flush(id, reply)).unwrap();
    ask(|reply| shard.set_policy(id, cache::WritePolicy::Around, reply)).unwrap();
    assert_eq!(status(&shard).disks[0].policy, cache::WritePolicy::Around);
    assert!(status(&shard).disks[0].stats.cached_blocks > 0);
    ask(|reply| shard.drop_cache(id, reply)).unwrap();
    assert_eq!(status(&shard).disks[0].stats.cached_blocks, 0);
    verify(&mut guest, &lab.expected);
    let stranger = DiskId::from_u128(99);
    let refused = ask(|reply| shard.flush(stranger, reply));
    assert_eq!(refused, Err(ShardError::NoSuchDisk));
    let opened = origin::open(&lab.origin(), true);
    assert!(opened.is_err(), "the origin is locked while it is served");
    stop(shard);
}

#[test]
fn a_disk_of_another_size_and_one_attached_twice_are_refused() {
    let lab = Lab::new();
    let shard = lab.spawn();
    let mut spec = lab.spec();
    spec.size = Some(units::Bytes::mib(1));
    let opened = origin::open(&lab.origin(), false).unwrap();
    let refused = ask(|reply| shard.attach(spec, opened, reply));
    assert!(matches!(refused, Err(ShardError::Size { .. })));
    let (_, _guest) = lab.attach(&shard);
    let other = lab.folder.path().join("other");
    std::fs::copy(lab.origin_path(), &other).unwrap();
    let opened = origin::open(&support::file_origin(&other), false).unwrap();
    let refused = ask(|reply| shard.attach(lab.spec(), opened, reply));
    assert_eq!(refused, Err(ShardError::AlreadyAttached));
    stop(shard);
}

#[test]
fn a_stopped_shard_takes_no_commands_and_the_last_handle_stops_it() {
    let lab = Lab::new();
    let shard = lab.spawn();
    let (_, guest) = lab.attach(&shard);
    let other = shard.clone();
    stop(shard);
    assert_eq!(
        ask(|reply| other.status(reply)).err(),
        Some(ShardError::Ended)
    );
    drop(guest);
    let shard = lab.spawn();
    let (_, mut guest) = lab.attach(&shard);
    drop(shard);
    // The shard stops by itself: its client sees the end of the stream, its flash is free.
    assert_eq!(guest.socket.read(&mut [0; 1]).unwrap(), 0);
    let deadline = std::time::Instant::now() + support::PATIENCE;
    while device::uring::FlashFile::open(&lab.flash_path()).is_err() {
        assert!(std::time::Instant::now() < deadline);
        std::thread::yield_now();
    }
}

#[test]
fn an_idle_shard_sleeps() {
    let lab = Lab::new();
    let shard = lab.spawn();
    let (_, mut guest) = lab.attach(&shard);
    verify(&mut guest, &lab.expected);
    // Each status wakes the shard; nothing else does once what was read is on flash.
    let mut last = status(&shard).turns;
    let mut quiet = 0;
    let deadline = std::time::Instant::now() + support::PATIENCE;
    while quiet < 1000 {
        assert!(std::time::Instant::now() < deadline, "it never rests");
        let turns = status(&shard).turns;
        quiet = if turns <= last + 2 { quiet + 1 } else { 0 };
        last = turns;
    }
    stop(shard);
}
