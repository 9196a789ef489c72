//! The whole load generator against a file: data, limits of time and rate, verification over runs.

#![allow(clippy::unwrap_used, reason = "tests that may stop anywhere")]

use load::{Address, JobOutcome, LoadError, Rates, Settings, Verify};
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use units::Duration;
use workload::{Shape, Spread};

fn disk() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk.raw");
    fs::write(&path, vec![0; 2 << 20]).unwrap();
    (folder, path)
}

fn settings(path: &Path, shape: Shape) -> Settings {
    Settings {
        name: "test".to_owned(),
        target: Address::File {
            path: path.to_owned(),
            // Temporary folders may lie in memory, where there is no direct I/O.
            direct: false,
        },
        shape,
        sizes: "4k".parse().unwrap(),
        iodepth: 8,
        numjobs: 1,
        offset: 0,
        offset_increment: 0,
        size: None,
        io_size: None,
        runtime: None,
        time_based: false,
        ramp_time: Duration::ZERO,
        spread: Spread::Uniform,
        norandommap: false,
        rwmixread: 50,
        rates: Rates::default(),
        sync: None,
        verify: None,
        randseed: 3,
    }
}

const VERIFY: Option<Verify> = Some(Verify {
    interval: Some(512),
    read_back: false,
});

fn run(settings: &Settings) -> JobOutcome {
    load::run(settings, &mut |_| ControlFlow::Continue(()))
        .unwrap()
        .together()
}

#[test]
fn a_flipped_bit_is_found_by_a_later_run() {
    let (_folder, path) = disk();
    let writes = Settings {
        verify: VERIFY,
        ..settings(&path, Shape::Write)
    };
    assert_eq!(run(&writes).directions[1].bytes, 2 << 20);
    let reads = Settings {
        verify: VERIFY,
        ..settings(&path, Shape::RandRead)
    };
    assert_eq!(run(&reads).verified.unwrap().right, 4096);
    let mut bytes = fs::read(&path).unwrap();
    bytes[100 * 512 + 300] ^= 1;
    fs::write(&path, bytes).unwrap();
    let verified = run(&reads).verified.unwrap();
    assert_eq!((verified.right, verified.wrong), (4095, 1));
    let said = verified.findings[0].to_string();
    assert!(said.starts_with("at offset 51200: wrong bytes"), "{said}");
}

#[test]
fn a_disk_that_nobody_wrote_holds_no_pattern() {
    let (_folder, path) = disk();
    let reads = Settings {
        verify: VERIFY,
        ..settings(&path, Shape::Read)
    };
    let verified = run(&reads).verified.unwrap();
    assert_eq!((verified.right, verified.wrong), (0, 4096));
    assert!(verified.findings.len() < 100, "the first are enough");
}

#[test]
fn only_the_region_is_touched() {
    let (_folder, path) = disk();
    let writes = Settings {
        offset: 64 << 10,
        size: Some(128 << 10),
        ..settings(&path, Shape::RandWrite)
    };
    run(&writes);
    let bytes = fs::read(&path).unwrap();
    let is_written: Vec<bool> = bytes
        .chunks(4096)
        .map(|b| b.iter().any(|x| *x != 0))
        .collect();
    let first = is_written.iter().position(|written| *written).unwrap();
    assert_eq!(first, 16);
    assert_eq!(is_written.iter().filter(|written| **written).count(), 32);
}

#[test]
fn a_rate_is_not_exceeded_and_time_ends_a_load() {
    let (_folder, path) = disk();
    let slow = Settings {
        rates: Rates {
            bytes: None,
            requests: Some(200),
        },
        time_based: true,
        runtime: Some(Duration::from_millis(300)),
        ..settings(&path, Shape::RandRead)
    };
    let outcome = run(&slow);
    let requests = outcome.directions[0].times.count();
    // 60 fall due within the time; a slow machine does fewer.
    assert!((1..=61).contains(&requests), "{requests}");
    assert!(outcome.elapsed_ns <= 5_000_000_000);
}

#[test]
fn what_is_beyond_the_file_or_no_file_is_refused() {
    let (folder, path) = disk();
    let beyond = Settings {
        size: Some(4 << 20),
        ..settings(&path, Shape::Read)
    };
    let refused =
        |settings: &Settings| load::run(settings, &mut |_| ControlFlow::Continue(())).unwrap_err();
    assert!(matches!(refused(&beyond), LoadError::Unfit { .. }));
    let no_file = settings(folder.path(), Shape::Read);
    assert!(matches!(refused(&no_file), LoadError::Refused { .. }));
    let missing = settings(&folder.path().join("missing"), Shape::Read);
    assert!(matches!(refused(&missing), LoadError::Unreachable { .. }));
}

#[test]
fn a_file_that_somebody_has_locked_is_not_written() {
    let (_folder, path) = disk();
    let owner = fs::File::open(&path).unwrap();
    owner.lock_shared().unwrap();
    let writes = settings(&path, Shape::Write);
    let refused = load::run(&writes, &mut |_| ControlFlow::Continue(())).unwrap_err();
    assert!(matches!(refused, LoadError::Refused { .. }), "{refused}");
    assert!(run(&settings(&path, Shape::Read)).error.is_none());
}
