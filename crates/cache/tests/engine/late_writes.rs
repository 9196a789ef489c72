//! Flash whose writes are late for a while: guests do not wait for it, and it is taken back warm.

use crate::rig::{Rig, lazy, page};
use cache::{Command, ControlError, ControlOutcome, Mode, OfDirty, WriteBack, WritePolicy};
use units::{Duration, Offset};

/// Longer than a write of the flash may take, and not so long that who waits loses patience.
const LONG: Duration = Duration::from_secs(3);

/// Until the flash is taken back, once it is in time.
const CALM: Duration = Duration::from_secs(8);

/// Blocks that no write to others puts to rest.
const FAR: [u64; 5] = [1000, 1100, 1200, 1300, 1400];

fn number(block: u64) -> u8 {
    u8::try_from(block).unwrap()
}

/// A cache that has blocks 0 to 15 on flash, trusted, each with its number everywhere.
fn warm() -> Rig {
    let mut rig = Rig::through();
    for block in (0..16).chain(FAR) {
        rig.fill_origin(block, number(block % 256));
        rig.read(block).unwrap();
    }
    rig.pass(Duration::from_secs(1));
    rig
}

/// The same, with flash that stalls in the middle of a write to block 1.
fn in_doubt() -> Rig {
    let mut rig = warm();
    rig.hold_flash_writes = true;
    let write = rig.begin_write(1, 51);
    rig.pass(Duration::from_secs(1));
    assert_eq!(rig.answer(write), None, "its older copy is trusted");
    rig.pass(LONG);
    assert_eq!(rig.answer(write), Some(Ok(())));
    assert!(is_active(&mut rig) && is_in_doubt(&mut rig));
    rig
}

fn is_active(rig: &mut Rig) -> bool {
    matches!(rig.cache_mut().facts().status().mode, Mode::Active)
}

fn is_in_doubt(rig: &mut Rig) -> bool {
    rig.cache_mut().facts().status().is_in_doubt
}

/// Whether the host would believe what is on flash.
fn is_believed(rig: &mut Rig) -> bool {
    let incarnation = rig.cache_mut().facts().status().incarnation;
    rig.least.is_none_or(|least| least <= incarnation)
}

/// Whether a block is served without its origin.
fn is_cached(rig: &mut Rig, block: u64) -> bool {
    rig.hold_reads = true;
    let read = rig.begin_read(block);
    let is_answered = rig.answer(read).is_some();
    rig.hold_reads = false;
    rig.drive();
    is_answered
}

fn every_block_is_right(rig: &mut Rig) {
    for block in 0..16 {
        let byte = if block == 1 { 51 } else { number(block) };
        assert_eq!(rig.read(block), Ok(page(byte)), "block {block}");
    }
}

#[test]
fn late_writes_cost_one_wait_and_the_flash_is_taken_back_warm() {
    let mut rig = in_doubt();
    assert!(!is_believed(&mut rig));
    // Nobody waits any more, and what is cached is served from the flash.
    let write = rig.begin_write(2, 2);
    assert_eq!(rig.answer(write), Some(Ok(())));
    assert!(is_cached(&mut rig, FAR[4]));
    every_block_is_right(&mut rig);
    rig.free();
    rig.pass(CALM);
    assert!(is_active(&mut rig) && !is_in_doubt(&mut rig));
    assert!(is_believed(&mut rig));
    assert_eq!(rig.cache_mut().facts().stats().flash_taken_back, 1);
    for block in 0..16 {
        assert!(is_cached(&mut rig, block), "block {block}");
    }
    every_block_is_right(&mut rig);
}

#[test]
fn a_prefetch_does_not_wait_for_late_flash() {
    let mut rig = in_doubt();
    let all = rig.size;
    let prefetch = rig.ask(cache::Verb::Prefetch {
        offset: Offset::ZERO,
        length: all,
    });
    rig.pass(LONG);
    assert_eq!(rig.answer(prefetch), Some(Ok(())));
}

#[test]
fn a_crash_in_doubt_opens_cold() {
    let mut rig = in_doubt();
    rig.kill_through();
    assert!(!is_cached(&mut rig, FAR[4]));
    every_block_is_right(&mut rig);
}

#[test]
fn a_crash_after_the_flash_was_taken_back_opens_warm() {
    let mut rig = in_doubt();
    rig.free();
    rig.pass(CALM);
    rig.kill_through();
    assert!(is_cached(&mut rig, FAR[4]));
    every_block_is_right(&mut rig);
}

#[test]
fn the_flash_is_not_believed_before_what_was_passed_is_durable() {
    let mut rig = in_doubt();
    // However long that takes.
    rig.pass(Duration::from_secs(600));
    assert!(is_active(&mut rig) && !is_believed(&mut rig));
    rig.free();
    rig.pass(Duration::from_millis(3500));
    // The last write that passes the flash, before it has been in time for long enough.
    rig.hold_flash_writes = true;
    let last = rig.begin_write(FAR[0], 9);
    assert_eq!(rig.answer(last), Some(Ok(())));
    rig.pass(Duration::from_millis(1200));
    let next = rig.begin_write(FAR[1], 9);
    assert_eq!(rig.answer(next), None, "writes wait again");
    assert!(!is_believed(&mut rig));
    rig.free();
    rig.pass(Duration::from_millis(100));
    assert!(is_believed(&mut rig));
    assert_eq!(rig.answer(next), Some(Ok(())));
}

#[test]
fn writes_wait_for_the_journal_again_before_the_host_believes_it() {
    let mut rig = in_doubt();
    rig.retire_error = true;
    rig.free();
    rig.pass(CALM);
    assert!(is_in_doubt(&mut rig), "the host could not record it");
    rig.hold_flash_writes = true;
    let write = rig.begin_write(FAR[0], 3);
    assert_eq!(rig.answer(write), None);
    rig.free();
    assert_eq!(rig.answer(write), Some(Ok(())));
    rig.retire_error = false;
    rig.pass(LONG);
    assert!(!is_in_doubt(&mut rig) && is_believed(&mut rig));
}

#[test]
fn flash_that_is_late_again_meanwhile_is_in_doubt_again() {
    let mut rig = in_doubt();
    rig.free();
    rig.pass(CALM);
    for (round, block) in (60..).zip(&FAR[..4]) {
        rig.hold_flash_writes = true;
        let write = rig.begin_write(*block, round);
        rig.pass(LONG);
        assert_eq!(rig.answer(write), Some(Ok(())));
        assert!(!is_believed(&mut rig));
        rig.free();
        rig.pass(CALM);
        assert!(is_believed(&mut rig));
    }
    rig.kill_through();
    every_block_is_right(&mut rig);
    for (round, block) in (60..).zip(&FAR[..4]) {
        assert_eq!(rig.read(*block), Ok(page(round)));
    }
}

#[test]
fn a_host_that_cannot_record_it_lets_writes_wait_for_the_flash() {
    let mut rig = warm();
    rig.retire_error = true;
    rig.hold_flash_writes = true;
    let write = rig.begin_write(1, 51);
    rig.pass(Duration::from_secs(30));
    assert_eq!(rig.answer(write), None);
    rig.retire_error = false;
    rig.pass(LONG);
    assert_eq!(rig.answer(write), Some(Ok(())));
    rig.free();
    rig.pass(CALM);
    assert!(is_believed(&mut rig));
    every_block_is_right(&mut rig);
}

#[test]
fn a_late_write_that_fails_gives_the_flash_up() {
    let mut rig = in_doubt();
    rig.flash_write_error = true;
    rig.free();
    rig.pass(CALM);
    assert!(!is_active(&mut rig) && !is_in_doubt(&mut rig));
    assert!(rig.least.is_some());
    every_block_is_right(&mut rig);
    rig.write(2, 2);
}

#[test]
fn a_command_that_waits_for_late_flash_has_it_given_up_at_last() {
    let mut rig = in_doubt();
    let begun = rig.now();
    let detach = rig.command(Command::Detach {
        disk: rig.disk,
        fingerprint: None,
        dirty: OfDirty::Refuse,
    });
    assert_eq!(rig.outcome(detach), None);
    while rig.outcome(detach).is_none() {
        rig.pass(Duration::from_millis(100));
    }
    assert!(rig.now().since(begun) < Duration::from_secs(10));
    assert!(!is_active(&mut rig));
}

#[test]
fn a_cache_that_is_stopped_in_doubt_is_taken_back_first() {
    let mut rig = in_doubt();
    rig.free();
    let stop = rig.command(Command::Stop);
    assert_eq!(rig.outcome(stop), None);
    rig.pass(CALM);
    assert!(matches!(rig.outcome(stop), Some(Ok(_))));
    rig.kill_through();
    assert!(is_cached(&mut rig, FAR[4]));
    every_block_is_right(&mut rig);
}

#[test]
fn a_log_that_nobody_waits_for_stays_as_it_is() {
    let mut rig = Rig::new(lazy());
    rig.write(1, 1);
    rig.flush();
    rig.hold_flash_writes = true;
    for block in 3..400 {
        rig.begin_write(block, 7);
    }
    rig.pass(Duration::from_secs(9));
    assert!(is_active(&mut rig) && is_in_doubt(&mut rig));
    rig.write(1, 2);
    rig.free();
    rig.pass(CALM);
    assert!(is_active(&mut rig) && !is_in_doubt(&mut rig));
    rig.flush();
    rig.power_cut();
    assert_eq!(rig.read(1), Ok(page(2)));
    assert_eq!(rig.read(399), Ok(page(7)));
}

/// A log in which block 1 is, with flash that stalls while its guest flushes.
fn bypassed() -> Rig {
    let mut rig = Rig::new(lazy());
    rig.fill_origin(FAR[4], 9);
    rig.read(FAR[4]).unwrap();
    rig.write(2, 1);
    rig.flush();
    rig.hold_flash_writes = true;
    rig.begin_write(1, 1);
    let flush = rig.begin_flush();
    rig.pass(LONG);
    assert_eq!(rig.answer(flush), Some(Ok(())));
    assert!(rig.durable_block(1) == page(1) && rig.durable_block(2) == page(1));
    assert!(is_active(&mut rig) && is_in_doubt(&mut rig));
    assert!(!is_recorded_open(&rig));
    rig
}

fn is_recorded_open(rig: &Rig) -> bool {
    rig.record.is_some_and(|record| record.open)
}

/// Whether a write waits in the log, and not for anything else.
fn goes_to_the_log(rig: &mut Rig, block: u64) -> bool {
    let before = rig.origin_block(block);
    rig.write(block, 77);
    rig.origin_block(block) == before
}

#[test]
fn a_disk_under_write_back_does_without_late_flash_and_comes_back() {
    let mut rig = bypassed();
    // It is written through, and waits for nothing.
    rig.write(1, 2);
    rig.write(3, 2);
    rig.flush();
    assert!(rig.durable_block(1) == page(2) && rig.durable_block(3) == page(2));
    rig.free();
    rig.pass(CALM);
    assert!(is_active(&mut rig) && !is_in_doubt(&mut rig) && is_believed(&mut rig));
    assert!(is_recorded_open(&rig));
    assert!(goes_to_the_log(&mut rig, 3));
    rig.flush();
    assert!(is_cached(&mut rig, FAR[4]), "it is as warm as it was");
    rig.power_cut();
    assert_eq!(rig.read(1), Ok(page(2)));
    assert_eq!(rig.read(2), Ok(page(1)));
    assert_eq!(rig.read(3), Ok(page(77)));
}

#[test]
fn a_crash_while_a_disk_does_without_late_flash_brings_no_log_back() {
    let mut rig = bypassed();
    rig.write(1, 2);
    rig.flush();
    rig.power_cut();
    assert_eq!(rig.read(1), Ok(page(2)));
    assert_eq!(rig.read(2), Ok(page(1)));
}

#[test]
fn a_disk_whose_flash_is_in_time_again_stays_under_write_back() {
    let mut rig = Rig::new(lazy());
    for block in 0..64 {
        rig.write(block, 1);
    }
    rig.flush();
    rig.hold_flash_writes = true;
    rig.hold_writes = true;
    rig.begin_write(1, 2);
    let flush = rig.begin_flush();
    rig.pass(LONG);
    assert_eq!(
        rig.answer(flush),
        None,
        "the origin is as late as the flash"
    );
    rig.hold_flash_writes = false;
    rig.pass(Duration::from_secs(1));
    assert_eq!(rig.answer(flush), Some(Ok(())));
    assert!(is_recorded_open(&rig));
    rig.free();
    rig.pass(CALM);
    assert!(!is_in_doubt(&mut rig) && is_recorded_open(&rig));
    assert!(goes_to_the_log(&mut rig, 3));
}

#[test]
fn a_policy_that_is_asked_for_while_a_disk_drains_is_refused() {
    let mut rig = Rig::new(lazy());
    rig.write(2, 1);
    rig.flush();
    rig.hold_flash_writes = true;
    rig.hold_writes = true;
    rig.begin_write(1, 2);
    let flush = rig.begin_flush();
    rig.pass(LONG);
    let disk = rig.disk;
    for policy in [WritePolicy::Back, WritePolicy::Through, WritePolicy::Around] {
        let set = rig.command(Command::SetPolicy { disk, policy });
        assert_eq!(rig.outcome(set), Some(Err(ControlError::Busy)));
    }
    rig.free();
    rig.pass(CALM);
    assert_eq!(rig.answer(flush), Some(Ok(())));
    assert!(!is_in_doubt(&mut rig) && is_recorded_open(&rig));
    assert!(goes_to_the_log(&mut rig, 3));
}

#[test]
fn a_disk_that_comes_under_write_back_as_the_flash_is_late_accepts_nothing_before_its_record_is_open()
 {
    let mut rig = Rig::through();
    rig.hold_flush = true;
    let (disk, policy) = (rig.disk, WritePolicy::Back);
    let set = rig.command(Command::SetPolicy { disk, policy });
    rig.begin_write(1, 1);
    rig.hold_flash_writes = true;
    rig.read(FAR[0]).unwrap();
    rig.pass(Duration::from_secs(9));
    assert!(is_in_doubt(&mut rig));
    rig.own_error = true;
    rig.free();
    rig.pass(CALM);
    assert_eq!(rig.outcome(set), Some(Err(ControlError::NotRecorded)));
    assert!(!is_in_doubt(&mut rig) && !is_recorded_open(&rig));
    assert!(!goes_to_the_log(&mut rig, 3));
}

#[test]
fn a_disk_whose_record_cannot_be_opened_again_is_written_through_until_it_can() {
    let mut rig = bypassed();
    rig.own_error = true;
    rig.free();
    rig.pass(CALM);
    assert!(!is_in_doubt(&mut rig) && !is_recorded_open(&rig));
    rig.write(3, 2);
    assert_eq!(rig.origin_block(3), page(2));
    rig.own_error = false;
    rig.pass(Duration::from_secs(3));
    assert!(is_recorded_open(&rig) && goes_to_the_log(&mut rig, 3));
}

#[test]
fn no_log_is_begun_on_late_flash() {
    let mut rig = in_doubt();
    let (disk, policy) = (rig.disk, WritePolicy::Back);
    let set = Command::SetPolicy { disk, policy };
    let refused = rig.command(set.clone());
    assert_eq!(rig.outcome(refused), Some(Err(ControlError::FlashLate)));
    rig.free();
    rig.pass(CALM);
    let taken = rig.command(set);
    assert_eq!(rig.outcome(taken), Some(Ok(ControlOutcome::Done)));
}

#[test]
fn an_operator_s_policy_outlives_late_flash() {
    let mut rig = bypassed();
    let disk = rig.disk;
    let [back, around] = [WritePolicy::Back, WritePolicy::Around];
    // It comes back by itself, unless it is to be something else.
    for policy in [back, around] {
        let set = rig.command(Command::SetPolicy { disk, policy });
        assert_eq!(rig.outcome(set), Some(Ok(ControlOutcome::Done)));
    }
    rig.free();
    rig.pass(CALM);
    assert!(!is_in_doubt(&mut rig) && !is_recorded_open(&rig));
    assert_eq!(rig.cache_mut().facts().policy_of(disk), Some(around));
}

#[test]
fn a_disk_that_leaves_write_back_does_not_wait_for_late_flash() {
    let mut rig = Rig::new(lazy());
    rig.hold_flash_writes = true;
    rig.begin_write(1, 1);
    let (disk, policy) = (rig.disk, WritePolicy::Through);
    let set = rig.command(Command::SetPolicy { disk, policy });
    rig.pass(LONG);
    assert_eq!(rig.outcome(set), Some(Ok(ControlOutcome::Done)));
    assert!(is_active(&mut rig) && !is_recorded_open(&rig));
    assert_eq!(rig.durable_block(1), page(1));
    rig.write(1, 2);
    rig.power_cut_of_nothing();
    rig.attach(policy, WriteBack::default()).unwrap();
    assert_eq!(rig.read(1), Ok(page(2)));
}

#[test]
fn a_detach_of_a_log_that_waits_for_late_flash_has_it_given_up_at_last() {
    let mut rig = Rig::new(lazy());
    rig.hold_flash_writes = true;
    rig.write(1, 1);
    let begun = rig.now();
    let detach = rig.command(Command::Detach {
        disk: rig.disk,
        fingerprint: None,
        dirty: OfDirty::Flush,
    });
    while rig.outcome(detach).is_none() {
        rig.pass(Duration::from_millis(100));
    }
    let waited = rig.now().since(begun);
    assert!(waited > LONG && waited < Duration::from_secs(10));
    assert!(!is_active(&mut rig));
    assert_eq!(rig.durable_block(1), page(1));
}

#[test]
fn a_guest_whose_log_cannot_be_read_from_late_flash_waits_no_longer_than_patience() {
    let mut rig = Rig::new(lazy());
    for block in 0..64 {
        rig.write(block, 1);
    }
    rig.flush();
    rig.hold_flash = true;
    rig.begin_write(1, 2);
    let flush = rig.begin_flush();
    rig.pass(Duration::from_secs(12));
    assert!(!is_active(&mut rig));
    rig.pass(Duration::from_secs(12));
    assert_eq!(rig.answer(flush), Some(Err(block_io::IoError::Failed)));
}

#[test]
fn a_disk_that_leaves_write_back_waits_for_its_log_no_longer_than_patience() {
    let mut rig = Rig::new(lazy());
    for block in 0..64 {
        rig.write(block, 1);
    }
    rig.flush();
    rig.hold_flash = true;
    let (disk, policy) = (rig.disk, WritePolicy::Through);
    let set = rig.command(Command::SetPolicy { disk, policy });
    rig.pass(Duration::from_secs(24));
    assert!(!is_active(&mut rig));
    assert!(matches!(
        rig.outcome(set),
        Some(Err(ControlError::Locked(_)))
    ));
}
