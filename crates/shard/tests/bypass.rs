//! Flash that cannot be used never stops a disk, and is never believed when it returns.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use cache::Mode;
use rustix::fs::{MemfdFlags, SealFlags};
use shard::{Shard, SpawnError};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileExt as _;
use support::{Lab, status, stop, until, verify};

fn bypass_reason(shard: &shard::ShardHandle) -> String {
    match status(shard).cache.mode {
        Mode::Bypassed { reason } => reason,
        mode => panic!("the flash is in use: {mode:?}"),
    }
}

#[test]
fn flash_that_is_missing_or_unformatted_is_said_and_bypassed() {
    let lab = Lab::new();
    std::fs::remove_file(lab.flash_path()).unwrap();
    let shard = lab.spawn();
    let (_, mut guest) = lab.attach(&shard);
    verify(&mut guest, &lab.expected);
    assert_eq!(guest.write(0, &[1; 512], support::FUA), 0);
    assert_eq!(guest.read(0, 512), [1; 512]);
    let reason = bypass_reason(&shard);
    assert!(reason.contains("flash"), "{reason}");
    assert!(reason.contains("No such file"), "{reason}");
    stop(shard);
    std::fs::write(lab.flash_path(), vec![0; 1 << 20]).unwrap();
    let shard = lab.spawn();
    let (_, mut guest) = lab.attach(&shard);
    assert_eq!(guest.read(0, 512), [1; 512]);
    let reason = bypass_reason(&shard);
    assert!(!reason.is_empty());
    stop(shard);
}

#[test]
fn flash_that_was_away_while_the_disk_was_written_comes_back_empty() {
    let mut lab = Lab::new();
    let shard = lab.spawn();
    let (_, mut guest) = lab.attach(&shard);
    verify(&mut guest, &lab.expected);
    stop(shard);
    let elsewhere = lab.folder.path().join("elsewhere");
    std::fs::rename(lab.flash_path(), &elsewhere).unwrap();
    let shard = lab.spawn();
    let (_, mut guest) = lab.attach(&shard);
    let before = std::fs::metadata(lab.origin_path()).unwrap();
    assert_eq!(guest.write(4096, &[9; 8192], support::FUA), 0);
    lab.expected[4096..12288].fill(9);
    stop(shard);
    // Even if the origin's own fingerprint told nothing.
    let file = std::fs::File::options()
        .write(true)
        .open(lab.origin_path())
        .unwrap();
    file.set_modified(before.modified().unwrap()).unwrap();
    drop(file);
    std::fs::rename(&elsewhere, lab.flash_path()).unwrap();
    let shard = lab.spawn();
    assert!(status(&shard).opening.cold.is_some());
    let (attached, mut guest) = lab.attach(&shard);
    assert_eq!(attached.warm_blocks, 0);
    verify(&mut guest, &lab.expected);
    stop(shard);
}

#[test]
fn flash_of_another_life_is_not_believed() {
    let mut lab = Lab::new();
    let shard = lab.spawn();
    let (_, mut guest) = lab.attach(&shard);
    verify(&mut guest, &lab.expected);
    stop(shard);
    let first = lab.folder.path().join("first");
    std::fs::rename(lab.flash_path(), &first).unwrap();
    lab.format(2);
    let shard = lab.spawn();
    assert_eq!(
        status(&shard).opening.cold,
        None,
        "new flash is simply empty"
    );
    let (_, mut guest) = lab.attach(&shard);
    assert_eq!(guest.write(0, &[3; 4096], 0), 0);
    lab.expected[..4096].fill(3);
    stop(shard);
    std::fs::rename(&first, lab.flash_path()).unwrap();
    let shard = lab.spawn();
    assert!(status(&shard).opening.cold.is_some());
    let (_, mut guest) = lab.attach(&shard);
    verify(&mut guest, &lab.expected);
    stop(shard);
}

#[test]
fn a_lost_record_costs_warmth_and_nothing_else() {
    let lab = Lab::new();
    let shard = lab.spawn();
    let (_, mut guest) = lab.attach(&shard);
    verify(&mut guest, &lab.expected);
    stop(shard);
    std::fs::remove_file(lab.folder.path().join("state/main.cache")).unwrap();
    let shard = lab.spawn();
    assert!(status(&shard).opening.cold.is_some());
    let (_, mut guest) = lab.attach(&shard);
    verify(&mut guest, &lab.expected);
    stop(shard);
}

#[test]
fn flash_that_is_cut_short_under_way_is_never_served() {
    let lab = Lab::new();
    let shard = lab.spawn();
    let (_, mut guest) = lab.attach(&shard);
    verify(&mut guest, &lab.expected);
    until(&shard, |s| s.cache.buffered == units::Bytes::ZERO);
    let flash = std::fs::File::options()
        .write(true)
        .open(lab.flash_path())
        .unwrap();
    flash.set_len(0).unwrap();
    verify(&mut guest, &lab.expected);
    verify(&mut guest, &lab.expected);
    assert!(status(&shard).stats.flash_errors > 0);
    stop(shard);
    let shard = lab.spawn();
    let (_, mut guest) = lab.attach(&shard);
    verify(&mut guest, &lab.expected);
    stop(shard);
}

#[test]
fn flash_that_takes_no_more_writes_is_given_up_and_recorded() {
    let mut lab = Lab::new();
    // Flash in memory that can be sealed against writing while it is in use.
    let memory = rustix::fs::memfd_create("flash", MemfdFlags::ALLOW_SEALING).unwrap();
    lab.flash = Some(format!("/proc/self/fd/{}", memory.as_raw_fd()).into());
    lab.format(1);
    let shard = lab.spawn();
    let (_, mut guest) = lab.attach(&shard);
    verify(&mut guest, &lab.expected);
    until(&shard, |s| s.cache.buffered == units::Bytes::ZERO);
    rustix::fs::fcntl_add_seals(&memory, SealFlags::WRITE).unwrap();
    for block in 0..64 {
        let at = block * 4096;
        assert_eq!(guest.write(at as u64, &[5; 4096], 0), 0);
        lab.expected[at..at + 4096].fill(5);
    }
    let bypassed = until(&shard, |s| matches!(s.cache.mode, Mode::Bypassed { .. }));
    assert!(bypassed.cache.cached_blocks == 0);
    verify(&mut guest, &lab.expected);
    assert_eq!(guest.write(0, &[6; 4096], support::FUA), 0);
    lab.expected[..4096].fill(6);
    verify(&mut guest, &lab.expected);
    let record = std::fs::read_to_string(lab.folder.path().join("state/main.cache")).unwrap();
    assert!(record.contains("least 4"), "{record}");
    stop(shard);
    assert!(std::fs::read(lab.origin_path()).unwrap() == lab.expected);
}

#[test]
fn writes_fail_rather_than_let_flash_become_stale_unrecorded() {
    let mut lab = Lab::new();
    let memory = rustix::fs::memfd_create("flash", MemfdFlags::ALLOW_SEALING).unwrap();
    lab.flash = Some(format!("/proc/self/fd/{}", memory.as_raw_fd()).into());
    lab.format(1);
    let shard = lab.spawn();
    let (_, mut guest) = lab.attach(&shard);
    verify(&mut guest, &lab.expected);
    until(&shard, |s| s.cache.buffered == units::Bytes::ZERO);
    let state = lab.folder.path().join("state");
    let away = lab.folder.path().join("away");
    std::fs::rename(&state, &away).unwrap();
    rustix::fs::fcntl_add_seals(&memory, SealFlags::WRITE).unwrap();
    // The first may go through: what it replaces was perhaps not trusted yet.
    let deadline = std::time::Instant::now() + support::PATIENCE;
    while guest.write(0, &[5; 4096], 0) != 5 {
        assert!(std::time::Instant::now() < deadline);
        lab.expected[..4096].fill(5);
    }
    until(&shard, |s| matches!(s.cache.mode, Mode::Retiring { .. }));
    verify(&mut guest, &lab.expected);
    std::fs::rename(&away, &state).unwrap();
    assert_eq!(guest.write(0, &[8; 4096], 0), 0);
    lab.expected[..4096].fill(8);
    verify(&mut guest, &lab.expected);
    until(&shard, |s| matches!(s.cache.mode, Mode::Bypassed { .. }));
    stop(shard);
}

#[test]
fn rotten_flash_is_never_served() {
    let lab = Lab::new();
    let shard = lab.spawn();
    let (_, mut guest) = lab.attach(&shard);
    verify(&mut guest, &lab.expected);
    until(&shard, |s| s.cache.buffered == units::Bytes::ZERO);
    let flash = std::fs::File::options()
        .write(true)
        .open(lab.flash_path())
        .unwrap();
    // All of the flash but its first pages, so surely every cached block.
    let noise = vec![0xa5; 1 << 20];
    for at in 1..64 {
        flash.write_all_at(&noise, at << 20).unwrap();
    }
    flash.sync_all().unwrap();
    verify(&mut guest, &lab.expected);
    assert!(status(&shard).stats.checksum_mismatches > 0);
    verify(&mut guest, &lab.expected);
    stop(shard);
}

#[test]
fn a_state_folder_that_cannot_be_written_stops_the_start() {
    let lab = Lab::new();
    let mut config = lab.config();
    config.state_dir = lab.folder.path().join("none");
    let refused = Shard::spawn(config).unwrap_err();
    assert!(matches!(refused, SpawnError::Record(_)), "{refused}");
    let mut config = lab.config();
    config.name = "../main".to_owned();
    let refused = Shard::spawn(config).unwrap_err();
    assert!(matches!(refused, SpawnError::Name(_)), "{refused}");
}

#[test]
fn flash_that_another_shard_uses_stops_the_start() {
    let lab = Lab::new();
    let shard = lab.spawn();
    let refused = Shard::spawn(lab.config()).unwrap_err();
    assert!(matches!(refused, SpawnError::InUse(_)), "{refused}");
    stop(shard);
}
