//! A prefetch of a whole disk goes in pieces: it holds up nobody, and takes little memory.

use crate::rig::{Rig, page};
use block_io::{IoError, OriginVerb};
use cache::{OfDirty, Verb};
use units::{Bytes, Duration, Offset};

const MIB: u64 = 1 << 20;

/// Blocks of the rig's disk.
const BLOCKS: u64 = 4096;

fn prefetch(rig: &mut Rig, from: u64, length: u64) -> u64 {
    let (offset, length) = (Offset::new(from), Bytes::new(length));
    rig.ask(Verb::Prefetch { offset, length })
}

#[test]
fn a_prefetch_has_a_little_on_its_way_and_a_read_comes_in_between() {
    let mut rig = Rig::through();
    rig.fill_origin(BLOCKS - 1, 9);
    rig.hold_reads = true;
    let all = prefetch(&mut rig, 0, 16 * MIB);
    let (_, bytes) = rig.reads_held_at_origin();
    assert!((1..=5 * MIB).contains(&bytes), "{bytes} bytes on their way");
    let read = rig.begin_read(BLOCKS - 1);
    assert_eq!(
        rig.reads_held_at_origin().1,
        bytes + 4096,
        "it is asked at once"
    );
    rig.free();
    rig.pass(Duration::from_secs(2));
    assert_eq!(rig.bytes(read), Some(Ok(page(9))));
    assert_eq!(rig.answer(all), Some(Ok(())));
}

#[test]
fn what_was_prefetched_is_read_from_flash() {
    let mut rig = Rig::through();
    for block in 0..512 {
        rig.fill_origin(block, 5);
    }
    let some = prefetch(&mut rig, 0, 2 * MIB);
    rig.pass(Duration::from_secs(1));
    assert_eq!(rig.answer(some), Some(Ok(())));
    rig.hold_reads = true;
    for block in 0..512 {
        assert_eq!(rig.read(block), Ok(page(5)), "block {block}");
    }
    // All of it is there: nothing is asked, and it ends although the origin answers nothing.
    let again = prefetch(&mut rig, 0, 2 * MIB);
    rig.pass(Duration::from_millis(100));
    assert_eq!(rig.answer(again), Some(Ok(())));
}

#[test]
fn a_prefetch_ends_at_the_first_error_and_a_later_one_goes_on() {
    let mut rig = Rig::through();
    rig.hold_reads = true;
    let first = prefetch(&mut rig, 0, 16 * MIB);
    rig.fail_held_reads();
    assert_eq!(rig.answer(first), Some(Err(IoError::Failed)));
    rig.hold_reads = false;
    let second = prefetch(&mut rig, 0, MIB);
    rig.pass(Duration::from_secs(1));
    assert_eq!(rig.answer(second), Some(Ok(())));
}

#[test]
fn a_disk_that_leaves_does_not_wait_for_the_rest_of_a_prefetch() {
    let mut rig = Rig::through();
    rig.hold_reads = true;
    let all = prefetch(&mut rig, 0, 16 * MIB);
    let (_, bytes) = rig.reads_held_at_origin();
    let (disk, now) = (rig.disk, rig.now());
    rig.cache_mut().cut_prefetches(disk, now);
    rig.free();
    assert_eq!(rig.answer(all), Some(Ok(())));
    let reads = rig.told.iter();
    let reads = reads.filter(|verb| matches!(verb, OriginVerb::Read { .. }));
    assert_eq!(reads.count() as u64, bytes / MIB);
    rig.detach(OfDirty::Refuse).unwrap();
}

#[test]
fn flash_that_fails_ends_a_prefetch() {
    let mut rig = Rig::through();
    rig.hold_reads = true;
    let all = prefetch(&mut rig, 0, 16 * MIB);
    // A write that waits for the journal, on flash that never answers again.
    rig.hold_flash = true;
    rig.pass(Duration::from_secs(1));
    rig.flash_write_error = true;
    rig.free();
    rig.pass(Duration::from_secs(10));
    assert!(rig.answer(all).is_some());
}
