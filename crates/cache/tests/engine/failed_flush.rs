//! A flush of the origin that fails has lost what was written since the last one that succeeded:
//! nothing of that stays in the cache, and the guest is told.

use crate::rig::{Rig, lazy, page};
use block_io::IoError;
use cache::{Command, ControlError, ControlOutcome, Verb, WriteBack, WritePolicy};
use units::{BLOCK_BYTES, Bytes, Duration, Offset};

/// A disk of which block 3 is cached, and was written after the origin was flushed.
fn written() -> Rig {
    let mut rig = Rig::through();
    rig.fill_origin(3, 1);
    assert_eq!(rig.read(3), Ok(page(1)));
    rig.pass(Duration::from_secs(1));
    rig.write(3, 2);
    rig
}

/// How a guest's flush is answered.
fn flush(rig: &mut Rig) -> Result<(), IoError> {
    let flush = rig.begin_flush();
    rig.answer(flush).expect("a flush is answered")
}

#[test]
fn a_copy_of_what_the_origin_has_lost_is_not_read() {
    let mut rig = written();
    rig.flush_loses = true;
    assert_eq!(flush(&mut rig), Err(IoError::Failed));
    assert_eq!(rig.origin_block(3), page(1));
    assert_eq!(rig.read(3), Ok(page(1)));
    rig.cache_mut().self_check();
}

#[test]
fn a_copy_of_what_the_origin_has_lost_is_not_trusted_after_the_next_flush() {
    let mut rig = written();
    rig.flush_loses = true;
    assert_eq!(flush(&mut rig), Err(IoError::Failed));
    rig.flush_loses = false;
    assert_eq!(flush(&mut rig), Ok(()));
    rig.pass(Duration::from_secs(1));
    rig.power_cut_of_nothing();
    rig.attach(WritePolicy::Through, WriteBack::default())
        .unwrap();
    assert_eq!(rig.read(3), Ok(page(1)));
}

#[test]
fn what_is_durable_at_the_origin_stays_cached() {
    let mut rig = written();
    assert_eq!(flush(&mut rig), Ok(()));
    rig.write(4, 5);
    rig.flush_loses = true;
    assert_eq!(flush(&mut rig), Err(IoError::Failed));
    rig.told.clear();
    assert_eq!(rig.read(3), Ok(page(2)));
    assert!(rig.told.is_empty(), "it is in the cache");
}

#[test]
fn a_fill_on_its_way_while_a_flush_fails_stays_out() {
    let mut rig = written();
    rig.fill_origin(9, 1);
    rig.write(9, 2);
    rig.hold_reads = true;
    let read = rig.begin_read(9);
    rig.flush_loses = true;
    let failed = rig.begin_flush();
    assert_eq!(rig.answer(failed), Some(Err(IoError::Failed)));
    rig.flush_loses = false;
    rig.free();
    assert!(rig.bytes(read).is_some());
    rig.told.clear();
    rig.read(9).unwrap();
    assert!(!rig.told.is_empty(), "the origin is asked");
}

#[test]
fn a_write_on_its_way_while_a_flush_fails_leaves_no_copy() {
    let mut rig = written();
    rig.hold_writes = true;
    let write = rig.begin_write(3, 7);
    rig.flush_loses = true;
    assert_eq!(flush(&mut rig), Err(IoError::Failed));
    rig.flush_loses = false;
    rig.free();
    assert_eq!(rig.answer(write), Some(Ok(())));
    rig.told.clear();
    assert_eq!(rig.read(3), Ok(page(7)));
    assert!(!rig.told.is_empty(), "the origin is asked");
}

#[test]
fn a_guest_is_told_of_a_failed_flush_that_the_cache_had_asked_for() {
    let mut rig = written();
    rig.flush_loses = true;
    // The copy has rested: the cache flushes on its own.
    rig.pass(Duration::from_secs(1));
    assert_eq!(rig.origin_block(3), page(1));
    rig.flush_loses = false;
    assert_eq!(rig.read(3), Ok(page(1)));
    assert_eq!(flush(&mut rig), Err(IoError::Failed));
    assert_eq!(flush(&mut rig), Ok(()));
}

#[test]
fn a_guest_is_told_of_a_failed_flush_that_an_operator_had_asked_for() {
    let mut rig = written();
    rig.flush_loses = true;
    let demand = rig.command(Command::Destage { disk: rig.disk });
    assert!(matches!(rig.outcome(demand), Some(Err(_))));
    rig.flush_loses = false;
    assert_eq!(flush(&mut rig), Err(IoError::Failed));
    assert_eq!(flush(&mut rig), Ok(()));
}

#[test]
fn a_guest_is_told_of_a_flush_that_failed_as_its_disk_came_under_write_back() {
    let mut rig = written();
    rig.flush_loses = true;
    let switch = rig.command(Command::SetPolicy {
        disk: rig.disk,
        policy: WritePolicy::Back,
    });
    rig.flush_loses = false;
    rig.pass(Duration::from_secs(5));
    assert_eq!(rig.outcome(switch), Some(Ok(ControlOutcome::Done)));
    assert_eq!(rig.read(3), Ok(page(1)));
    assert_eq!(flush(&mut rig), Err(IoError::Failed));
    assert_eq!(flush(&mut rig), Ok(()));
}

#[test]
fn a_flush_that_was_asked_for_before_another_one_failed_says_nothing() {
    let mut rig = written();
    rig.hold_flush = true;
    let demand = rig.command(Command::Destage { disk: rig.disk });
    let first = rig.begin_flush();
    let last = rig.begin_flush();
    rig.fail_held_flush(2);
    assert_eq!(rig.answer(last), Some(Err(IoError::Failed)));
    assert_eq!(rig.origin_block(3), page(1));
    rig.free();
    assert_eq!(rig.answer(first), Some(Err(IoError::Failed)));
    let error = ControlError::Origin(IoError::Failed);
    assert_eq!(rig.outcome(demand), Some(Err(error)));
    assert_eq!(flush(&mut rig), Ok(()));
}

#[test]
fn what_a_log_has_brought_is_brought_again_if_a_flush_fails_meanwhile() {
    for is_written in [false, true] {
        let mut rig = Rig::new(lazy());
        rig.hold_flush = true;
        let destage = Command::Destage { disk: rig.disk };
        let flush = rig.command(destage.clone());
        // One alone would be written durably.
        rig.write(7, 7);
        rig.write(20, 7);
        rig.hold_writes = !is_written;
        let demand = rig.command(destage);
        assert_eq!(rig.origin_block(7)[0] == 7, is_written);
        rig.fail_held_flush(0);
        let error = ControlError::Origin(IoError::Failed);
        assert_eq!(rig.outcome(flush), Some(Err(error)));
        rig.free();
        rig.pass(Duration::from_secs(5));
        assert_eq!(
            rig.outcome(demand),
            Some(Err(error)),
            "it has to be asked for again"
        );
        rig.destage();
        assert_eq!([7, 20].map(|block| rig.durable_block(block)[0]), [7, 7]);
    }
}

/// A disk under write-back, whose guest has not been told yet of a flush that failed as it came there.
fn entered_by_a_failed_flush() -> Rig {
    let mut rig = written();
    rig.flush_loses = true;
    rig.command(Command::SetPolicy {
        disk: rig.disk,
        policy: WritePolicy::Back,
    });
    rig.flush_loses = false;
    rig.pass(Duration::from_secs(5));
    rig
}

/// A write that is to be durable when it is answered.
fn begin_durable_write(rig: &mut Rig, block: u64) -> u64 {
    rig.ask(Verb::WriteZeroes {
        offset: Offset::new(block * BLOCK_BYTES),
        length: Bytes::new(BLOCK_BYTES),
        may_unmap: false,
        fua: true,
    })
}

#[test]
fn a_durable_write_that_flash_fails_under_is_not_told_of_a_failed_flush() {
    let mut rig = entered_by_a_failed_flush();
    rig.flash_write_error = true;
    let write = begin_durable_write(&mut rig, 5);
    rig.pass(Duration::from_secs(5));
    assert_eq!(rig.answer(write), Some(Ok(())), "the origin has it");
    assert_eq!(flush(&mut rig), Err(IoError::Failed));
    assert_eq!(flush(&mut rig), Ok(()));
}

#[test]
fn a_guest_is_told_of_a_flush_that_failed_for_its_durable_write() {
    let mut rig = Rig::new(WriteBack::default());
    rig.hold_closing = true;
    rig.flash_write_error = true;
    let write = begin_durable_write(&mut rig, 5);
    rig.pass(Duration::from_secs(5));
    assert_eq!(
        rig.answer(write),
        None,
        "it waits until the record is closed"
    );
    rig.flush_loses = true;
    rig.hold_closing = false;
    rig.answer_closing();
    assert_eq!(rig.answer(write), Some(Err(IoError::Failed)));
    rig.flush_loses = false;
    assert_eq!(flush(&mut rig), Err(IoError::Failed));
    assert_eq!(flush(&mut rig), Ok(()));
}

#[test]
fn more_copies_than_may_rest_leave_the_cache_too() {
    let mut rig = Rig::through();
    // 1024 may rest.
    let blocks = 0..1500;
    for block in blocks.clone() {
        rig.fill_origin(block, 1);
        rig.read(block).unwrap();
    }
    rig.pass(Duration::from_secs(1));
    rig.hold_flush = true;
    for block in blocks.clone() {
        rig.write(block, 2);
    }
    rig.flush_loses = true;
    rig.free();
    assert_eq!(rig.origin_block(0), page(1));
    for block in blocks {
        assert_eq!(
            rig.read(block),
            Ok(rig.origin_block(block)),
            "block {block}"
        );
    }
}
