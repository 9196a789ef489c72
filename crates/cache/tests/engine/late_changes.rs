//! A write that the origin has given up, and carries out after a flush that succeeded: that flush does not
//! vouch for it.

use crate::rig::{Rig, lazy, page};
use block_io::IoError;
use cache::{Command, WritePolicy};
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

/// The same disk under write-back, and its guest has read what has come meanwhile.
fn read_under_back() -> Rig {
    let mut rig = given_up();
    rig.power_cut_of_nothing();
    assert_eq!(rig.attach(WritePolicy::Back, lazy()), Ok(()));
    assert_eq!(rig.read(3), Ok(page(2)), "it has come meanwhile");
    rig
}

#[test]
fn a_flush_under_write_back_makes_durable_what_was_read_of_a_late_change() {
    let mut rig = read_under_back();
    assert_eq!(rig.durable_block(3), page(1));
    rig.flush();
    assert_eq!(rig.durable_block(3), page(2));
    rig.write(5, 9);
    rig.told.clear();
    rig.flush();
    assert!(rig.told.is_empty(), "the log is enough again");
}

#[test]
fn a_flush_under_write_back_fails_when_the_origin_cannot_be_flushed_of_a_late_change() {
    let mut rig = read_under_back();
    rig.flush_loses = true;
    let flush = rig.begin_flush();
    assert_eq!(rig.answer(flush), Some(Err(IoError::Failed)));
    assert_eq!(rig.read(3), Ok(page(1)));
}

#[test]
fn a_guest_is_told_when_a_destage_has_lost_what_was_read_of_a_late_change() {
    let mut rig = read_under_back();
    rig.write(5, 9);
    rig.flush_loses = true;
    rig.command(Command::Destage { disk: rig.disk });
    rig.pass(Duration::from_millis(200));
    rig.flush_loses = false;
    let flush = rig.begin_flush();
    assert_eq!(rig.answer(flush), Some(Err(IoError::Failed)));
    assert_eq!(rig.read(3), Ok(page(1)));
    rig.flush();
}
