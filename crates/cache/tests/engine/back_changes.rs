//! A disk comes under write-back, leaves it, grows, is detached and attached again: what counts then.

use crate::rig::{Rig, lazy, page};
use block_io::{IoError, OriginVerb};
use cache::{Command, ControlError, ControlOutcome, OfDirty, OwnerRecord, WritePolicy};
use units::{Bytes, Duration};

#[test]
fn a_disk_comes_under_write_back_and_leaves_it() {
    let mut rig = Rig::through();
    rig.write(1, 1);
    assert_eq!(rig.origin_block(1), page(1));
    let to_back = rig.command(Command::SetPolicy {
        disk: rig.disk,
        policy: WritePolicy::Back,
    });
    assert_eq!(rig.outcome(to_back), Some(Ok(ControlOutcome::Done)));
    assert_eq!(rig.durable_block(1), page(1), "it was flushed first");
    let record = rig.record.unwrap();
    assert!(record.open && record.epoch == 1);
    rig.write(1, 2);
    assert_eq!(rig.origin_block(1), page(1));
    let away = rig.command(Command::SetPolicy {
        disk: rig.disk,
        policy: WritePolicy::Through,
    });
    assert_eq!(rig.outcome(away), Some(Ok(ControlOutcome::Done)));
    assert_eq!(rig.durable_block(1), page(2));
    assert!(!rig.record.unwrap().open);
    rig.write(1, 3);
    assert_eq!(rig.origin_block(1), page(3));
    assert_eq!(rig.read(1), Ok(page(3)));
}

/// A disk that is about to come under write-back, whose origin may lose what was written to block 1.
fn entering() -> Rig {
    let mut rig = Rig::through();
    rig.write(1, 1);
    rig.power_cut_of_nothing();
    rig.hold_flush = true;
    rig.attach(WritePolicy::Back, lazy()).unwrap();
    assert_eq!(rig.durable_block(1), page(0));
    rig
}

/// A guest's flush is answered when the origin has been flushed.
fn flush_waits_for_the_origin(mut rig: Rig) {
    rig.hold_flush = true;
    let flush = rig.begin_flush();
    assert_eq!(rig.answer(flush), None);
    rig.free();
    assert_eq!(rig.answer(flush), Some(Ok(())));
    assert_eq!(rig.durable_block(1), page(1));
}

#[test]
fn a_flush_covers_what_went_through_before_a_disk_that_is_to_leave_write_back_has_come_under_it() {
    let mut rig = entering();
    let (disk, policy) = (rig.disk, WritePolicy::Through);
    let away = rig.command(Command::SetPolicy { disk, policy });
    assert_eq!(rig.outcome(away), Some(Ok(ControlOutcome::Done)));
    flush_waits_for_the_origin(rig);
}

#[test]
fn a_flush_covers_what_went_through_while_a_disk_waits_to_leave_write_back() {
    let mut rig = entering();
    let (disk, policy) = (rig.disk, WritePolicy::Through);
    rig.hold_closing = true;
    let away = rig.command(Command::SetPolicy { disk, policy });
    assert_eq!(rig.outcome(away), None);
    flush_waits_for_the_origin(rig);
}

#[test]
fn a_disk_that_cannot_leave_write_back_before_it_has_come_under_it_comes_under_it() {
    let mut rig = entering();
    let (disk, policy) = (rig.disk, WritePolicy::Through);
    rig.own_error = true;
    let away = rig.command(Command::SetPolicy { disk, policy });
    assert_eq!(rig.outcome(away), Some(Err(ControlError::NotRecorded)));
    let write = rig.begin_write(2, 2);
    rig.pass(Duration::from_millis(10));
    assert_eq!(
        rig.answer(write),
        None,
        "the origin has to be flushed first"
    );
    rig.own_error = false;
    rig.free();
    rig.pass(Duration::from_secs(2));
    assert_eq!(rig.answer(write), Some(Ok(())));
    assert_eq!(rig.durable_block(1), page(1));
    assert_eq!(rig.origin_block(2), page(0), "it is in the log");
}

#[test]
fn a_disk_whose_closed_record_stands_although_it_failed_loses_nothing() {
    let away = |rig: &Rig| {
        let (disk, policy) = (rig.disk, WritePolicy::Through);
        Command::SetPolicy { disk, policy }
    };
    let detach = |rig: &Rig| {
        let (disk, dirty) = (rig.disk, OfDirty::Flush);
        Command::Detach {
            disk,
            fingerprint: None,
            dirty,
        }
    };
    for command in [&away as &dyn Fn(&Rig) -> Command, &detach] {
        let mut rig = Rig::new(lazy());
        rig.write(1, 1);
        (rig.own_error, rig.own_lands) = (true, true);
        let refused = rig.command(command(&rig));
        rig.pass(Duration::from_millis(200));
        assert_eq!(rig.outcome(refused), Some(Err(ControlError::NotRecorded)));
        assert!(!rig.record.unwrap().open, "it stands all the same");
        // Nothing is accepted before the record is open again.
        let write = rig.begin_write(1, 2);
        rig.pass(Duration::from_millis(500));
        assert_eq!(rig.answer(write), None);
        (rig.own_error, rig.own_lands) = (false, false);
        rig.pass(Duration::from_secs(2));
        assert_eq!(rig.answer(write), Some(Ok(())));
        rig.flush();
        rig.power_cut();
        assert_eq!(rig.read(1), Ok(page(2)));
    }
}

#[test]
fn what_left_write_back_does_not_need_its_log_any_more() {
    let mut rig = Rig::bare(Bytes::mib(4));
    rig.write_delay = Duration::from_secs(10);
    rig.power_cut_of_nothing();
    rig.attach(WritePolicy::Back, lazy()).unwrap();
    rig.write(1, 1);
    rig.destage();
    rig.pass(Duration::from_secs(20));
    rig.write(1, 2);
    rig.hold_writes = true;
    let away = rig.command(Command::SetPolicy {
        disk: rig.disk,
        policy: WritePolicy::Around,
    });
    rig.hold_flash = true;
    rig.hold_writes = false;
    rig.drive();
    assert_eq!(rig.durable_block(1), page(2));
    assert!(rig.record.unwrap().open, "the journal does not say so yet");
    rig.free();
    assert_eq!(rig.outcome(away), Some(Ok(ControlOutcome::Done)));
    assert!(!rig.record.unwrap().open);
    // The log would have told that the first copy is an older one.
    rig.damage(&page(2));
    rig.power_cut_of_nothing();
    rig.attach(WritePolicy::Around, lazy()).unwrap();
    assert_eq!(rig.read(1), Ok(page(2)));
}

#[test]
fn a_disk_grows_and_keeps_what_waits_and_what_is_cached() {
    let mut rig = Rig::bare(Bytes::mib(4));
    rig.size = Bytes::mib(1);
    rig.attach(WritePolicy::Back, lazy()).unwrap();
    rig.write(1, 1);
    rig.destage();
    rig.write(2, 2);
    let behind = rig.begin_write(256, 3);
    assert_eq!(rig.answer(behind), Some(Err(IoError::Invalid)));
    let grow = |rig: &mut Rig, size| {
        let disk = rig.disk;
        let asked = rig.command(Command::Grow { disk, size });
        rig.outcome(asked).expect("it does not wait for writes")
    };
    let longer = Bytes::kib(1500);
    assert_eq!(grow(&mut rig, longer), Ok(ControlOutcome::Done));
    assert_eq!(grow(&mut rig, longer), Ok(ControlOutcome::Done));
    rig.size = longer;
    for refused in [Bytes::mib(1), longer + Bytes::new(512)] {
        assert_eq!(grow(&mut rig, refused), Err(ControlError::OnlyGrows));
    }
    rig.write(256, 3);
    rig.power_cut_of_nothing();
    rig.attach(WritePolicy::Back, lazy()).unwrap();
    let is_read = |verb: &&OriginVerb| matches!(verb, OriginVerb::Read { .. });
    let reads = |rig: &Rig| rig.told.iter().filter(is_read).count();
    let before = reads(&rig);
    for (block, byte) in [(1, 1), (2, 2), (256, 3)] {
        assert_eq!(rig.read(block), Ok(page(byte)));
    }
    assert_eq!(reads(&rig), before);
    // It may have grown while nobody looked, and what waits is not cut off.
    rig.power_cut_of_nothing();
    rig.size = Bytes::mib(1);
    let shorter = rig.attach(WritePolicy::Back, lazy());
    assert_eq!(shorter, Err(ControlError::SizeChanged));
    rig.size = Bytes::mib(2);
    rig.attach(WritePolicy::Back, lazy()).unwrap();
    assert_eq!(rig.read(256), Ok(page(3)));
}

#[test]
fn nothing_comes_between_a_disk_and_its_record_that_is_being_closed() {
    let mut rig = Rig::new(lazy());
    rig.write(1, 1);
    rig.detach(OfDirty::Keep).unwrap();
    rig.hold_closing = true;
    // It leaves by itself. If another change failed meanwhile, writes would be accepted again.
    rig.attach(WritePolicy::Through, lazy()).unwrap();
    let policy = rig.command(Command::SetPolicy {
        disk: rig.disk,
        policy: WritePolicy::Around,
    });
    assert_eq!(rig.outcome(policy), Some(Err(ControlError::Busy)));
    assert_eq!(rig.detach(OfDirty::Flush), Err(ControlError::Busy));
    rig.answer_closing();
    assert!(!rig.record.unwrap().open);
    rig.write(1, 2);
    assert_eq!(rig.origin_block(1), page(2));
}

#[test]
fn write_back_waits_for_writes_on_their_way_through() {
    let mut rig = Rig::through();
    rig.hold_writes = true;
    let through = rig.begin_write(1, 1);
    let to_back = rig.command(Command::SetPolicy {
        disk: rig.disk,
        policy: WritePolicy::Back,
    });
    let back = rig.begin_write(1, 2);
    assert_eq!(rig.answer(back), None);
    assert_eq!(rig.outcome(to_back), None);
    rig.hold_writes = false;
    rig.drive();
    assert_eq!(rig.answer(through), Some(Ok(())));
    assert_eq!(rig.answer(back), Some(Ok(())));
    assert_eq!(rig.read(1), Ok(page(2)));
    assert_eq!(rig.durable_block(1), page(1));
}

#[test]
fn a_detach_is_refused_while_the_origin_lacks_something() {
    let mut rig = Rig::new(lazy());
    rig.write(1, 1);
    let refused = rig.detach(OfDirty::Refuse);
    assert!(matches!(refused, Err(ControlError::Dirty { .. })));
    assert_eq!(rig.detach(OfDirty::Flush), Ok(()));
    assert_eq!(rig.durable_block(1), page(1));
    assert!(!rig.record.unwrap().open);
}

#[test]
fn what_is_kept_at_a_detach_is_there_at_the_next_attach() {
    let mut rig = Rig::new(lazy());
    rig.write(1, 1);
    assert_eq!(rig.detach(OfDirty::Keep), Ok(()));
    let record = rig.record.unwrap();
    assert!(record.open);
    rig.attach(WritePolicy::Back, lazy()).unwrap();
    assert_eq!(rig.read(1), Ok(page(1)));
    assert_eq!(rig.record.unwrap().epoch, record.epoch + 1);
    rig.detach(OfDirty::Keep).unwrap();
    rig.stop();
    rig.power_cut_of_nothing();
    rig.attach(WritePolicy::Through, lazy()).unwrap();
    assert_eq!(rig.read(1), Ok(page(1)));
    rig.pass(Duration::from_secs(1));
    assert_eq!(rig.durable_block(1), page(1));
    assert!(!rig.record.unwrap().open);
}

#[test]
fn what_is_dropped_at_a_detach_is_gone() {
    let mut rig = Rig::new(lazy());
    rig.write(1, 1);
    rig.flush();
    assert_eq!(rig.detach(OfDirty::Drop), Ok(()));
    assert!(!rig.record.unwrap().open);
    rig.attach(WritePolicy::Back, lazy()).unwrap();
    assert_eq!(rig.read(1), Ok(page(0)));
    rig.power_cut();
    assert_eq!(rig.read(1), Ok(page(0)));
}

#[test]
fn each_attach_for_writing_is_recorded_whatever_the_policy() {
    let mut rig = Rig::through();
    let first = rig.record.unwrap();
    assert_eq!((first.epoch, first.open), (1, false));
    rig.detach(OfDirty::Refuse).unwrap();
    rig.attach(WritePolicy::Around, lazy()).unwrap();
    assert_eq!(rig.record, Some(OwnerRecord { epoch: 2, ..first }));
}

#[test]
fn copies_of_a_cache_that_missed_writes_are_dropped() {
    let mut rig = Rig::through();
    rig.write(1, 1);
    assert_eq!(rig.read(1), Ok(page(1)));
    rig.pass(Duration::from_secs(1));
    rig.detach(OfDirty::Refuse).unwrap();
    assert!(rig.has_on_flash(&page(1)));
    // Another cache had the disk, and nothing of the origin but its bytes tells.
    let record = rig.record.unwrap();
    rig.record = Some(OwnerRecord {
        epoch: record.epoch + 1,
        cache: 1234,
        open: false,
    });
    rig.fill_origin(1, 2);
    rig.attach(WritePolicy::Through, lazy()).unwrap();
    assert_eq!(rig.read(1), Ok(page(2)));
}

#[test]
fn a_record_that_another_cache_has_open_refuses_the_disk() {
    let mut rig = Rig::new(lazy());
    rig.detach(OfDirty::Flush).unwrap();
    let record = OwnerRecord {
        epoch: 9,
        cache: 1234,
        open: true,
    };
    rig.record = Some(record);
    let refused = rig.attach(WritePolicy::Back, lazy());
    assert_eq!(refused, Err(ControlError::Elsewhere { record }));
}

#[test]
fn an_epoch_is_begun_once() {
    let mut rig = Rig::new(lazy());
    let before = rig.record;
    rig.power_cut_of_nothing();
    rig.attach(WritePolicy::Back, lazy()).unwrap();
    let after = rig.record.unwrap();
    // A crash came before the record was made: the flash is ahead of it.
    rig.record = before;
    rig.power_cut_of_nothing();
    rig.attach(WritePolicy::Back, lazy()).unwrap();
    assert_eq!(rig.record.unwrap().epoch, after.epoch + 1);
}
