//! A guest's requests wait a little for who is to have soon what it writes, since its disk is about to move.

use crate::rig::{Rig, lazy, page};
use cache::{Command, Follower, OfDirty, WritePolicy};
use units::Duration;

/// How long a request waits at most.
const LONGEST: Duration = Duration::from_millis(200);
/// A little less, and a little more.
const NOT_LONGEST: Duration = Duration::from_millis(180);
const TOO_LONG: Duration = Duration::from_millis(220);
const LITTLE: Duration = Duration::from_millis(20);
/// One block more than a follower may lack.
const TOO_MANY: u64 = 257;

fn named(rig: &mut Rig, follower: Follower) {
    let disk = rig.disk;
    rig.command(Command::Follow { disk, follower });
    rig.drive();
}

/// A host follows, and has everything.
fn followed_by_host() -> Rig {
    let mut rig = Rig::new(lazy());
    named(&mut rig, Follower::Host);
    rig.begin_records(0, Some(0));
    assert!(rig.records_came().is_none(), "there is nothing to tell");
    rig
}

/// The origin follows, and has everything.
fn followed_by_origin() -> Rig {
    let mut rig = Rig::new(lazy());
    named(&mut rig, Follower::Origin);
    rig
}

fn is_answered(rig: &Rig, id: u64) -> bool {
    rig.answer(id).is_some()
}

#[test]
fn a_flush_is_answered_when_the_host_that_follows_has_what_it_covers() {
    let mut rig = followed_by_host();
    rig.write(3, 1);
    rig.pass(LITTLE);
    assert!(rig.records_came().is_none(), "nobody waits for it yet");
    let flush = rig.begin_flush();
    rig.drive();
    let came = rig.records_came().unwrap().unwrap();
    assert_eq!((came.first, came.records.len(), came.end), (0, 1, 1));
    rig.pass(LITTLE);
    assert!(!is_answered(&rig, flush));
    rig.begin_records(1, Some(0));
    rig.pass(Duration::from_millis(1));
    assert_eq!(rig.answer(flush), Some(Ok(())));
}

#[test]
fn a_question_that_finds_nothing_is_answered_in_time() {
    let mut rig = followed_by_host();
    rig.write(3, 1);
    rig.pass(LONGEST);
    let came = rig.records_came().unwrap().unwrap();
    assert_eq!((came.first, came.records.len()), (0, 1));
    rig.begin_records(1, Some(0));
    rig.pass(TOO_LONG);
    let came = rig.records_came().unwrap().unwrap();
    assert_eq!((came.first, came.records.len(), came.end), (1, 0, 1));
}

#[test]
fn a_flush_is_answered_when_the_origin_that_follows_has_what_it_covers() {
    let mut rig = followed_by_origin();
    rig.write(3, 1);
    rig.pass(LITTLE);
    assert!(!rig.status().distinct.is_zero(), "nobody waits for it yet");
    rig.hold_writes = true;
    let flush = rig.begin_flush();
    rig.pass(LITTLE);
    assert!(!is_answered(&rig, flush));
    rig.free();
    rig.pass(LITTLE);
    assert_eq!(rig.answer(flush), Some(Ok(())));
    assert_eq!(rig.durable_block(3), page(1));
}

#[test]
fn a_follower_that_is_too_slow_is_waited_for_again_when_it_has_caught_up() {
    let mut rig = followed_by_host();
    rig.write(3, 1);
    let flush = rig.begin_flush();
    rig.pass(NOT_LONGEST);
    assert!(!is_answered(&rig, flush));
    rig.pass(Duration::from_millis(40));
    assert_eq!(rig.answer(flush), Some(Ok(())));
    named(&mut rig, Follower::Host);
    rig.write(4, 1);
    let next = rig.begin_flush();
    rig.pass(LITTLE);
    assert_eq!(rig.answer(next), Some(Ok(())), "it is behind");
    rig.begin_records(2, Some(0));
    rig.write(5, 1);
    let last = rig.begin_flush();
    rig.pass(LITTLE);
    assert!(!is_answered(&rig, last), "it has caught up");
}

#[test]
fn a_follower_that_is_not_named_again_is_not_waited_for() {
    for follower in [Follower::Host, Follower::Origin] {
        let mut rig = Rig::new(lazy());
        named(&mut rig, follower);
        rig.pass(Duration::from_millis(900));
        rig.hold_writes = true;
        rig.write(3, 1);
        let flush = rig.begin_flush();
        rig.pass(LITTLE);
        assert!(!is_answered(&rig, flush), "{follower:?}");
        rig.pass(Duration::from_millis(100));
        assert_eq!(rig.answer(flush), Some(Ok(())), "{follower:?}");
    }
}

#[test]
fn writes_wait_for_a_follower_that_lacks_too_much() {
    for follower in [Follower::Host, Follower::Origin] {
        let mut rig = Rig::new(lazy());
        named(&mut rig, follower);
        rig.hold_writes = true;
        let writes: Vec<_> = (0..TOO_MANY).map(|at| rig.begin_write(at, 1)).collect();
        rig.drive();
        let waits = |rig: &Rig| writes.iter().filter(|id| !is_answered(rig, **id)).count();
        assert_eq!(waits(&rig), 1, "{follower:?}");
        rig.pass(NOT_LONGEST);
        assert_eq!(waits(&rig), 1, "{follower:?}");
        rig.pass(Duration::from_millis(40));
        assert_eq!(
            waits(&rig),
            0,
            "{follower:?}: it has waited for long enough"
        );
    }
}

#[test]
fn a_host_that_follows_gets_two_blocks_for_each_that_is_written() {
    let mut rig = Rig::new(lazy());
    for at in 0..2 * TOO_MANY {
        rig.write(at, 1);
    }
    named(&mut rig, Follower::Host);
    rig.begin_records(0, None);
    let came = rig.records_came().unwrap().unwrap();
    rig.begin_records(40, Some(came.base));
    let writes: Vec<_> = (0..50).map(|at| rig.begin_write(at, 2)).collect();
    rig.drive();
    let accepted = writes.iter().filter(|id| is_answered(&rig, **id)).count();
    assert_eq!(accepted, 20);
}

#[test]
fn a_question_that_waits_is_answered_when_the_disk_leaves_write_back_or_goes() {
    for leaves in [true, false] {
        let mut rig = followed_by_host();
        let disk = rig.disk;
        let command = if leaves {
            let policy = WritePolicy::Through;
            Command::SetPolicy { disk, policy }
        } else {
            let (fingerprint, dirty) = (None, OfDirty::Keep);
            Command::Detach {
                disk,
                fingerprint,
                dirty,
            }
        };
        rig.command(command);
        rig.drive();
        assert!(rig.records_came().is_some(), "the question is answered");
    }
}

#[test]
fn an_origin_that_refuses_what_it_gets_delays_nobody() {
    let mut rig = followed_by_origin();
    rig.origin_error = Some(block_io::IoError::Failed);
    rig.write(3, 1);
    let first = rig.begin_flush();
    rig.pass(TOO_LONG);
    assert_eq!(rig.answer(first), Some(Ok(())));
    named(&mut rig, Follower::Origin);
    for at in 0..2 * TOO_MANY {
        rig.write(at, 2);
    }
    let flush = rig.begin_flush();
    rig.pass(LITTLE);
    assert_eq!(rig.answer(flush), Some(Ok(())));
}
