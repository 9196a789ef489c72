//! Write-back, one step at a time: what a guest, its origin and a recovery see.

use crate::rig::{Rig, lazy, page};
use block_io::{IoError, OriginVerb};
use cache::{
    Command, ControlError, ControlOutcome, DestageOrder, DestageState, OfDirty, WriteBack,
    WritePolicy,
};
use units::{Bytes, Duration, Offset};

#[test]
fn a_write_is_answered_before_the_origin_has_it_and_read_back() {
    let mut rig = Rig::new(lazy());
    rig.write(3, 7);
    assert_eq!(rig.origin_block(3), page(0));
    assert_eq!(rig.read(3), Ok(page(7)));
    assert_eq!(rig.read(4), Ok(page(0)));
    let status = rig.status();
    assert_eq!(
        (status.logged, status.distinct),
        (Bytes::kib(4), Bytes::kib(4))
    );
}

#[test]
fn a_flush_is_answered_when_the_flash_has_it_and_asks_nothing_of_the_origin() {
    let mut rig = Rig::new(lazy());
    rig.write(3, 7);
    rig.hold_flash = true;
    let flush = rig.begin_flush();
    assert_eq!(rig.answer(flush), None);
    rig.hold_flash = false;
    rig.drive();
    assert_eq!(rig.answer(flush), Some(Ok(())));
    assert!(
        rig.told
            .iter()
            .all(|op| !matches!(op, OriginVerb::Write { .. }))
    );
    // Nothing is left to wait for.
    rig.hold_flash = true;
    let flush = rig.begin_flush();
    assert_eq!(rig.answer(flush), Some(Ok(())));
}

#[test]
fn what_was_flushed_is_found_after_a_power_cut() {
    let mut rig = Rig::new(lazy());
    rig.write(3, 7);
    rig.write(9, 8);
    rig.flush();
    rig.write(9, 9);
    rig.power_cut();
    assert_eq!(rig.read(3), Ok(page(7)));
    let nine = rig.read(9).unwrap();
    assert!(nine == page(8) || nine == page(9));
    rig.destage();
    assert_eq!(rig.origin_block(3), page(7));
    assert_eq!(rig.origin_block(9), nine);
}

#[test]
fn everything_reaches_the_origin_and_stays_cached() {
    let mut rig = Rig::new(lazy());
    for block in 0..40 {
        rig.write(block, 1);
        rig.write(block, 2);
    }
    rig.flush();
    rig.destage();
    for block in 0..40 {
        assert_eq!(rig.durable_block(block), page(2));
    }
    assert_eq!(rig.status().logged, Bytes::ZERO);
    rig.told.clear();
    assert_eq!(rig.read(17), Ok(page(2)));
    assert!(rig.told.is_empty(), "it is in the cache");
    rig.cache_mut().self_check();
}

#[test]
fn an_interval_is_durable_at_the_origin_before_the_next_one_begins() {
    let mut rig = Rig::new(lazy());
    rig.write(1, 1);
    rig.write(2, 1);
    rig.flush();
    rig.write(1, 2);
    rig.flush();
    rig.told.clear();
    rig.destage();
    let kinds: Vec<&str> = rig
        .told
        .iter()
        .map(|op| match op {
            OriginVerb::Write { fua: false, .. } => "write",
            OriginVerb::Write { fua: true, .. } => "write durably",
            OriginVerb::Flush => "flush",
            _ => "other",
        })
        .collect();
    // Blocks 1 and 2 are one write; so is the second interval.
    assert_eq!(kinds, ["write durably", "write durably"]);
    assert_eq!(rig.origin_block(1), page(2));
}

#[test]
fn blocks_far_apart_need_a_flush() {
    let mut rig = Rig::new(lazy());
    rig.write(1, 1);
    rig.write(20, 1);
    rig.flush();
    rig.write(1, 2);
    rig.flush();
    rig.told.clear();
    rig.hold_flush = true;
    let demand = rig.command(Command::Destage { disk: rig.disk });
    assert_eq!(
        rig.origin_block(1),
        page(1),
        "the second interval waits for the flush"
    );
    rig.hold_flush = false;
    rig.drive();
    assert_eq!(rig.outcome(demand), Some(Ok(ControlOutcome::Done)));
    assert_eq!(rig.durable_block(1), page(2));
}

#[test]
fn a_part_of_a_block_is_merged_with_what_the_origin_has() {
    let mut rig = Rig::new(lazy());
    rig.fill_origin(5, 4);
    rig.write_at(Offset::new(5 * 4096 + 512), &[9; 512]);
    let mut expected = page(4);
    expected[512..1024].fill(9);
    assert_eq!(rig.read(5), Ok(expected.clone()));
    // And with what only the log has.
    rig.write_at(Offset::new(5 * 4096 + 1024), &[8; 512]);
    expected[1024..1536].fill(8);
    assert_eq!(rig.read(5), Ok(expected.clone()));
    rig.flush();
    rig.destage();
    assert_eq!(rig.durable_block(5), expected);
}

#[test]
fn a_write_to_a_block_that_is_merged_waits() {
    let mut rig = Rig::new(lazy());
    rig.fill_origin(5, 4);
    rig.hold_reads = true;
    let first = rig.begin_write_at(Offset::new(5 * 4096), &[9; 512]);
    let second = rig.begin_write_at(Offset::new(5 * 4096 + 512), &[8; 512]);
    let elsewhere = rig.begin_write_at(Offset::new(6 * 4096), &page(3));
    assert_eq!(rig.answer(first), None);
    assert_eq!(rig.answer(second), None);
    assert_eq!(rig.answer(elsewhere), Some(Ok(())));
    rig.hold_reads = false;
    rig.drive();
    assert_eq!(rig.answer(second), Some(Ok(())));
    let block = rig.read(5).unwrap();
    assert_eq!((block[0], block[512], block[1024]), (9, 8, 4));
}

#[test]
fn erased_blocks_read_as_zeroes_although_the_origin_has_them() {
    let mut rig = Rig::new(lazy());
    for block in 0..10 {
        rig.fill_origin(block, 4);
    }
    assert_eq!(rig.read(2), Ok(page(4)));
    rig.discard(2, 5);
    for block in 2..7 {
        assert_eq!(rig.read(block), Ok(page(0)));
    }
    rig.write(4, 6);
    assert_eq!(rig.read(4), Ok(page(6)));
    rig.flush();
    rig.power_cut();
    assert_eq!(rig.read(3), Ok(page(0)));
    assert_eq!(rig.read(4), Ok(page(6)));
    rig.destage();
    let origin: Vec<u8> = (0..10).map(|block| rig.durable_block(block)[0]).collect();
    assert_eq!(origin, [4, 4, 0, 0, 6, 0, 0, 4, 4, 4]);
}

#[test]
fn zeroes_that_begin_and_end_inside_blocks_are_written() {
    let mut rig = Rig::new(lazy());
    for block in 0..4 {
        rig.fill_origin(block, 4);
    }
    rig.write_zeroes(Offset::new(512), Bytes::new(3 * 4096));
    let first = rig.read(0).unwrap();
    assert_eq!((first[511], first[512]), (4, 0));
    assert_eq!(rig.read(1), Ok(page(0)));
    let last = rig.read(3).unwrap();
    assert_eq!((last[511], last[512]), (0, 4));
}

#[test]
fn a_fill_that_a_write_overtook_is_not_admitted() {
    let mut rig = Rig::new(lazy());
    rig.fill_origin(5, 4);
    rig.hold_reads = true;
    let read = rig.begin_read(5);
    rig.write(5, 6);
    rig.hold_reads = false;
    rig.drive();
    assert!(rig.bytes(read).is_some());
    assert_eq!(rig.read(5), Ok(page(6)));
    rig.flush();
    rig.destage();
    assert_eq!(rig.read(5), Ok(page(6)));
}

#[test]
fn a_fill_does_not_run_over_dirty_blocks() {
    let mut rig = Rig::new(lazy());
    rig.write(5, 6);
    rig.told.clear();
    let got = rig.read_run(3, 4).unwrap();
    assert_eq!(got[2 * 4096..3 * 4096], page(6));
    let reads: Vec<(u64, u64)> = rig
        .told
        .iter()
        .filter_map(|op| match op {
            OriginVerb::Read { offset, length, .. } => {
                Some((offset.get() / 4096, length.get() / 4096))
            }
            _ => None,
        })
        .collect();
    assert_eq!(reads, [(3, 2), (6, 1)]);
}

#[test]
fn a_dirty_block_that_is_damaged_is_an_error_and_stops_the_transfer() {
    let mut rig = Rig::new(lazy());
    rig.write(5, 6);
    rig.flush();
    rig.write(7, 7);
    rig.flush();
    rig.damage(&page(6));
    assert_eq!(rig.read(5), Err(IoError::Failed));
    let demand = rig.command(Command::Destage { disk: rig.disk });
    assert!(matches!(
        rig.outcome(demand),
        Some(Err(ControlError::Locked(_)))
    ));
    assert!(matches!(rig.status().state, DestageState::Locked(_)));
    assert_eq!(
        (rig.origin_block(5), rig.origin_block(7)),
        (page(0), page(0))
    );
}

#[test]
fn writes_wait_for_room_and_are_errors_at_last() {
    let settings = WriteBack {
        dirty_max: Bytes::kib(64),
        stall_max: Duration::from_secs(5),
        ..lazy()
    };
    let mut rig = Rig::new(settings);
    rig.origin_error = Some(IoError::NoSpace);
    for block in 0..16 {
        rig.write(block, 1);
    }
    let late = rig.begin_write(16, 1);
    let later = rig.begin_write(17, 1);
    assert_eq!(rig.answer(late), None);
    assert!(matches!(rig.status().state, DestageState::Failing { .. }));
    assert_eq!(rig.status().stalls, 1);
    rig.pass(Duration::from_secs(4));
    assert_eq!(rig.answer(late), None);
    rig.pass(Duration::from_secs(2));
    assert_eq!(rig.answer(late), Some(Err(IoError::TimedOut)));
    assert_eq!(rig.answer(later), Some(Err(IoError::TimedOut)));
    // The origin works again.
    rig.origin_error = None;
    rig.pass(Duration::from_secs(100));
    rig.write(18, 1);
    assert_eq!(rig.durable_block(15), page(1));
}

#[test]
fn what_is_old_or_left_alone_goes_to_the_origin() {
    let settings = WriteBack {
        age_max: Duration::from_secs(30),
        idle_after: Duration::from_secs(2),
        ..WriteBack::default()
    };
    let mut rig = Rig::new(settings);
    rig.write(1, 1);
    rig.pass(Duration::from_secs(1));
    assert_eq!(rig.origin_block(1), page(0));
    rig.pass(Duration::from_secs(4));
    assert_eq!(rig.durable_block(1), page(1), "the guest is idle");
    rig.write(1, 2);
    for _ in 0..29 {
        rig.pass(Duration::from_secs(1));
        assert_eq!(rig.read(9), Ok(page(0)));
    }
    assert_eq!(rig.origin_block(1), page(1));
    for _ in 0..3 {
        rig.pass(Duration::from_secs(1));
        assert_eq!(rig.read(9), Ok(page(0)));
    }
    assert_eq!(rig.durable_block(1), page(2), "it is old");
}

#[test]
fn flash_that_fails_gives_its_bytes_to_the_origin_before_the_disk_goes_on() {
    let mut rig = Rig::new(lazy());
    rig.write(1, 1);
    rig.write(2, 2);
    rig.flush();
    rig.flash_write_error = true;
    let write = rig.begin_write(3, 3);
    let flush = rig.begin_flush();
    rig.drive();
    assert_eq!(rig.answer(write), Some(Ok(())));
    assert_eq!(rig.answer(flush), Some(Ok(())), "the origin has it all");
    for block in 1..=3 {
        assert_eq!(rig.durable_block(block)[0], u8::try_from(block).unwrap());
    }
    assert!(!rig.record.unwrap().open);
    rig.write(4, 4);
    assert_eq!(rig.origin_block(4), page(4));
    assert_eq!(rig.read(2), Ok(page(2)));
}

#[test]
fn flash_that_is_gone_locks_a_disk_whose_bytes_it_had() {
    let mut rig = Rig::new(lazy());
    rig.write(1, 1);
    rig.flush();
    rig.flash_write_error = true;
    rig.flash_read_error = true;
    rig.write(2, 2);
    let flush = rig.begin_flush();
    rig.drive();
    assert_eq!(rig.answer(flush), Some(Err(IoError::Failed)));
    assert_eq!(rig.read(1), Err(IoError::Failed));
    assert_eq!(rig.read(9), Ok(page(0)));
    let write = rig.begin_write(9, 1);
    assert_eq!(rig.answer(write), Some(Err(IoError::Failed)));
    assert!(rig.record.unwrap().open);
    assert_eq!(rig.origin_block(1), page(0));
}

#[test]
fn out_of_order_everything_reaches_the_origin_too() {
    let settings = WriteBack {
        order: DestageOrder::Unordered,
        ..lazy()
    };
    let mut rig = Rig::new(settings);
    for round in 1..4 {
        for block in 0..30 {
            rig.write(block * 7 % 31, round);
        }
        rig.flush();
    }
    rig.discard(3, 2);
    rig.destage();
    for block in 0..30 {
        let expected = if (3..5).contains(&block) { 0 } else { 3 };
        assert_eq!(
            rig.durable_block(block * 7 % 31)[0],
            if (3..5).contains(&(block * 7 % 31)) {
                0
            } else {
                3
            },
            "{expected}"
        );
    }
    rig.cache_mut().self_check();
    rig.power_cut();
    assert_eq!(rig.read(7), Ok(page(3)));
}

#[test]
fn a_dirtied_block_costs_little_more_than_its_page() {
    let mut rig = Rig::with_flash(Bytes::mib(64), lazy());
    let before = rig.cache_mut().facts().stats().flash_written;
    for block in 0..2540 {
        rig.begin_write(block * 37 % 4096, 1);
    }
    rig.flush();
    let after = rig.cache_mut().facts().stats().flash_written;
    let written = after.total() - before.total();
    assert!(written * 100 < 2540 * 4096 * 105, "{written} bytes");
}

#[test]
fn intervals_share_a_commit_unless_a_block_comes_again() {
    let commits = |blocks: &[u64]| {
        let mut rig = Rig::new(lazy());
        for block in blocks {
            rig.write(*block, 1);
            rig.flush();
        }
        let before = rig.cache_mut().facts().stats().journal_commits;
        rig.destage();
        rig.cache_mut().facts().stats().journal_commits - before
    };
    let apart: Vec<u64> = (0..20).map(|n| 3 * n).collect();
    let once = commits(&apart);
    assert!(once <= 2, "{once} commits for 20 intervals");
    assert!(commits(&[5; 20]) >= 19, "an older version could come back");
}

#[test]
fn bytes_are_not_brought_to_an_origin_that_somebody_has_changed() {
    let mut rig = Rig::new(lazy());
    rig.fingerprint = Some(1);
    rig.write(3, 7);
    rig.detach(OfDirty::Keep).unwrap();
    rig.fingerprint = Some(2);
    let changed = rig.attach(WritePolicy::Back, lazy());
    assert_eq!(changed, Err(ControlError::OriginChanged));
    // Nothing is lost: the origin is put back to what it was.
    rig.fingerprint = Some(1);
    rig.attach(WritePolicy::Back, lazy()).unwrap();
    assert_eq!(rig.read(3), Ok(page(7)));
}

#[test]
fn a_record_that_was_open_is_closed_when_the_flash_fails_before_the_disk_is_served() {
    let mut rig = Rig::new(lazy());
    assert!(rig.record.unwrap().open);
    rig.power_cut_of_nothing();
    rig.flash_write_error = true;
    rig.attach(WritePolicy::Through, lazy()).unwrap();
    assert!(!rig.record.unwrap().open);
    rig.write(1, 1);
    assert_eq!(rig.origin_block(1), page(1));
}

#[test]
fn a_read_that_failed_flash_never_answers_comes_from_the_origin_that_has_it_since() {
    let mut rig = Rig::new(lazy());
    rig.write(1, 7);
    rig.flush();
    rig.hold_flash = true;
    let read = rig.begin_read(1);
    rig.lose_held_flash();
    rig.flash_write_error = true;
    rig.write(2, 2);
    let flush = rig.begin_flush();
    rig.drive();
    assert_eq!(rig.answer(flush), Some(Ok(())));
    assert_eq!(rig.durable_block(1), page(7));
    rig.pass(Duration::from_secs(60));
    assert_eq!(rig.bytes(read), Some(Ok(page(7))));
}

#[test]
fn a_durable_block_that_is_damaged_is_no_torn_tail_a_while_later() {
    let mut rig = Rig::new(lazy());
    rig.write(4, 4);
    rig.flush();
    rig.write(5, 6);
    rig.flush();
    rig.pass(Duration::from_millis(1200));
    rig.damage(&page(6));
    rig.power_cut_of_nothing();
    rig.attach(WritePolicy::Back, lazy()).unwrap();
    assert_eq!(
        (rig.read(4), rig.read(5)),
        (Ok(page(4)), Err(IoError::Failed))
    );
    // Nor is it when everything was written plainly, and found by a recovery.
    let mut rig = Rig::new(lazy());
    for block in 0..300 {
        rig.write(block, 3);
    }
    rig.write(300, 6);
    rig.stop();
    rig.power_cut_of_nothing();
    rig.pass(Duration::from_millis(1200));
    rig.damage(&page(6));
    rig.power_cut_of_nothing();
    rig.attach(WritePolicy::Back, lazy()).unwrap();
    assert_eq!(
        (rig.read(4), rig.read(300)),
        (Ok(page(3)), Err(IoError::Failed))
    );
}

#[test]
fn a_log_costs_a_page_of_the_journal_a_second_to_be_named() {
    let mut rig = Rig::new(lazy());
    rig.write(4, 4);
    rig.flush();
    rig.pass(Duration::from_secs(2));
    let commits = |rig: &mut Rig| rig.cache_mut().facts().stats().journal_commits;
    let before = commits(&mut rig);
    for round in 0..10 {
        rig.write(4, round);
        rig.flush();
    }
    assert_eq!(commits(&mut rig), before);
    rig.pass(Duration::from_secs(5));
    assert_eq!(commits(&mut rig), before + 1);
}

#[test]
fn what_an_earlier_write_has_asked_for_does_not_come_to_a_later_one() {
    let mut rig = Rig::new(lazy());
    rig.fill_origin(5, 5);
    rig.fill_origin(7, 7);
    rig.hold_reads = true;
    let first = rig.begin_write_at(Offset::new(5 * 4096 + 512), &[1; 512]);
    let set = |rig: &mut Rig, policy| {
        let disk = rig.disk;
        let id = rig.command(Command::SetPolicy { disk, policy });
        rig.pass(Duration::from_secs(2));
        assert!(matches!(rig.outcome(id), Some(Ok(_))));
    };
    set(&mut rig, WritePolicy::Through);
    assert_eq!(rig.answer(first), Some(Ok(())));
    set(&mut rig, WritePolicy::Back);
    let second = rig.begin_write_at(Offset::new(7 * 4096 + 512), &[2; 512]);
    rig.free();
    rig.drive();
    assert_eq!(rig.answer(second), Some(Ok(())));
    let mut expected = page(7);
    expected[512..1024].fill(2);
    assert_eq!(rig.read(7), Ok(expected));
}

#[test]
fn a_log_is_begun_anew_when_a_recovery_would_find_nothing_of_the_old_one() {
    let mut rig = Rig::new(lazy());
    let set = |rig: &mut Rig, policy| {
        let disk = rig.disk;
        let id = rig.command(Command::SetPolicy { disk, policy });
        rig.pass(Duration::from_millis(0));
        assert!(matches!(rig.outcome(id), Some(Ok(_))));
    };
    // The journal can wait: that the origin has it is not known when the record is closed.
    rig.write_delay = Duration::from_secs(1000);
    rig.power_cut();
    rig.write(3, 1);
    rig.flush();
    set(&mut rig, WritePolicy::Through);
    rig.write(3, 2);
    rig.flush();
    set(&mut rig, WritePolicy::Back);
    rig.power_cut();
    assert_eq!(rig.read(3), Ok(page(2)));
}

#[test]
fn failed_flash_gives_nothing_to_the_origin_before_it_is_recorded_that_it_is_over() {
    let mut rig = Rig::new(lazy());
    rig.write(1, 1);
    rig.flush();
    rig.flash_write_error = true;
    rig.retire_error = true;
    rig.begin_write(2, 2);
    let flush = rig.begin_flush();
    rig.pass(Duration::from_secs(5));
    assert_eq!(rig.answer(flush), None);
    assert_eq!(rig.origin_block(1), page(0));
    assert!(rig.record.unwrap().open);
    rig.retire_error = false;
    rig.pass(Duration::from_secs(5));
    assert_eq!(rig.answer(flush), Some(Ok(())));
    assert_eq!(rig.durable_block(1), page(1));
    assert!(!rig.record.unwrap().open);
}

#[test]
fn what_failed_flash_did_not_keep_is_acknowledged_when_the_record_is_closed() {
    let mut rig = Rig::new(lazy());
    rig.write(1, 1);
    rig.flush();
    rig.flash_write_error = true;
    rig.own_error = true;
    rig.write(2, 2);
    let flush = rig.begin_flush();
    rig.pass(Duration::from_millis(500));
    assert_eq!(rig.durable_block(2), page(2));
    assert_eq!(
        rig.answer(flush),
        None,
        "a crash now would go back to what is on flash"
    );
    rig.own_error = false;
    rig.pass(Duration::from_secs(3));
    assert_eq!(rig.answer(flush), Some(Ok(())));
    assert!(!rig.record.unwrap().open);
}

#[test]
fn a_destage_of_an_empty_log_flushes_the_origin() {
    let mut rig = Rig::new(lazy());
    rig.pass(Duration::from_secs(1));
    rig.told.clear();
    rig.destage();
    assert!(
        rig.told
            .iter()
            .any(|verb| matches!(verb, OriginVerb::Flush))
    );
}

#[test]
fn a_flush_of_a_disk_that_enters_covers_the_log_that_was_recovered() {
    let mut rig = Rig::new(lazy());
    // Enough that the chunk of block 3 is full and goes to the flash without a flush.
    for block in 3..600 {
        rig.write(block, 7);
    }
    // The process dies; what it wrote is on the flash, but a power cut would take it.
    rig.hold_flash_flush = true;
    rig.power_cut_of_nothing();
    rig.hold_flush = true;
    rig.attach(WritePolicy::Back, lazy()).unwrap();
    assert_eq!(rig.read(3), Ok(page(7)));
    let flush = rig.begin_flush();
    rig.hold_flush = false;
    rig.drive();
    assert_eq!(rig.answer(flush), None, "the log is not durable yet");
    rig.free();
    assert_eq!(rig.answer(flush), Some(Ok(())));
    rig.power_cut();
    assert_eq!(rig.read(3), Ok(page(7)));
}
