//! Sockets through the ring: gathering sends, receives into a part of a buffer, polls.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use block_io::BufPool;
use ring::{Op, Ring};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use support::finish;

fn pair() -> (Rc<OwnedFd>, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    (Rc::new(ours.into()), theirs)
}

#[test]
fn a_send_gathers_its_slices_in_order() {
    let ring = Ring::new(8).unwrap();
    let source = ring.source();
    let pool = BufPool::new();
    let (socket, mut peer) = pair();
    let slices = vec![
        pool.copy_of(b"one "),
        pool.copy_of(b"two "),
        pool.copy_of(b"three"),
    ];
    source.submit(1, Op::Send { socket, slices });
    let sent = finish(&ring, &source);
    assert_eq!(sent.result.unwrap(), 13);
    assert_eq!(sent.slices.len(), 3);
    let mut got = [0; 13];
    peer.read_exact(&mut got).unwrap();
    assert_eq!(&got, b"one two three");
}

#[test]
fn a_receive_fills_only_its_range() {
    let ring = Ring::new(8).unwrap();
    let source = ring.source();
    let pool = BufPool::new();
    let (socket, mut peer) = pair();
    peer.write_all(b"abcdef").unwrap();
    let buf = pool.take_zeroed(4096);
    source.submit(
        1,
        Op::Recv {
            socket,
            buf,
            start: 10,
            end: 14,
        },
    );
    let done = finish(&ring, &source);
    assert_eq!(done.result.unwrap(), 4);
    let buf = done.buf.unwrap();
    assert_eq!(&buf[9..15], b"\0abcd\0");
}

#[test]
fn the_end_of_a_stream_is_a_receive_of_nothing() {
    let ring = Ring::new(8).unwrap();
    let source = ring.source();
    let (socket, peer) = pair();
    let buf = BufPool::new().take(4096);
    source.submit(
        1,
        Op::Recv {
            socket,
            buf,
            start: 0,
            end: 4096,
        },
    );
    drop(peer);
    assert_eq!(finish(&ring, &source).result.unwrap(), 0);
}

#[test]
fn a_send_to_nobody_fails_without_a_signal() {
    let ring = Ring::new(8).unwrap();
    let source = ring.source();
    let (socket, peer) = pair();
    drop(peer);
    let slices = vec![BufPool::new().copy_of(b"x")];
    source.submit(1, Op::Send { socket, slices });
    let error = finish(&ring, &source).result.unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EPIPE));
}

#[test]
fn a_large_send_goes_out_while_the_peer_reads() {
    let ring = Ring::new(8).unwrap();
    let source = ring.source();
    let pool = BufPool::new();
    let (socket, mut peer) = pair();
    let slices: Vec<_> = (0..8).map(|n| pool.copy_of(&vec![n; 1 << 20])).collect();
    source.submit(1, Op::Send { socket, slices });
    let reader = std::thread::spawn(move || {
        let mut got = vec![0; 8 << 20];
        peer.read_exact(&mut got).unwrap();
        (0..8).all(|n| {
            got[n << 20..][..1 << 20]
                .iter()
                .all(|b| usize::from(*b) == n)
        })
    });
    assert_eq!(finish(&ring, &source).result.unwrap(), 8 << 20);
    assert!(reader.join().unwrap());
}

#[test]
fn polls_tell_when_a_socket_can_be_read_and_written() {
    let ring = Ring::new(8).unwrap();
    let source = ring.source();
    let (socket, mut peer) = pair();
    source.submit(
        1,
        Op::PollOut {
            fd: Rc::clone(&socket),
        },
    );
    assert_eq!(finish(&ring, &source).token, 1);
    source.submit(2, Op::PollIn { fd: socket });
    ring.submit_and_wait(Some(units::Duration::ZERO)).unwrap();
    assert!(source.pop().is_none(), "nothing to read yet");
    peer.write_all(b"x").unwrap();
    assert_eq!(finish(&ring, &source).token, 2);
}

#[test]
fn a_poll_that_goes_on_tells_of_each_signal_until_it_is_cancelled() {
    let ring = Ring::new(8).unwrap();
    let source = ring.source();
    let eventfd = rustix::event::eventfd(0, rustix::event::EventfdFlags::NONBLOCK).unwrap();
    let fd = Rc::new(eventfd);
    source.submit(1, Op::PollEach { fd: Rc::clone(&fd) });
    for _ in 0..3 {
        rustix::io::write(&fd, &1_u64.to_le_bytes()).unwrap();
        let told = finish(&ring, &source);
        assert!(told.goes_on);
        assert_eq!(told.result.unwrap(), libc::POLLIN as usize);
        assert_eq!(source.in_flight(), 1);
        ring.submit_and_wait(Some(units::Duration::ZERO)).unwrap();
        assert!(source.pop().is_none(), "a counter that stands is no news");
    }
    source.cancel(1);
    let ended = finish(&ring, &source);
    assert!(!ended.goes_on);
    let error = ended.result.unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::ECANCELED));
    assert_eq!((source.in_flight(), Rc::strong_count(&fd)), (0, 1));
}

/// What a poll for a hang-up says when this was done with the other end.
fn hang_up(what: impl FnOnce(UnixStream) -> Option<UnixStream>) -> i16 {
    let ring = Ring::new(8).unwrap();
    let source = ring.source();
    let (socket, mut peer) = pair();
    source.submit(1, Op::PollHangUp { fd: socket });
    peer.write_all(b"unread").unwrap();
    // Bytes are none.
    source.submit(2, Op::Nop);
    assert_eq!(finish(&ring, &source).token, 2);
    let kept = what(peer);
    let done = finish(&ring, &source);
    assert_eq!(done.token, 1);
    drop(kept);
    i16::try_from(done.result.unwrap()).unwrap()
}

#[test]
fn a_hang_up_is_told_from_the_end_of_what_is_sent() {
    let mask = hang_up(|peer| {
        drop(peer);
        None
    });
    assert_ne!(mask & libc::POLLHUP, 0);
    let mask = hang_up(|peer| {
        peer.shutdown(std::net::Shutdown::Write).unwrap();
        Some(peer)
    });
    assert_eq!(mask & libc::POLLHUP, 0);
    assert_ne!(mask & libc::POLLRDHUP, 0);
}
