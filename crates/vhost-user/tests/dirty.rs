//! During a live migration every page that the device writes is marked, and no other.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use rustix::event::{EventfdFlags, eventfd};
use std::collections::BTreeSet;
use std::os::fd::AsFd;
use std::sync::Arc;
use support::driver::{GET_ID, Queue, READ, Style, WRITE};
use support::front::addresses;
use support::ram::Ram;
use support::{DATA, RAM_BYTES, Rig, disk};
use vhost_protocol::{Features, Request};

const PLAIN: Style = Style {
    indirect: true,
    by_index: true,
};

/// A bit for each page of the guest's memory.
fn log() -> Ram {
    Ram::new(RAM_BYTES / 4096 / 8)
}

/// The pages marked since the last time.
fn pages(log: &Ram) -> BTreeSet<u64> {
    let bytes = log.bytes(0, log.len());
    log.write(0, &vec![0; log.len()]);
    let set = |page: &u64| bytes[usize::try_from(page / 8).unwrap()] & (1 << (page % 8)) != 0;
    (0..RAM_BYTES as u64 / 4096).filter(set).collect()
}

/// The pages that a write of the ring itself touches.
fn used_pages(queue: &Queue) -> BTreeSet<u64> {
    let end = queue.used + 6 + 8 * u64::from(queue.size);
    (queue.used / 4096..=(end - 1) / 4096).collect()
}

fn switch(rig: &mut Rig, queue: &Queue, log: &Ram, on: bool) {
    let offered = Features::from_bits(rig.ask(&Request::GetFeatures, &[]).number());
    if on {
        let file = log.file();
        let set = Request::SetLogBase {
            size: log.len() as u64,
            offset: 0,
        };
        assert_eq!(rig.ask(&set, &[file.as_fd()]).number(), 0);
        rig.tell(&Request::SetFeatures(offered), &[]);
    } else {
        rig.tell(
            &Request::SetFeatures(offered.without(Features::LOG_ALL)),
            &[],
        );
    }
    let same = Request::SetRingAddresses(addresses(queue, 0, on));
    assert_eq!(rig.acknowledged(&same, &[]), 0);
}

fn rig() -> (Rig, Queue) {
    let mut rig = Rig::negotiated(&disk(), Features::LOG_ALL);
    // Rings, headers and statuses end before the data begin.
    let queue = rig.start_queue(0, PLAIN);
    assert!(queue.end < DATA);
    (rig, queue)
}

/// The page of a request's status.
fn status_page(queue: &Queue, head: u16) -> u64 {
    (queue.end - u64::from(queue.size - head) * 32 + 16) / 4096
}

#[test]
fn every_page_that_is_written_is_marked_and_no_other() {
    let (mut rig, mut queue) = rig();
    let log = log();
    switch(&mut rig, &queue, &log, true);
    pages(&log);
    // Across a page's end, a page in the middle, and one byte short of the next.
    let data = [
        (DATA + 4000, 200),
        (DATA + 0x5000, 4096),
        (DATA + 0x9000, 824),
    ];
    let head = queue.request(READ, 0, &data);
    queue.kick();
    let asked = rig.take(1).pop().unwrap();
    rig.give(asked.key, &[1; 5120]);
    rig.answer(&mut queue);
    let first = DATA / 4096;
    let mut expected = BTreeSet::from([first, first + 1, first + 5, first + 9]);
    expected.insert(status_page(&queue, head));
    expected.extend(used_pages(&queue));
    assert_eq!(pages(&log), expected);

    // A write changes nothing but its status and the ring.
    let head = queue.request(WRITE, 0, &[(DATA, 4096)]);
    queue.kick();
    let asked = rig.take(1).pop().unwrap();
    assert!(rig.succeed(asked.key).is_none());
    rig.answer(&mut queue);
    let mut expected = used_pages(&queue);
    expected.insert(status_page(&queue, head));
    assert_eq!(pages(&log), expected);
}

#[test]
fn what_is_filled_in_place_or_told_at_once_is_marked_too() {
    let (mut rig, mut queue) = rig();
    let log = log();
    switch(&mut rig, &queue, &log, true);
    queue.request(READ, 0, &[(DATA, 4096)]);
    queue.request(GET_ID, 0, &[(DATA + 0x3000, 20)]);
    queue.kick();
    let asked = rig.take(1).pop().unwrap();
    rig.connection().reply_in_place(asked.key, Ok(()));
    for _ in 0..2 {
        rig.answer(&mut queue);
    }
    let marked = pages(&log);
    assert!(marked.contains(&(DATA / 4096)));
    assert!(marked.contains(&(DATA / 4096 + 3)));
}

#[test]
fn a_read_that_was_under_way_when_logging_began_is_marked() {
    let (mut rig, mut queue) = rig();
    let log = log();
    queue.request(READ, 0, &[(DATA, 4096)]);
    queue.kick();
    let asked = rig.take(1).pop().unwrap();
    switch(&mut rig, &queue, &log, true);
    rig.give(asked.key, &[1; 4096]);
    rig.answer(&mut queue);
    assert!(pages(&log).contains(&(DATA / 4096)));
}

#[test]
fn a_read_that_failed_half_way_is_marked() {
    let (mut rig, mut queue) = rig();
    let log = log();
    switch(&mut rig, &queue, &log, true);
    queue.request(READ, 0, &[(DATA, 4096)]);
    queue.kick();
    let asked = rig.take(1).pop().unwrap();
    let failed = Err(block_io::IoError::Failed);
    rig.connection().reply_in_place(asked.key, failed);
    rig.answer(&mut queue);
    assert!(pages(&log).contains(&(DATA / 4096)));
}

#[test]
fn nothing_is_marked_once_a_migration_was_cancelled() {
    let (mut rig, mut queue) = rig();
    let log = log();
    switch(&mut rig, &queue, &log, true);
    switch(&mut rig, &queue, &log, false);
    pages(&log);
    queue.request(READ, 0, &[(DATA, 4096)]);
    queue.kick();
    let asked = rig.take(1).pop().unwrap();
    rig.give(asked.key, &[1; 4096]);
    rig.answer(&mut queue);
    assert_eq!(pages(&log), BTreeSet::new());
    // And a second migration marks again.
    switch(&mut rig, &queue, &log, true);
    queue.request(READ, 0, &[(DATA, 4096)]);
    queue.kick();
    let asked = rig.take(1).pop().unwrap();
    rig.give(asked.key, &[1; 4096]);
    rig.answer(&mut queue);
    assert!(pages(&log).contains(&(DATA / 4096)));
}

#[test]
fn a_log_that_is_shorter_than_the_memory_is_not_left() {
    let (mut rig, mut queue) = rig();
    let short = Arc::new(Ram::new(8));
    switch(&mut rig, &queue, &short, true);
    let last = RAM_BYTES as u64 - 4096;
    queue.request(READ, 0, &[(last, 4096)]);
    queue.kick();
    let asked = rig.take(1).pop().unwrap();
    rig.give(asked.key, &[1; 4096]);
    rig.answer(&mut queue);
    assert!(!rig.is_finished());
}

#[test]
fn the_logs_own_descriptor_is_signalled() {
    let (mut rig, mut queue) = rig();
    let log = log();
    switch(&mut rig, &queue, &log, true);
    let signal = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap();
    let set = Request::SetLogDescriptor;
    assert_eq!(rig.acknowledged(&set, &[signal.as_fd()]), 0);
    queue.request(READ, 0, &[(DATA, 4096)]);
    queue.kick();
    let asked = rig.take(1).pop().unwrap();
    rig.give(asked.key, &[1; 4096]);
    rig.answer(&mut queue);
    let mut counter = [0; 8];
    rig.until("a signal", |_| {
        rustix::io::read(&signal, &mut counter).is_ok()
    });
}
