//! Tenants in the log: who loses a segment when room is needed.

#![allow(clippy::unwrap_used, reason = "helpers of a test are part of it")]

mod driver;

use driver::Driver;
use policy::reclaim::Kind;
use proptest::prelude::*;
use segment_log::{SEGMENTS_RESERVED, Spare};
use units::{BlockIndex, DiskSlot, TenantSlot};

const fn disk(number: u16) -> DiskSlot {
    DiskSlot::new(number)
}

const fn tenant(number: u16) -> TenantSlot {
    TenantSlot::new(number)
}

/// A log of so many segments of 14 blocks, with disk `n` of tenant `n` for each share.
fn shared(segments: u32, shares: &[u32]) -> Driver {
    let mut log = Driver::new(segments, Kind::Fifo);
    for (number, share) in (0..).zip(shares) {
        log.set_tenant(disk(number), Some(tenant(number)));
        log.log.table_mut().set_share(tenant(number), *share);
    }
    log
}

/// Reads blocks of a disk that nobody has read, `segments` segments full.
fn fill(log: &mut Driver, of: DiskSlot, segments: u32) {
    for _ in 0..segments * 14 {
        log.read_new(of);
    }
}

fn held(log: &Driver, tenants: u16) -> Vec<u32> {
    (0..tenants)
        .map(|t| log.log.table().held(tenant(t)))
        .collect()
}

/// 14 segments of which two stay free. t0 takes all twelve although its share is six; then t1
/// comes and gets its six, one by one, from t0 alone.
#[test]
fn a_tenant_takes_back_what_another_borrowed_and_no_more() {
    let mut log = shared(14, &[6, 6]);
    fill(&mut log, disk(0), 20);
    assert_eq!(held(&log, 2), [12, 0], "work conserving");
    fill(&mut log, disk(1), 3);
    assert_eq!(held(&log, 2), [9, 3]);
    fill(&mut log, disk(1), 20);
    assert_eq!(held(&log, 2), [6, 6]);
    fill(&mut log, disk(0), 20);
    assert_eq!(held(&log, 2), [6, 6]);
}

/// Furthest above in segments, not in proportion: t0 is 4 above a share of 8, t1 2 above 2.
#[test]
fn whoever_borrowed_most_pays_first() {
    let mut log = shared(18, &[8, 2, 6]);
    fill(&mut log, disk(1), 4);
    fill(&mut log, disk(0), 12);
    assert_eq!(held(&log, 3), [12, 4, 0]);
    fill(&mut log, disk(2), 2);
    assert_eq!(held(&log, 3), [10, 4, 2]);
    fill(&mut log, disk(2), 4);
    assert_eq!(held(&log, 3), [8, 2, 6]);
}

#[test]
fn what_belongs_to_nobody_goes_first() {
    let mut log = shared(14, &[3]);
    fill(&mut log, disk(0), 6);
    fill(&mut log, disk(7), 6);
    assert_eq!(
        (
            log.log.table().held_by_nobody(),
            log.log.table().held(tenant(0))
        ),
        (6, 6)
    );
    fill(&mut log, disk(0), 4);
    assert_eq!(
        (
            log.log.table().held_by_nobody(),
            log.log.table().held(tenant(0))
        ),
        (2, 10)
    );
    log.set_tenant(disk(7), Some(tenant(1)));
    assert_eq!(
        (
            log.log.table().held_by_nobody(),
            log.log.table().held(tenant(1))
        ),
        (0, 2)
    );
    log.log.self_check();
}

#[test]
fn a_share_changes_without_losing_a_block() {
    let mut log = shared(14, &[6, 6]);
    fill(&mut log, disk(0), 20);
    let before = log.log.cached_blocks(disk(0));
    log.log.table_mut().set_share(tenant(0), 2);
    log.log.table_mut().set_share(tenant(1), 10);
    assert_eq!(log.evicted_of(disk(0)), log.read_of(disk(0)) - before);
    assert_eq!(log.log.cached_blocks(disk(0)), before);
    log.reclaim();
    assert_eq!(log.log.cached_blocks(disk(0)), before, "nobody needs room");
    fill(&mut log, disk(1), 20);
    assert_eq!(held(&log, 2), [2, 10]);
}

#[test]
fn idle_spare_makes_a_tenant_reclaim_its_own() {
    let mut log = shared(32, &[6, 6]);
    log.log.table_mut().set_spare(Spare::Idle);
    fill(&mut log, disk(0), 20);
    // At its sixth segment one of the first five goes, so that the next has room at once.
    assert_eq!(held(&log, 2), [5, 0]);
    assert_eq!(log.refused, 0);
    assert!(log.log.table().free_count() > 20, "the spare flash is idle");
    fill(&mut log, disk(1), 3);
    log.log.table_mut().set_share(tenant(0), 3);
    log.reclaim();
    assert_eq!(
        held(&log, 2),
        [5, 3],
        "a smaller share waits until room is needed"
    );
    fill(&mut log, disk(0), 1);
    assert!(log.log.table().held(tenant(0)) <= 3);
}

#[test]
fn strict_shares_shrink_at_once() {
    let mut log = shared(32, &[6, 6]);
    fill(&mut log, disk(0), 10);
    assert_eq!(held(&log, 2), [10, 0]);
    log.log.table_mut().set_spare(Spare::Strict);
    log.reclaim();
    assert_eq!(held(&log, 2), [6, 0]);
    log.log.table_mut().set_share(tenant(0), 3);
    log.reclaim();
    assert_eq!(held(&log, 2), [3, 0]);
    log.log.table_mut().set_share(tenant(0), 0);
    log.reclaim();
    assert_eq!(held(&log, 2), [0, 0]);
    log.read_new(disk(0));
    assert_eq!(log.refused, 1, "a share of nothing takes nothing");
}

/// Both are six above: whoever has the oldest segment pays, whatever its number.
#[test]
fn of_two_that_borrowed_as_much_the_older_segment_goes() {
    let mut log = shared(14, &[0, 0, 0]);
    fill(&mut log, disk(1), 6);
    fill(&mut log, disk(0), 6);
    fill(&mut log, disk(2), 1);
    assert_eq!(held(&log, 3), [6, 5, 1]);
}

#[test]
fn strict_shares_shrink_whoever_is_furthest_above_first() {
    let mut log = shared(32, &[4, 4]);
    fill(&mut log, disk(0), 6);
    fill(&mut log, disk(1), 10);
    log.log.table_mut().set_spare(Spare::Strict);
    log.reclaim();
    let excess: Vec<i64> = log.losses.iter().map(|loss| loss.excess).collect();
    assert_eq!(excess, [6, 5, 4, 3, 2, 2, 1, 1]);
    assert_eq!(held(&log, 2), [4, 4]);
}

/// Nobody was over a limit under the old rule; somebody is under the new one.
#[test]
fn another_rule_for_spare_flash_is_looked_at_at_once() {
    let mut log = shared(32, &[6]);
    fill(&mut log, disk(0), 10);
    log.log.table_mut().set_spare(Spare::Idle);
    log.reclaim();
    assert_eq!(held(&log, 1), [10]);
    log.log.table_mut().set_spare(Spare::Strict);
    log.reclaim();
    assert_eq!(held(&log, 1), [6]);
}

#[test]
fn what_belongs_to_nobody_has_no_limit_while_there_is_room() {
    for spare in [Spare::Idle, Spare::Strict] {
        let mut log = shared(32, &[6]);
        log.log.table_mut().set_spare(spare);
        fill(&mut log, disk(7), 4);
        log.reclaim();
        assert_eq!((log.log.table().held_by_nobody(), log.refused), (4, 0));
    }
}

/// Two streams have a segment open each, so a share of one counts as two.
#[test]
fn a_strict_share_of_one_keeps_two_segments() {
    let mut log = shared(32, &[1]);
    fill(&mut log, disk(0), 5);
    log.log.table_mut().set_spare(Spare::Strict);
    log.reclaim();
    assert_eq!(held(&log, 1), [2]);
}

#[test]
fn a_segment_that_was_given_up_is_nobodys_even_while_it_is_read() {
    let mut log = shared(32, &[6]);
    log.read(disk(0), 0);
    let slot = log.log.touch(disk(0), BlockIndex::new(0)).unwrap();
    fill(&mut log, disk(0), 3);
    log.log.pin(slot);
    log.log.table_mut().set_share(tenant(0), 0);
    log.log.table_mut().set_spare(Spare::Strict);
    log.reclaim();
    assert_eq!(held(&log, 1), [0]);
    let free = log.log.table().free_count();
    log.log.unpin(slot);
    assert_eq!(log.log.table().free_count(), free + 1);
}

/// A tenant with a share of one segment still gets a block in: its own open segment goes.
#[test]
fn the_smallest_share_that_idles_its_spare_works() {
    let mut log = Driver::new(32, Kind::Clock);
    log.set_tenant(disk(0), Some(tenant(0)));
    log.log.table_mut().set_share(tenant(0), 1);
    log.log.table_mut().set_spare(Spare::Idle);
    for round in 0..40 {
        for block in 0..14 {
            log.read(disk(0), block);
            log.read(disk(0), 100 + round * 14 + block);
        }
        assert!(log.log.table().held(tenant(0)) <= 3);
    }
    assert!(log.refused < 40, "{} of 1120 refused", log.refused);
}

proptest! {
    /// Whatever is read by whom, with whatever shares: nobody who is not above its share loses a
    /// segment while another is above; no room stays free that somebody could use; and the counts
    /// are right.
    #[test]
    fn the_weak_are_protected_and_no_room_is_wasted(
        shares in prop::collection::vec(0..8_u32, 4),
        steps in prop::collection::vec((0..6_u16, 0..60_u32, 0..40_u32), 1..1500),
        kind in prop::sample::select(&Kind::ALL[..]),
    ) {
        let mut log = Driver::new(24, kind);
        for (number, share) in (0..).zip(&shares) {
            log.set_tenant(disk(number), Some(tenant(number)));
            log.log.table_mut().set_share(tenant(number), *share);
        }
        for (what, block, rare) in steps {
            match (what, rare) {
                // Disk 5 is nobody's, and disk 4 comes and goes.
                (4, 0) => log.set_tenant(disk(4), Some(tenant(3))),
                (4, 1) => log.set_tenant(disk(4), None),
                (what, 2) if what < 4 => log.log.table_mut().set_share(tenant(what), block % 8),
                _ => {
                    log.read(disk(what), block);
                }
            }
            for loss in log.losses.drain(..) {
                prop_assert!(loss.excess > 0 || loss.highest <= 0, "{loss:?}");
            }
        }
        prop_assert_eq!(log.refused, 0);
        prop_assert!(log.log.table().free_count() >= SEGMENTS_RESERVED);
        // A segment is taken from somebody only if fewer than two were free.
        prop_assert!(log.free_at_reclaim_max < 2);
        log.log.self_check();
    }
}
