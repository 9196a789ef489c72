//! Who gives a segment when those who should have none that is closed, what reclaim waits for, and
//! where survivors go.

#![allow(clippy::unwrap_used, reason = "helpers of a test are part of it")]

mod driver;

use driver::Driver;
use policy::reclaim::Kind;
use segment_log::{Begin, Move, Source, Spare, StreamKey, Victim};
use units::{BlockIndex, DiskSlot, FlashSlot, TenantSlot};

const fn disk(number: u16) -> DiskSlot {
    DiskSlot::new(number)
}

const fn tenant(number: u16) -> TenantSlot {
    TenantSlot::new(number)
}

/// The stream of a disk's new blocks.
const fn news(number: u16) -> StreamKey {
    StreamKey::of(disk(number), Source::Fill)
}

/// The stream of its survivors, if they have one of their own.
const fn survivors(number: u16) -> StreamKey {
    StreamKey::of(disk(number), Source::Survivor)
}

/// Reads so many new blocks of each disk.
fn read_new(log: &mut Driver, disks: impl IntoIterator<Item = u16>, blocks: u32) {
    for number in disks {
        for _ in 0..blocks {
            log.read_new(disk(number));
        }
    }
}

#[test]
fn a_tenant_without_a_share_that_was_refused_keeps_nobody_from_reclaiming() {
    let mut log = Driver::new(32, Kind::Fifo);
    for (number, share) in [(0, 6), (1, 0)] {
        log.set_tenant(disk(number), Some(tenant(number)));
        log.log.table_mut().set_share(tenant(number), share);
    }
    log.log.table_mut().set_spare(Spare::Idle);
    log.read_new(disk(1));
    assert_eq!(log.refused, 1);
    read_new(&mut log, [0], 20 * 14);
    assert_eq!(log.refused, 1, "the other one always had room");
}

/// A share of two segments, and two disks with one block each in a segment that is open.
#[test]
fn a_tenant_that_fills_its_share_with_open_segments_loses_none_before_it_needs_another() {
    let mut log = Driver::new(32, Kind::Fifo);
    log.log.table_mut().set_share(tenant(0), 2);
    log.log.table_mut().set_spare(Spare::Idle);
    for number in [0, 1] {
        log.set_tenant(disk(number), Some(tenant(0)));
        log.read(disk(number), 1);
    }
    assert!(log.is_cached(disk(0), 1));
    assert!(log.is_cached(disk(1), 1));
    assert_eq!(log.log.table().held(tenant(0)), 2);
}

/// 16 segments of which two stay free. t0 has a share of two and an open segment of each of six
/// disks; t1 has one open segment, the oldest of all; t2 has seven full ones of a share of eight.
fn borrowed_and_open(late: bool) -> Driver {
    let mut log = Driver::new(16, Kind::Fifo);
    let of = |number| match number {
        0..6 => tenant(0),
        6 => tenant(1),
        _ => tenant(2),
    };
    for number in 0..8 {
        log.set_tenant(disk(number), Some(of(number)));
    }
    for (number, share) in [(0, 2), (1, 4), (2, 8)] {
        log.log.table_mut().set_share(tenant(number), share);
    }
    log.read(disk(6), 1);
    for number in 0..6 {
        log.read(disk(number), 1);
    }
    log.late = late;
    read_new(&mut log, [7], 7 * 14);
    assert_eq!((log.log.table().free_count(), log.losses.len()), (2, 0));
    log
}

#[test]
fn whoever_borrowed_gives_its_coldest_open_segment_before_others_give_a_closed_one() {
    let mut log = borrowed_and_open(false);
    // t2 needs one more, and is not above its share.
    log.read_new(disk(7));
    assert_eq!(log.evicted_of(disk(7)), 0, "t2 had seven closed ones");
    assert!(log.is_cached(disk(6), 1));
    assert!(log.log.stream(news(6)).is_some(), "t1's is colder");
    let left: Vec<u16> = (0..6).filter(|n| log.is_cached(disk(*n), 1)).collect();
    assert_eq!(left, [1, 2, 3, 4, 5]);
}

#[test]
fn a_segment_that_is_being_closed_is_waited_for_if_it_is_a_givers() {
    let mut log = Driver::new(8, Kind::Fifo);
    log.late = true;
    // The seventh segment is open, and the other six are being closed.
    read_new(&mut log, [0], 6 * 14 + 1);
    assert_eq!(log.log.table().free_count(), 1);
    assert!(matches!(log.log.begin_reclaim(), Begin::Wait));
    assert!(log.log.stream(news(0)).is_some(), "it stays open");
    log.end_writes();
    log.reclaim();
    assert_eq!(
        (log.evicted_of(disk(0)), log.log.table().free_count()),
        (14, 2)
    );

    // What t2 closes is no use, since t0 has to give.
    let mut log = borrowed_and_open(true);
    log.read_new(disk(7));
    assert!(log.log.stream(news(0)).is_none(), "t0 closes its coldest");
    assert!(log.log.stream(news(1)).is_some(), "and waits for it");
    log.end_writes();
    log.reclaim();
    assert!(!log.is_cached(disk(0), 1));
    assert_eq!(log.evicted_of(disk(7)), 0);
}

/// 16 segments of which two stay free: disk 0 has read so many, those of the first one twice, of
/// which CLOCK keeps half.
fn with_warm_blocks(segments: u32) -> Driver {
    let mut log = Driver::new(16, Kind::Clock);
    for block in 0..14 {
        log.read(disk(0), block);
        log.read(disk(0), block);
    }
    read_new(&mut log, [0], (segments - 1) * 14);
    assert_eq!(log.survivors, []);
    log
}

#[test]
fn survivors_have_a_stream_of_their_own_while_few_are_open() {
    let mut log = with_warm_blocks(14);
    log.read_new(disk(0));
    assert_eq!(log.survivors[0], survivors(0));
    assert_eq!(log.kept, 7);
}

/// Five of 16 segments are open.
#[test]
fn survivors_join_the_new_blocks_of_their_disk_when_many_are_open() {
    let mut log = with_warm_blocks(10);
    read_new(&mut log, 1..5, 1);
    log.read_new(disk(0));
    assert_eq!(log.survivors[0], news(0));
    assert_eq!(log.kept, 7);
}

#[test]
fn survivors_go_on_in_their_stream_when_it_is_open_however_many_are() {
    let mut log = with_warm_blocks(14);
    log.read_new(disk(0));
    assert!(log.log.stream(survivors(0)).is_some());
    let before = log.survivors.len();
    read_new(&mut log, 1..6, 1);
    assert!(log.survivors.len() > before + 3);
    let all = &log.survivors[before..];
    assert!(all.iter().all(|stream| *stream == survivors(0)));
}

#[test]
fn survivors_open_no_stream_of_new_blocks() {
    let mut log = with_warm_blocks(9);
    assert!(
        log.log.stream(news(0)).is_none(),
        "its last segment is full"
    );
    read_new(&mut log, 1..7, 1);
    assert_eq!(log.survivors[0], survivors(0));
    assert_eq!(log.kept, 7);
}

/// A victim of disk 0, and two of its blocks in the survivors' stream: the first one is in a segment
/// that was closed.
fn two_survivors() -> (Driver, Victim, [FlashSlot; 2]) {
    let mut log = Driver::new(32, Kind::Clock);
    log.set_tenant(disk(0), Some(tenant(0)));
    log.log.table_mut().set_share(tenant(0), 2);
    read_new(&mut log, [0], 3 * 14);
    log.log.table_mut().set_spare(Spare::Strict);
    let Begin::Reclaim(mut victim) = log.log.begin_reclaim() else {
        panic!("it holds three segments and may have two");
    };
    log.late = true;
    let stream = victim.survivors();
    let geometry = *log.log.table().geometry();
    let places = [1, 2].map(|page| {
        let to = log.append(stream, Source::Survivor, disk(0), page).unwrap();
        victim.moved(Move {
            block: BlockIndex::new(u64::from(page)),
            from: geometry.slot(victim.segment(), page),
            to,
        });
        if page == 1 {
            log.close(stream);
        }
        to
    });
    (log, victim, places)
}

#[test]
fn survivors_are_written_when_the_last_of_them_is() {
    let (mut log, victim, _) = two_survivors();
    assert!(!victim.survivors_written(&log.log));
    log.end_writes();
    assert!(!victim.survivors_written(&log.log), "a chunk is open");
    log.seal(victim.survivors());
    assert!(!victim.survivors_written(&log.log), "it is on its way");
    log.end_writes();
    assert!(victim.survivors_written(&log.log));
}

#[test]
fn a_survivor_that_was_lost_is_pointed_at_by_nobody() {
    let (log, mut victim, places) = two_survivors();
    victim.lost(places[0]);
    let left: Vec<FlashSlot> = victim.take_moves().iter().map(|moved| moved.to).collect();
    assert_eq!(left, [places[1]]);
    drop(log);
}
