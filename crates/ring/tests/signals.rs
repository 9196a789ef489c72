//! Signals that complete only if they fail.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use ring::{Op, Ring};
use rustix::event::{EventfdFlags, eventfd};
use std::os::fd::OwnedFd;
use std::rc::Rc;
use support::finish;
use units::Duration;

fn counter(start: u32, flags: EventfdFlags) -> Rc<OwnedFd> {
    Rc::new(eventfd(start, EventfdFlags::CLOEXEC | flags).unwrap())
}

fn count(eventfd: &OwnedFd) -> u64 {
    let mut bytes = [0; 8];
    rustix::io::read(eventfd, &mut bytes).unwrap();
    u64::from_le_bytes(bytes)
}

#[test]
fn a_signal_arrives_and_does_not_end_the_wait() {
    let ring = Ring::sleeping(8).unwrap();
    let source = ring.source();
    let fd = counter(0, EventfdFlags::NONBLOCK);
    assert!(source.signal(7, &fd) && source.signal(7, &fd));
    ring.submit_and_wait(Some(Duration::from_millis(1)))
        .unwrap();
    let mut ready = Vec::new();
    ring.take_ready(&mut ready);
    assert_eq!((count(&fd), ready.len(), source.in_flight()), (2, 0, 0));
}

#[test]
fn a_signal_is_sent_before_its_turn_if_asked() {
    let ring = Ring::new(8).unwrap();
    let source = ring.source();
    let fd = counter(0, EventfdFlags::NONBLOCK);
    assert!(source.signal(7, &fd));
    source.send_signals();
    assert_eq!(count(&fd), 1);
    let enters = ring.enters();
    source.send_signals();
    assert_eq!(ring.enters(), enters, "there was none to send");
}

#[test]
fn a_signal_that_would_wait_fails_at_once() {
    let ring = Ring::new(8).unwrap();
    let source = ring.source();
    let blocking = counter(0, EventfdFlags::empty());
    let full = counter(0, EventfdFlags::NONBLOCK);
    rustix::io::write(&full, &(u64::MAX - 1).to_le_bytes()).unwrap();
    for (token, fd) in [(3, &blocking), (4, &full)] {
        assert!(source.signal(token, fd));
        let failed = finish(&ring, &source);
        let error = failed.result.unwrap_err();
        assert_eq!(
            (failed.token, error.kind()),
            (u64::from(token), std::io::ErrorKind::WouldBlock)
        );
    }
}

#[test]
fn the_failure_of_a_source_that_is_gone_is_told_to_nobody() {
    let ring = Ring::new(8).unwrap();
    let gone = ring.source();
    assert!(gone.signal(3, &counter(0, EventfdFlags::empty())));
    let id = gone.id();
    drop(gone);
    let next = ring.source();
    assert_eq!(next.id(), id, "the desk is used again");
    next.submit(9, Op::Nop);
    assert_eq!(finish(&ring, &next).token, 9);
    assert!(next.pop().is_none());
}
