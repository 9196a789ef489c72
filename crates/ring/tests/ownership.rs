//! Memory that the kernel may write stays put until the kernel is done, whatever is dropped.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use block_io::BufPool;
use ring::{Op, Ring};
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use support::{finish, finish_all};
use units::Duration;

fn pair() -> (Rc<OwnedFd>, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    (Rc::new(ours.into()), theirs)
}

fn recv(socket: &Rc<OwnedFd>, pool: &BufPool) -> Op {
    Op::Recv {
        socket: Rc::clone(socket),
        buf: pool.take(4096),
        start: 0,
        end: 4096,
    }
}

/// Turns the ring until nothing is in flight.
fn run_dry(ring: &Ring) {
    let deadline = ring.now() + Duration::from_secs(10);
    while ring.in_flight() > 0 {
        assert!(ring.now() < deadline, "cancelled operations never ended");
        ring.submit_and_wait(Some(Duration::from_secs(1))).unwrap();
    }
}

#[test]
fn a_dropped_source_keeps_its_buffer_until_the_kernel_lets_go() {
    let ring = Ring::new(8).unwrap();
    let pool = BufPool::new();
    let (socket, _peer) = pair();
    let source = ring.source();
    let buf = pool.take(4096);
    let address = buf.as_ptr();
    let socket_in_op = Rc::clone(&socket);
    source.submit(
        1,
        Op::Recv {
            socket: socket_in_op,
            buf,
            start: 0,
            end: 4096,
        },
    );
    ring.submit_and_wait(Some(Duration::ZERO)).unwrap();
    drop(source);
    assert_eq!(ring.in_flight(), 1);
    assert_ne!(pool.take(4096).as_ptr(), address, "the ring still owns it");
    run_dry(&ring);
    let first = pool.take(4096);
    let second = pool.take(4096);
    assert!([first.as_ptr(), second.as_ptr()].contains(&address));
    assert_eq!(Rc::strong_count(&socket), 1);
}

#[test]
fn nothing_arrives_in_a_buffer_that_came_back_from_a_dropped_source() {
    let ring = Ring::new(8).unwrap();
    let pool = BufPool::new();
    let (socket, mut peer) = pair();
    let source = ring.source();
    for token in 0..30 {
        source.submit(token, recv(&socket, &pool));
    }
    ring.submit_and_wait(Some(Duration::ZERO)).unwrap();
    drop(source);
    run_dry(&ring);
    let mut buffers: Vec<_> = (0..30).map(|_| pool.take_zeroed(4096)).collect();
    peer.write_all(&[7; 8192]).unwrap();
    ring.submit_and_wait(Some(Duration::from_millis(1)))
        .unwrap();
    assert!(buffers.iter_mut().all(|buf| buf.iter().all(|b| *b == 0)));
    let mut got = [0; 8192];
    assert_eq!(rustix::io::read(&socket, &mut got).unwrap(), 8192);
}

#[test]
fn a_closed_source_is_not_reported_and_its_place_is_reused() {
    let ring = Ring::new(8).unwrap();
    let pool = BufPool::new();
    let (socket, mut peer) = pair();
    let gone = ring.source();
    gone.submit(1, recv(&socket, &pool));
    peer.write_all(b"x").unwrap();
    ring.submit_and_wait(None).unwrap();
    let id = gone.id();
    drop(gone);
    let mut ready = Vec::new();
    ring.take_ready(&mut ready);
    assert!(ready.is_empty());
    let next = ring.source();
    assert_eq!(next.id(), id);
    assert!(next.pop().is_none(), "letters of the former owner are gone");
}

#[test]
fn a_place_with_operations_in_flight_is_not_reused() {
    let ring = Ring::new(8).unwrap();
    let pool = BufPool::new();
    let (socket, _peer) = pair();
    let gone = ring.source();
    gone.submit(1, recv(&socket, &pool));
    let id = gone.id();
    drop(gone);
    assert_ne!(ring.source().id(), id);
}

#[test]
fn dropping_the_ring_ends_what_is_in_flight_first() {
    let pool = BufPool::new();
    let (socket, mut peer) = pair();
    let ring = Ring::new(8).unwrap();
    let source = ring.source();
    for token in 0..20 {
        source.submit(token, recv(&socket, &pool));
    }
    ring.submit_and_wait(Some(Duration::ZERO)).unwrap();
    drop(ring);
    drop(source);
    assert_eq!(Rc::strong_count(&socket), 1, "every operation was given up");
    // Nothing of the former ring takes these bytes.
    peer.write_all(b"still here").unwrap();
    let mut got = [0; 10];
    rustix::io::read(&socket, &mut got).unwrap();
    assert_eq!(&got, b"still here");
}

#[test]
fn dropping_a_ring_that_never_turned_is_clean() {
    let pool = BufPool::new();
    let (socket, _peer) = pair();
    let ring = Ring::new(2).unwrap();
    let source = ring.source();
    for token in 0..50 {
        source.submit(token, recv(&socket, &pool));
    }
    drop(source);
    drop(ring);
    assert_eq!(Rc::strong_count(&socket), 1);
}

#[test]
fn cancelled_operations_complete_and_the_source_lives_on() {
    let ring = Ring::new(8).unwrap();
    let pool = BufPool::new();
    let (socket, mut peer) = pair();
    let source = ring.source();
    for token in 0..3 {
        source.submit(token, recv(&socket, &pool));
    }
    source.cancel_all();
    let ended = finish_all(&ring, &source);
    assert_eq!(ended.len(), 3);
    for done in ended {
        let error = done.result.unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ECANCELED));
        assert!(done.buf.is_some());
    }
    source.submit(9, recv(&socket, &pool));
    peer.write_all(b"hello").unwrap();
    assert_eq!(finish(&ring, &source).result.unwrap(), 5);
}

#[test]
fn a_turn_with_nothing_to_do_ends_in_time() {
    let ring = Ring::new(8).unwrap();
    let before = ring.now();
    ring.submit_and_wait(Some(Duration::from_millis(5)))
        .unwrap();
    assert!(ring.now().since(before) >= Duration::from_millis(4));
}

#[test]
fn a_turn_does_not_wait_while_completions_are_untaken() {
    let ring = Ring::new(8).unwrap();
    let pool = BufPool::new();
    let (socket, mut peer) = pair();
    let source = ring.source();
    source.submit(1, recv(&socket, &pool));
    peer.write_all(b"x").unwrap();
    ring.submit_and_wait(None).unwrap();
    // With no timeout this would hang if it waited.
    ring.submit_and_wait(None).unwrap();
    let mut ready = Vec::new();
    ring.take_ready(&mut ready);
    assert_eq!(ready, [source.id()]);
}
