//! Memory that others see too: it is filled where it is, and stays until the kernel is done.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(unsafe_code, reason = "pointers into memory that the test owns")]

mod support;

use block_io::GuestBuffer as _;
use ring::{Foreign, Op, Ring};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use support::{finish, finish_all};

/// Memory that is reached by its address only.
fn memory(bytes: usize) -> Rc<Box<[std::cell::UnsafeCell<u8>]>> {
    Rc::new((0..bytes).map(|_| std::cell::UnsafeCell::new(0)).collect())
}

fn foreign(memory: &Rc<Box<[std::cell::UnsafeCell<u8>]>>, pieces: &[(usize, usize)]) -> Foreign {
    let address = |(at, length): &(usize, usize)| (memory[*at].get(), *length);
    // SAFETY: the pieces lie in memory that is kept, and that is only reached through cells.
    unsafe { Foreign::new(pieces.iter().map(address), Rc::<Box<[_]>>::clone(memory)) }
}

fn bytes(memory: &[std::cell::UnsafeCell<u8>]) -> Vec<u8> {
    // SAFETY: nothing is in flight when a test looks.
    memory.iter().map(|cell| unsafe { *cell.get() }).collect()
}

fn digits() -> Rc<OwnedFd> {
    let file = tempfile::tempfile().unwrap();
    file.write_all_at(b"0123456789", 0).unwrap();
    Rc::new(file.into())
}

fn read(ring: &Ring, into: Foreign, offset: u64) -> usize {
    let source = ring.source();
    let file = digits();
    source.submit(1, Op::ReadInto { file, offset, into });
    finish(ring, &source).result.unwrap()
}

#[test]
fn one_piece_and_several_are_filled_in_order() {
    let ring = Ring::new(8).unwrap();
    let whole = memory(8);
    assert_eq!(read(&ring, foreign(&whole, &[(2, 4)]), 3), 4);
    assert_eq!(bytes(&whole), b"\0\x003456\0\0");
    let several = memory(8);
    let pieces = foreign(&several, &[(6, 2), (0, 3)]);
    assert_eq!(pieces.len(), 5);
    assert_eq!(read(&ring, pieces, 0), 5);
    assert_eq!(bytes(&several), b"234\0\0\x0001");
}

#[test]
fn a_part_reaches_into_the_pieces_that_it_covers() {
    let memory = memory(8);
    let pieces = foreign(&memory, &[(6, 2), (0, 3)]);
    pieces.store(1, b"abc");
    assert_eq!(bytes(&memory), b"bc\0\0\0\0\0a");
    let part = pieces.part(1..4);
    assert_eq!((part.len(), part.pieces()), (3, 2));
    let mut copy = [0; 3];
    part.load(0, &mut copy);
    assert_eq!(&copy, b"abc");
    let ring = Ring::new(8).unwrap();
    assert_eq!(read(&ring, part, 4), 3);
    assert_eq!(bytes(&memory), b"56\0\0\0\0\x004");
    drop(pieces);
    assert_eq!(Rc::strong_count(&memory), 1);
}

#[test]
#[should_panic(expected = "memory is touched within its pieces")]
fn nothing_beyond_the_pieces_is_touched() {
    foreign(&memory(8), &[(6, 2), (0, 3)]).store(3, b"abc");
}

#[test]
fn the_end_of_the_file_is_a_short_read() {
    let ring = Ring::new(8).unwrap();
    let memory = memory(8);
    assert_eq!(read(&ring, foreign(&memory, &[(0, 8)]), 7), 3);
}

#[test]
fn alignment_is_that_of_the_worst_piece() {
    let memory = memory(64);
    let base = memory[0].get().addr();
    let at = base.next_multiple_of(8) - base;
    assert!(foreign(&memory, &[(at, 16), (at + 8, 8)]).is_aligned_to(8));
    assert!(!foreign(&memory, &[(at, 16), (at + 4, 8)]).is_aligned_to(8));
    assert!(!foreign(&memory, &[(at, 12)]).is_aligned_to(8));
}

#[test]
fn it_is_kept_until_the_kernel_is_done() {
    let ring = Ring::new(8).unwrap();
    let memory = memory(4);
    let (ours, _peer) = UnixStream::pair().unwrap();
    let source = ring.source();
    let op = Op::ReadInto {
        file: Rc::new(ours.into()),
        offset: 0,
        into: foreign(&memory, &[(0, 4)]),
    };
    source.submit(1, op);
    assert_eq!(Rc::strong_count(&memory), 2);
    source.cancel_all();
    finish_all(&ring, &source);
    assert_eq!(Rc::strong_count(&memory), 1);
}

#[test]
fn what_has_one_token_can_be_given_up_alone() {
    let ring = Ring::new(8).unwrap();
    let source = ring.source();
    let (ours, peer) = UnixStream::pair().unwrap();
    let socket = Rc::new(OwnedFd::from(ours));
    for token in [1, 2] {
        let fd = Rc::clone(&socket);
        source.submit(token, Op::PollIn { fd });
    }
    source.cancel(1);
    let given_up = finish(&ring, &source);
    assert_eq!(given_up.token, 1);
    let error = given_up.result.unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::ECANCELED));
    assert_eq!(source.in_flight(), 1);
    drop(peer);
    assert_eq!(finish(&ring, &source).token, 2);
}

#[test]
fn nothing_to_do_is_done_in_the_next_turn() {
    let ring = Ring::new(8).unwrap();
    let source = ring.source();
    source.submit(5, Op::Nop);
    assert!(source.pop().is_none());
    let done = finish(&ring, &source);
    assert_eq!((done.token, done.result.unwrap()), (5, 0));
}
