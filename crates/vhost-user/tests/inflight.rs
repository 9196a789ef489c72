//! Whoever serves a disk after a crash takes up what was in flight, each request once.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use frontend::Verb;
use std::os::fd::{AsFd, OwnedFd};
use support::driver::{READ, Style};
use support::{DATA, Rig, disk};
use units::Offset;
use vhost_protocol::{Features, Request};

const PLAIN: Style = Style {
    indirect: true,
    by_index: true,
};

/// What QEMU keeps for the device.
struct Kept {
    file: OwnedFd,
    bytes: u64,
}

fn get(rig: &mut Rig) -> Kept {
    let request = Request::GetInflight {
        queues: 2,
        size: 64,
    };
    let reply = rig.ask(&request, &[]);
    let bytes = u64::from_le_bytes(reply.payload[..8].try_into().unwrap());
    let file = reply.file.unwrap();
    Kept { file, bytes }
}

fn set(rig: &mut Rig, kept: &Kept) {
    let request = Request::SetInflight {
        bytes: kept.bytes,
        offset: 0,
        queues: 2,
        size: 64,
    };
    assert_eq!(rig.acknowledged(&request, &[kept.file.as_fd()]), 0);
}

fn again(rig: &mut Rig, kept: &Kept) {
    rig.reconnect();
    rig.negotiate(Features::LOG_ALL);
    rig.give_memory();
    set(rig, kept);
}

fn sectors(rig: &mut Rig, count: usize) -> Vec<u64> {
    let asked = rig.take(count);
    let sector = |one: frontend::Incoming| match one.verb {
        Verb::Read { offset, .. } => offset.get() / 512,
        other => panic!("{other:?}"),
    };
    asked.into_iter().map(sector).collect()
}

#[test]
fn what_was_in_flight_is_taken_up_in_its_order_and_nothing_else() {
    let mut rig = Rig::negotiated(&disk(), Features::LOG_ALL);
    let kept = get(&mut rig);
    set(&mut rig, &kept);
    let mut queue = rig.start_queue(0, PLAIN);
    for at in 0..6 {
        queue.request(READ, at, &[(DATA + 512 * at, 512)]);
    }
    queue.kick();
    let asked = rig.take(6);
    // Answered out of order, one turn each and two in one.
    rig.give(asked[3].key, &[3; 512]);
    rig.turn();
    rig.give(asked[5].key, &[5; 512]);
    rig.give(asked[0].key, &[0; 512]);
    rig.turn();

    for _ in 0..2 {
        // Killed and started; what QEMU says of the ring is only how far it was answered.
        again(&mut rig, &kept);
        rig.start(&queue, 0, 3, false);
        assert_eq!(sectors(&mut rig, 3), [1, 2, 4]);
    }
    assert_eq!(rig.connection().counters().resumed, 3);
    // One more request than before: it comes behind.
    again(&mut rig, &kept);
    rig.start(&queue, 0, 3, false);
    let mut asked = rig.take(3);
    queue.request(READ, 9, &[(DATA, 512)]);
    queue.kick();
    asked.extend(rig.take(1));
    for one in asked {
        rig.give(one.key, &[8; 512]);
    }
    // The driver panics at a head that is answered twice.
    for _ in 0..7 {
        rig.answer(&mut queue);
    }
    again(&mut rig, &kept);
    rig.start(&queue, 0, 7, false);
    rig.turn();
    assert!(rig.taken.is_empty());
}

#[test]
fn a_batch_that_was_published_and_not_forgotten_is_not_done_again() {
    let mut rig = Rig::negotiated(&disk(), Features::LOG_ALL);
    let kept = get(&mut rig);
    set(&mut rig, &kept);
    let mut queue = rig.start_queue(0, PLAIN);
    let heads: Vec<u16> = (0..4)
        .map(|at| queue.request(READ, at, &[(DATA, 512)]))
        .collect();
    queue.kick();
    let asked = rig.take(4);
    rig.give(asked[1].key, &[0; 512]);
    rig.give(asked[3].key, &[0; 512]);
    rig.turn();
    // Killed right after the guest could see them: what follows in the region did not happen.
    let file = std::fs::File::from(kept.file.try_clone().unwrap());
    for head in [heads[1], heads[3]] {
        let at = 16 + 16 * u64::from(head);
        std::os::unix::fs::FileExt::write_all_at(&file, &[1, 0], at).unwrap();
    }
    std::os::unix::fs::FileExt::write_all_at(&file, &[0, 0], 14).unwrap();
    again(&mut rig, &kept);
    rig.start(&queue, 0, 2, false);
    assert_eq!(sectors(&mut rig, 2), [0, 2]);
}

#[test]
fn an_answer_that_the_guest_was_not_told_of_is_told() {
    let mut rig = Rig::negotiated(&disk(), Features::LOG_ALL);
    let kept = get(&mut rig);
    set(&mut rig, &kept);
    let queue = rig.start_queue(0, PLAIN);
    rig.turn();
    queue.interrupts();
    again(&mut rig, &kept);
    rig.start(&queue, 0, 0, false);
    rig.turn();
    assert!(queue.interrupts() > 0);
}

#[test]
fn each_queue_has_its_own_part() {
    let mut rig = Rig::negotiated(&disk(), Features::LOG_ALL);
    let kept = get(&mut rig);
    set(&mut rig, &kept);
    let mut queues = [rig.start_queue(0, PLAIN), rig.start_queue(1, PLAIN)];
    for (at, queue) in queues.iter_mut().enumerate() {
        queue.request(READ, 10 + at as u64, &[(DATA, 512)]);
        queue.kick();
    }
    rig.take(2);
    again(&mut rig, &kept);
    rig.start(&queues[1], 1, 0, false);
    assert_eq!(sectors(&mut rig, 1), [11]);
    rig.start(&queues[0], 0, 0, false);
    assert_eq!(sectors(&mut rig, 1), [10]);
}

#[test]
fn a_queue_beyond_the_region_is_not_started() {
    let mut rig = Rig::negotiated(&disk(), Features::LOG_ALL);
    let kept = get(&mut rig);
    set(&mut rig, &kept);
    let queue = support::driver::Queue::new(&rig.ram, 0, 64, PLAIN);
    let refused = support::front::start_messages(&queue, 2, 0, false);
    let answers: Vec<u64> = refused
        .into_iter()
        .map(|(request, file)| {
            let files: Vec<_> = file.iter().map(AsFd::as_fd).collect();
            rig.acknowledged(&request, &files)
        })
        .collect();
    assert_eq!(answers, [0, 0, 0, 1, 0, 0]);
}

#[test]
fn what_somebody_else_wrote_into_the_region_harms_only_its_own_queue() {
    let mut rig = Rig::negotiated(&disk(), Features::LOG_ALL);
    let kept = get(&mut rig);
    set(&mut rig, &kept);
    let queue = rig.start_queue(0, PLAIN);
    rig.turn();
    // Every descriptor in flight, although none was ever offered: their chains are empty.
    let region = vec![0x01; usize::try_from(kept.bytes).unwrap()];
    let file = std::fs::File::from(kept.file.try_clone().unwrap());
    std::os::unix::fs::FileExt::write_all_at(&file, &region, 0).unwrap();
    let sane = [1, 0, 64, 0, 255, 255, 200, 3];
    std::os::unix::fs::FileExt::write_all_at(&file, &sane, 8).unwrap();
    again(&mut rig, &kept);
    rig.start(&queue, 0, 0, false);
    rig.turn();
    assert!(rig.taken.is_empty());
    assert_eq!(rig.connection().counters().broken, 1);
    assert!(!rig.is_finished());
}

#[test]
fn a_stopped_queue_goes_on_where_it_was_with_the_region() {
    let mut rig = Rig::negotiated(&disk(), Features::LOG_ALL);
    let kept = get(&mut rig);
    set(&mut rig, &kept);
    let mut queue = rig.start_queue(0, PLAIN);
    queue.request(READ, 0, &[(DATA, 512)]);
    queue.kick();
    let asked = rig.take(1).pop().unwrap();
    rig.give(asked.key, &[0; 512]);
    rig.answer(&mut queue);
    let base = rig.ask(&Request::GetRingBase { ring: 0 }, &[]);
    assert_eq!(base.payload[4..], [1, 0, 0, 0]);
    set(&mut rig, &kept);
    rig.start(&queue, 0, 1, false);
    queue.request(READ, 7, &[(DATA, 512)]);
    queue.kick();
    let asked = rig.take(1).pop().unwrap();
    let offset = Offset::new(7 * 512);
    assert!(matches!(asked.verb, Verb::Read { offset: at, .. } if at == offset));
}
