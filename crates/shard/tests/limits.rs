//! Limits of what the guests of a disk may ask: who waits for them, and who does not.
//!
//! With one request a second, a queue of [`MANY`] would take longer than a test has patience: whatever ends in
//! time did not wait for the limit.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use cache::OfDirty;
use shard::{Attached, DiskSpec, LimitHandle, ShardHandle};
use std::num::NonZeroU64;
use support::{Guest, Lab, ask, connect, status, stop, until};
use throttle::Limits;
use units::DiskId;

const MANY: usize = 300;

fn one_a_second() -> Limits {
    Limits {
        operations: NonZeroU64::new(1),
        ..Limits::default()
    }
}

fn attach(lab: &Lab, shard: &ShardHandle, spec: DiskSpec) -> Guest {
    let opened = origin::open(&lab.origin(), false).unwrap();
    let id = spec.id;
    let _: Attached = ask(|reply| shard.attach(spec, opened, reply)).unwrap();
    connect(shard, id).unwrap()
}

/// A disk with a limit, and a guest that has asked more than it may.
fn throttled(lab: &Lab) -> (ShardHandle, Guest) {
    let shard = lab.spawn();
    let limits = one_a_second();
    let spec = DiskSpec {
        limits,
        ..lab.spec()
    };
    let mut guest = attach(lab, &shard, spec);
    for _ in 0..MANY {
        guest.send_read(0, 512);
    }
    let told = until(&shard, |status| {
        status.disks[0].throttled.waiting > MANY / 2
    });
    assert_eq!(told.disks[0].limits, limits);
    (shard, guest)
}

fn receive_all(guest: &mut Guest, count: usize) {
    for _ in 0..count {
        let (_, errno) = guest.receive().unwrap();
        assert_eq!(errno, 0);
        guest.receive_data(512);
    }
}

#[test]
fn requests_wait_until_the_limit_is_taken_away() {
    let lab = Lab::new();
    let (shard, mut guest) = throttled(&lab);
    ask(|reply| LimitHandle::of(&shard).set(lab.spec().id, Limits::default(), reply)).unwrap();
    receive_all(&mut guest, MANY);
    let throttled = status(&shard).disks[0].throttled;
    assert_eq!(throttled.waiting, 0);
    assert!(throttled.requests > MANY as u64 / 2, "{throttled:?}");
    assert!(throttled.time > units::Duration::ZERO);
    stop(shard);
}

#[test]
fn a_flush_and_another_disk_do_not_wait() {
    let lab = Lab::new();
    let (shard, limited) = throttled(&lab);
    let mut flushing = connect(&shard, lab.spec().id).unwrap();
    assert_eq!(flushing.flush(), 0);
    let other = Lab::new();
    let spec = DiskSpec {
        id: DiskId::from_u128(2),
        name: "vm2".to_owned(),
        tenant: "vm2".to_owned(),
        owner: other.owner(),
        owned_by: None,
        ..lab.spec()
    };
    let mut unlimited = attach(&other, &shard, spec);
    for _ in 0..MANY {
        unlimited.read(0, 512);
    }
    assert!(status(&shard).disks[0].throttled.waiting > 0);
    drop((limited, flushing, unlimited));
    stop(shard);
}

#[test]
fn a_limit_that_is_set_while_the_disk_is_served_holds() {
    let lab = Lab::new();
    let shard = lab.spawn();
    let (_, mut guest) = lab.attach(&shard);
    guest.read(0, 512);
    ask(|reply| LimitHandle::of(&shard).set(lab.spec().id, one_a_second(), reply)).unwrap();
    guest.send_read(0, 512);
    guest.send_read(0, 512);
    until(&shard, |status| status.disks[0].throttled.requests == 1);
    stop(shard);
}

#[test]
fn a_disk_that_is_detached_waits_for_no_limit() {
    let lab = Lab::new();
    let (shard, mut guest) = throttled(&lab);
    ask(|reply| shard.detach(lab.spec().id, OfDirty::Keep, reply)).unwrap();
    receive_all(&mut guest, MANY);
    assert!(guest.receive().is_err(), "the connection is closed");
    stop(shard);
}

#[test]
fn what_waits_of_a_client_that_has_gone_is_not_carried_out() {
    let lab = Lab::new();
    let (shard, guest) = throttled(&lab);
    drop(guest);
    let told = until(&shard, |status| status.disks[0].connections == 0);
    assert_eq!(told.disks[0].throttled.waiting, 0);
    assert!(told.disks[0].stats.read_requests < MANY as u64 / 2);
    stop(shard);
}
