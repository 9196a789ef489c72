//! What only files have: locks, sizes, fingerprints.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use block_io::{BufPool, IoError, OriginOp, OriginVerb, Token};
use origin::{FileSpec, OpenError, OriginSpec};
use ring::Ring;
use std::os::unix::fs::FileExt;
use std::path::Path;
use units::{Bytes, DiskSlot, Duration, Instant, Offset};

fn spec(path: &Path) -> OriginSpec {
    OriginSpec::File(FileSpec::new(path.to_owned()))
}

fn folder_with_image(length: u64) -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    std::fs::File::create(&path)
        .unwrap()
        .set_len(length)
        .unwrap();
    (folder, path)
}

#[test]
fn a_file_has_one_writer_or_many_readers() {
    let (_folder, path) = folder_with_image(4096);
    let writer = origin::open(&spec(&path), false).unwrap();
    let refused = |read_only| {
        let opened = origin::open(&spec(&path), read_only);
        matches!(opened, Err(OpenError::InUse { .. }))
    };
    assert!(refused(false));
    assert!(refused(true));
    drop(writer);
    let reader = origin::open(&spec(&path), true).unwrap();
    assert!(reader.geometry().read_only);
    assert!(origin::open(&spec(&path), true).is_ok());
    assert!(refused(false));
    drop(reader);
    assert!(origin::open(&spec(&path), false).is_ok());
}

#[test]
fn what_cannot_be_a_disk_is_refused_with_its_name() {
    let (folder, path) = folder_with_image(1000);
    let odd = origin::open(&spec(&path), false).unwrap_err();
    assert!(matches!(odd, OpenError::Size { .. }), "{odd}");
    assert!(odd.to_string().contains("image"), "{odd}");
    let missing = origin::open(&spec(&folder.path().join("none")), false).unwrap_err();
    assert!(
        matches!(missing, OpenError::Unreachable { .. }),
        "{missing}"
    );
    let not_a_file = origin::open(&spec(folder.path()), false).unwrap_err();
    assert!(matches!(not_a_file, OpenError::Unreachable { .. }));
}

#[test]
fn somebody_elses_write_changes_the_fingerprint() {
    let (_folder, path) = folder_with_image(8192);
    let print = || {
        let ring = Ring::new(8).unwrap();
        let opened = origin::open(&spec(&path), false).unwrap();
        opened.start(&ring, &BufPool::new()).fingerprint().unwrap()
    };
    let before = print();
    assert_eq!(print(), before);
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    // The file system's clock may tick slower than we write: write until it has.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while print() == before {
        assert!(std::time::Instant::now() < deadline);
        file.write_all_at(&[1; 512], 0).unwrap();
    }
}

#[test]
fn a_file_cut_short_under_us_is_an_error_and_never_made_longer_again() {
    let (_folder, path) = folder_with_image(1 << 20);
    let (ring, pool) = (Ring::new(8).unwrap(), BufPool::new());
    let mut origin = origin::open(&spec(&path), false)
        .unwrap()
        .start(&ring, &pool);
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(4096).unwrap();
    let read = OriginVerb::Read {
        offset: Offset::ZERO,
        length: Bytes::kib(8),
        buf: pool.take(8192),
    };
    let write = |fua| OriginVerb::Write {
        offset: Offset::kib(64),
        data: pool.copy_of(&[1; 4096]),
        fua,
    };
    let zeroes = |may_unmap| OriginVerb::WriteZeroes {
        offset: Offset::kib(64),
        length: Bytes::kib(64),
        may_unmap,
        fua: true,
    };
    for verb in [read, write(false), write(true), zeroes(false), zeroes(true)] {
        let (token, disk) = (Token(1), DiskSlot::new(0));
        origin.submit(OriginOp { token, disk, verb }, Instant::ZERO);
        let mut done = Vec::new();
        origin.poll(Instant::ZERO, &mut done);
        while done.is_empty() {
            ring.submit_and_wait(Some(Duration::from_secs(10))).unwrap();
            origin.poll(Instant::ZERO, &mut done);
        }
        assert_eq!(done[0].result, Err(IoError::Failed));
    }
    assert_eq!(file.metadata().unwrap().len(), 4096);
}
