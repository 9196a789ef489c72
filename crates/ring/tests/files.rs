//! Files through the ring: what is written is read, and results are the kernel's own.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use block_io::BufPool;
use ring::{Op, Ring};
use std::os::fd::OwnedFd;
use std::rc::Rc;
use support::{finish, finish_all};

fn scratch() -> Rc<OwnedFd> {
    Rc::new(tempfile::tempfile().unwrap().into())
}

#[test]
fn a_file_reads_back_what_was_written() {
    let ring = Ring::new(8).unwrap();
    let source = ring.source();
    let pool = BufPool::new();
    let file = scratch();
    let data = pool.copy_of(&[7; 5000]);
    source.submit(
        1,
        Op::Write {
            file: Rc::clone(&file),
            offset: 4096,
            data: data.clone(),
            dsync: true,
        },
    );
    let written = finish(&ring, &source);
    assert_eq!((written.token, written.result.unwrap()), (1, 5000));
    source.submit(
        2,
        Op::Fsync {
            file: Rc::clone(&file),
            datasync: true,
        },
    );
    assert_eq!(finish(&ring, &source).result.unwrap(), 0);
    source.submit(
        3,
        Op::Read {
            file,
            offset: 4096,
            buf: pool.take(8192),
            length: 5000,
        },
    );
    let read = finish(&ring, &source);
    assert_eq!(read.result.unwrap(), 5000);
    assert_eq!(read.buf.unwrap()[..5000], data[..]);
}

#[test]
fn a_read_over_the_end_is_reported_short() {
    let ring = Ring::new(8).unwrap();
    let source = ring.source();
    let pool = BufPool::new();
    let file = scratch();
    rustix::io::pwrite(&file, &[1; 100], 0).unwrap();
    source.submit(
        9,
        Op::Read {
            file,
            offset: 0,
            buf: pool.take(4096),
            length: 4096,
        },
    );
    assert_eq!(finish(&ring, &source).result.unwrap(), 100);
}

#[test]
fn a_failed_read_gives_the_error_and_the_buffer_back() {
    let ring = Ring::new(8).unwrap();
    let source = ring.source();
    let pool = BufPool::new();
    let folder = tempfile::tempdir().unwrap();
    let not_a_file: OwnedFd = std::fs::File::open(folder.path()).unwrap().into();
    source.submit(
        9,
        Op::Read {
            file: Rc::new(not_a_file),
            offset: 0,
            buf: pool.take(4096),
            length: 4096,
        },
    );
    let done = finish(&ring, &source);
    assert_eq!(done.result.unwrap_err().raw_os_error(), Some(libc::EISDIR));
    assert_eq!(done.buf.unwrap().len(), 4096);
}

#[test]
fn a_punched_hole_reads_as_zeroes() {
    let ring = Ring::new(8).unwrap();
    let source = ring.source();
    let pool = BufPool::new();
    let file = scratch();
    rustix::io::pwrite(&file, &[5; 12288], 0).unwrap();
    source.submit(
        1,
        Op::Fallocate {
            file: Rc::clone(&file),
            mode: libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE,
            offset: 4096,
            length: 4096,
        },
    );
    assert_eq!(finish(&ring, &source).result.unwrap(), 0);
    source.submit(
        2,
        Op::Read {
            file,
            offset: 0,
            buf: pool.take(12288),
            length: 12288,
        },
    );
    let bytes = finish(&ring, &source).buf.unwrap();
    assert_eq!(bytes[4095], 5);
    assert!(bytes[4096..8192].iter().all(|byte| *byte == 0));
    assert_eq!(bytes[8192], 5);
}

#[test]
fn more_operations_than_the_queue_holds_all_complete() {
    let ring = Ring::new(4).unwrap();
    let source = ring.source();
    let pool = BufPool::new();
    let file = scratch();
    for block in 0..500_u64 {
        source.submit(
            block,
            Op::Write {
                file: Rc::clone(&file),
                offset: block * 512,
                data: pool.copy_of(&[u8::try_from(block % 251).unwrap(); 512]),
                dsync: false,
            },
        );
    }
    let written = finish_all(&ring, &source);
    assert_eq!(written.len(), 500);
    for block in 0..500_u64 {
        source.submit(
            block,
            Op::Read {
                file: Rc::clone(&file),
                offset: block * 512,
                buf: pool.take(512),
                length: 512,
            },
        );
    }
    let mut seen = vec![false; 500];
    for done in finish_all(&ring, &source) {
        assert_eq!(done.result.unwrap(), 512);
        let expected = u8::try_from(done.token % 251).unwrap();
        assert_eq!(done.buf.unwrap()[..512], [expected; 512]);
        let slot = usize::try_from(done.token).unwrap();
        assert!(!std::mem::replace(&mut seen[slot], true), "completed twice");
    }
    assert!(seen.iter().all(|one| *one));
}

#[test]
fn a_turn_is_one_system_call_however_much_is_queued() {
    let ring = Ring::new(64).unwrap();
    let source = ring.source();
    let pool = BufPool::new();
    let file = scratch();
    let before = ring.enters();
    for block in 0..64 {
        source.submit(
            block,
            Op::Write {
                file: Rc::clone(&file),
                offset: block * 4096,
                data: pool.copy_of(&[1; 4096]),
                dsync: false,
            },
        );
    }
    ring.submit_and_wait(None).unwrap();
    assert_eq!(ring.enters() - before, 1);
    assert!(source.pop().is_some());
}

/// A file of 8 blocks; each byte of block `n` is `n + 1`.
fn eight_blocks(ring: &Ring, pool: &BufPool) -> Rc<OwnedFd> {
    let (file, source) = (scratch(), ring.source());
    for block in 0..8_u8 {
        let op = Op::Write {
            file: Rc::clone(&file),
            offset: u64::from(block) * 4096,
            data: pool.copy_of(&[block + 1; 4096]),
            dsync: false,
        };
        source.submit(u64::from(block), op);
    }
    finish_all(ring, &source);
    file
}

#[test]
fn more_buffers_than_can_be_registered_all_get_their_bytes_time_and_again() {
    let ring = Ring::new(64).unwrap();
    let (source, pool) = (ring.source(), BufPool::new());
    let file = eight_blocks(&ring, &pool);
    for round in 0..3 {
        for read in 0..1500_u64 {
            let op = Op::Read {
                file: Rc::clone(&file),
                offset: (read + round) % 8 * 4096,
                buf: pool.take(4096),
                length: 4096,
            };
            source.submit(read, op);
        }
        let mut seen = std::collections::BTreeSet::new();
        for done in finish_all(&ring, &source) {
            let buf = done.buf.unwrap();
            let block = u8::try_from((done.token + round) % 8).unwrap();
            assert!(buf.iter().all(|byte| *byte == block + 1));
            if let Some(registration) = buf.registration() {
                assert!(seen.insert(registration.slot), "a number is one buffer's");
            }
        }
    }
}

#[test]
fn a_buffer_that_another_ring_has_registered_is_read_into_all_the_same() {
    let pool = BufPool::new();
    for block in 0..8_u8 {
        let ring = Ring::new(8).unwrap();
        let file = eight_blocks(&ring, &pool);
        let source = ring.source();
        let op = Op::Read {
            file,
            offset: u64::from(block) * 4096,
            buf: pool.take(4096),
            length: 4096,
        };
        source.submit(0, op);
        let buf = finish(&ring, &source).buf.unwrap();
        assert!(buf.iter().all(|byte| *byte == block + 1));
    }
}
