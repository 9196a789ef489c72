//! A write that the origin has given up, and carries out after a flush that succeeded: that flush does not
//! vouch for it.

mod rig;

use block_io::IoError;
use rig::{Rig, page};
use units::Duration;

/// A disk of which block 3 is cached, and a write to it was given up that is not over.
fn given_up() -> Rig {
    let mut rig = Rig::through();
    rig.fill_origin(3, 1);
    assert_eq!(rig.read(3), Ok(page(1)));
    rig.pass(Duration::from_secs(1));
    rig.gives_up = true;
    let write = rig.begin_write(3, 2);
    rig.pass(Duration::from_secs(1));
    assert_eq!(rig.answer(write), Some(Err(IoError::TimedOut)));
    rig.gives_up = false;
    rig
}

/// The origin's next flush does not end, and what has rested is trusted if it may be.
fn rest_without_flush(rig: &mut Rig) {
    rig.hold_flush = true;
    rig.pass(Duration::from_secs(1));
}

#[test]
fn an_earlier_flush_does_not_vouch_for_what_comes_late() {
    let mut rig = given_up();
    rig.flush();
    assert_eq!(rig.read(3), Ok(page(2)), "it has come meanwhile");
    rest_without_flush(&mut rig);
    rig.cut_power_of_origin();
    assert_eq!(rig.origin_block(3), page(1));
    assert_eq!(rig.read(3), Ok(page(1)));
}

#[test]
fn what_has_come_late_is_warm_after_a_flush() {
    let mut rig = given_up();
    rig.flush();
    assert_eq!(rig.read(3), Ok(page(2)));
    // The cache flushes on its own.
    rig.pass(Duration::from_secs(1));
    assert_eq!(rig.durable_block(3), page(2));
    rig.cut_power_of_origin();
    rig.told.clear();
    assert_eq!(rig.read(3), Ok(page(2)));
    assert!(rig.told.is_empty(), "it is in the cache");
}

#[test]
fn what_has_come_late_leaves_the_cache_when_the_next_flush_fails() {
    let mut rig = given_up();
    rig.flush();
    assert_eq!(rig.read(3), Ok(page(2)));
    rig.flush_loses = true;
    let flush = rig.begin_flush();
    assert_eq!(rig.answer(flush), Some(Err(IoError::Failed)));
    assert_eq!(rig.origin_block(3), page(1));
    assert_eq!(rig.read(3), Ok(page(1)));
}

#[test]
fn a_flush_does_not_vouch_for_what_a_former_process_has_left_to_come() {
    let mut rig = given_up();
    rig.kill_through();
    rig.flush();
    assert_eq!(rig.read(3), Ok(page(2)), "it has come meanwhile");
    rest_without_flush(&mut rig);
    rig.cut_power_of_origin();
    assert_eq!(rig.read(3), Ok(page(1)));
}
