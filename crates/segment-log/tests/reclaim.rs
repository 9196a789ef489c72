//! What reclaim does with warm segments, with what guests rewrite, and with many disks.

#![allow(clippy::unwrap_used, reason = "helpers of a test are part of it")]

mod driver;

use driver::Driver;
use policy::reclaim::Kind;
use proptest::prelude::*;
use units::{DiskSlot, Prng};

const DISK: DiskSlot = DiskSlot::new(0);

/// 14 segments of which two stay free: twelve are full after 12 x 14 blocks. The first one's blocks
/// are all read again; then new blocks come until every segment had its turn.
#[test]
fn a_warm_segment_is_spared_where_it_lies_and_nothing_of_it_is_written() {
    let mut log = Driver::new(14, Kind::TwinClock);
    for block in 0..12 * 14 {
        log.read(DISK, block);
    }
    for block in 0..14 {
        assert!(log.read(DISK, block));
        assert_eq!(log.heat(DISK, block), 1);
    }
    for _ in 0..11 * 14 {
        log.read_new(DISK);
    }
    assert_eq!((log.evicted_of(DISK), log.kept), (11 * 14, 0));
    assert!((0..14).all(|block| log.is_cached(DISK, block)));
    assert!(
        (0..14).all(|block| log.heat(DISK, block) == 0),
        "cooler by one"
    );
    for _ in 0..14 * 14 {
        log.read_new(DISK);
    }
    assert!(
        !(0..14).any(|block| log.is_cached(DISK, block)),
        "nobody asked"
    );
    log.log.self_check();
}

/// CLOCK writes the same blocks again instead, half of the segment at most.
#[test]
fn clock_pays_for_what_it_keeps() {
    let mut log = Driver::new(14, Kind::Clock);
    for block in 0..12 * 14 {
        log.read(DISK, block);
    }
    for block in 0..14 {
        log.read(DISK, block);
    }
    for _ in 0..14 {
        log.read_new(DISK);
    }
    // Half a segment came free, so a second one went too.
    assert_eq!((log.evicted_of(DISK), log.kept), (7 + 14, 7));
    assert_eq!(log.heat(DISK, 0), 0, "a kept block is cold");
}

/// Whoever writes a block while its survivor is on its way wins: the index keeps what it says.
#[test]
fn a_survivor_that_was_overtaken_is_dead() {
    let mut log = Driver::new(14, Kind::Clock);
    for block in 0..12 * 14 {
        log.read(DISK, block);
    }
    for block in 0..14 {
        log.read(DISK, block);
    }
    log.forgotten_meanwhile = Some(3);
    for _ in 0..14 {
        log.read_new(DISK);
    }
    assert_eq!(log.forgotten_meanwhile, None);
    assert!(log.is_cached(DISK, 3));
    assert!(!log.told.contains(&(DISK, 3)));
    log.log.self_check();
}

#[test]
fn a_rewritten_block_is_cold_and_it_is_known_whether_it_was_read() {
    let mut log = Driver::new(14, Kind::TwinClock);
    log.read(DISK, 1);
    log.read(DISK, 1);
    assert_eq!(log.heat(DISK, 1), 1);
    log.rewrite(DISK, 1);
    assert_eq!(log.heat(DISK, 1), 0);
    assert!(log.was_warm(DISK, 1));
    log.rewrite(DISK, 1);
    assert!(!log.was_warm(DISK, 1), "nobody has read the second copy");
    log.log.self_check();
    let mut log = Driver::new(14, Kind::Fifo);
    log.read(DISK, 1);
    log.rewrite(DISK, 1);
    assert!(log.was_warm(DISK, 1), "nobody counts heat");
}

/// A footer says which blocks lie in a segment; without it the index is walked. Somebody else (the
/// tenancy) counts on hearing of every block that left, and of no other.
#[test]
fn whoever_asks_hears_of_every_evicted_block_with_and_without_a_footer() {
    for footers_lost in [false, true] {
        let mut log = Driver::new(14, Kind::Fifo);
        log.footers_lost = footers_lost;
        for block in 0..12 * 14 - 2 {
            log.read(DISK, block);
        }
        // Two of the first segment's blocks move on; the other twelve go with it.
        log.rewrite(DISK, 3);
        log.rewrite(DISK, 7);
        log.read_new(DISK);
        log.told.sort_unstable();
        let gone = (0..14).filter(|block| ![3, 7].contains(block));
        let gone: Vec<_> = gone.map(|block| (DISK, block)).collect();
        assert_eq!(log.told, gone, "footers lost: {footers_lost}");
        assert!(log.is_cached(DISK, 3) && !log.is_cached(DISK, 0));
        assert_eq!(log.evicted_of(DISK), 12);
        log.log.self_check();
    }
}

/// Every other block is rewritten, so that segments empty at all ages: they are compacted, and most
/// of what was never rewritten lives on though nobody read it again.
#[test]
fn half_empty_segments_are_compacted() {
    let quiet_after = |kind| {
        let mut log = Driver::of_pages(24, 128, kind);
        let blocks = 10 * 126;
        for block in 0..blocks {
            log.read(DISK, block);
        }
        let mut dice = Prng::new(1);
        for _ in 0..10_000 {
            let block = dice.below(u64::from(blocks) / 2);
            log.rewrite(DISK, u32::try_from(block).unwrap() * 2);
        }
        log.log.self_check();
        let quiet = (0..blocks / 2).filter(|block| log.is_cached(DISK, block * 2 + 1));
        quiet.count()
    };
    assert_eq!(quiet_after(Kind::Fifo), 0);
    assert!(quiet_after(Kind::TwinClock) > 400);
}

/// With a disk for each of 200 volumes on 64 segments of 14 blocks, three quarters are open and filled,
/// and whoever comes later is turned away until one of those has been idle for a quarter of the log.
#[test]
fn more_disks_than_segments_do_not_close_each_others() {
    let mut log = Driver::new(64, Kind::TwinClock);
    let mut dice = Prng::new(2);
    for _ in 0..20_000 {
        let disk = DiskSlot::new(u16::try_from(dice.below(200)).unwrap());
        let block = u32::try_from(dice.below(2)).unwrap();
        log.read(disk, u32::from(disk.get()) * 4 + block);
    }
    assert!(
        log.log.table().closed_count() < 4,
        "nobody's segment was closed early"
    );
    assert!(
        log.appended < 200,
        "48 disks have their two blocks: {}",
        log.appended
    );
    // Now 47 of the 48 and all of the others fall silent, and one disk reads on.
    let alone =
        (0..200).find(|number| log.is_cached(DiskSlot::new(*number), u32::from(*number) * 4));
    for _ in 0..2000 {
        log.read_new(DiskSlot::new(alone.unwrap()));
        log.read(DiskSlot::new(999), 999);
    }
    assert!(
        log.is_cached(DiskSlot::new(999), 999),
        "an idle stream made room"
    );
    log.log.self_check();
}

proptest! {
    /// Whatever is read and rewritten, what reclaim writes again stays within what the appended blocks
    /// have earned: 3 % with segments this small, and a segment's worth at a time.
    #[test]
    fn what_is_written_again_stays_within_the_budget(
        seed in any::<u64>(),
        hot in 10..300_u64,
        writes in 0..4_u64,
    ) {
        let mut log = Driver::new(32, Kind::TwinClock);
        let mut dice = Prng::new(seed);
        for _ in 0..8_000 {
            let span = if dice.one_in(2) { hot } else { 1500 };
            let block = u32::try_from(dice.below(span)).unwrap();
            if dice.below(4) < writes {
                log.rewrite(DISK, block);
            } else {
                log.read(DISK, block);
            }
        }
        prop_assert_eq!(log.refused, 0);
        prop_assert!(log.kept * 100 <= log.appended * 3, "{} of {}", log.kept, log.appended);
        log.log.self_check();
    }
}
