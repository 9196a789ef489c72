//! Recovery of dirty logs from flashes made by hand.
//!
//! Segments have 16 pages: chunks in the first 15, a footer in the last. Disk 0 is called 1, and
//! so on. What a block holds tells which write of it is meant.

mod hand;

use super::*;
use crate::limits::LOGGED_AFTER;
use crate::lock::LockReason;
use dirty_log::Found;
use flash_format::{CheckpointPage, DiskEntry, JournalEntry, JournalPage, Position};
use hand::*;
use segment_log::Phase;
use units::{BlockIndex, DiskId};

/// Disk 0 with a log in segments 2 (generation 10) and 5 (generation 11):
/// block 1, block 2 | block 1 again | block 3.
fn two_segments() -> Hand {
    let mut hand = Hand::of_disks(1);
    hand.opened(2, 0, 10, DIRTY);
    hand.opened(5, 0, 11, DIRTY);
    let does = [Writes(1, 1), Writes(2, 1)];
    let last = hand.log_chunk((2, 10, 0), Position::START, Position::START, &does);
    let last = hand.log_chunk((2, 10, 3), last, last, &[Writes(1, 2)]);
    hand.log_chunk((5, 11, 0), last, last, &[Writes(3, 1)]);
    hand
}

#[test]
fn a_log_comes_back_in_its_order_and_nowhere_else() {
    let mut hand = two_segments();
    let slot = hand.slot(2, 4);
    let mut opened = hand.open();
    for _ in 0..2 {
        assert_eq!(records(&opened, 0), [(1, 0), (2, 0), (1, 0), (3, 0)]);
        assert_eq!(locked(&opened, 0), None);
        assert_eq!(found(&opened, 0, 1), Found::Dirty(slot));
        assert_eq!(clean(&opened, 0, 1), None);
        assert_eq!(
            (phase(&opened, 2), phase(&opened, 5)),
            (Phase::Dirty, Phase::Dirty)
        );
        let flash = &opened.store;
        assert!(flash.is_whole(slot, &content(1, 2)));
        assert_eq!(
            flash.dirty_logs().get(disk(0)).unwrap().log().intervals(),
            3
        );
        // The next recovery finds the same.
        opened = hand.open_again();
    }
}

#[test]
fn a_torn_tail_is_cut_and_stays_cut() {
    let mut hand = two_segments();
    // The last block of segment 2 is torn, and what is behind it goes with it.
    let last = at(10, 2);
    let mut header = chunk_header((2, 10, 3), 0, last, &[Writes(1, 2)]);
    header.durable = last;
    hand.chunk(&header, &[Writes(1, 3)]);
    let mut header = chunk_header((5, 11, 0), 0, at(10, 4), &[Writes(3, 1)]);
    header.durable = last;
    hand.chunk(&header, &[Writes(3, 1)]);
    let opened = hand.open();
    assert_eq!(records(&opened, 0), [(1, 0), (2, 0)]);
    assert_eq!(locked(&opened, 0), None);
    assert_eq!(phase(&opened, 5), Phase::Free);
    // Behind the cut may be anything: a chunk that would be damage is not looked at.
    let durable = hand.log_chunk((2, 10, 3), last, last, &[Writes(1, 2)]);
    hand.log_chunk((2, 10, 6), at(10, 5), durable, &[Writes(4, 1)]);
    let opened = hand.open_again();
    assert_eq!(records(&opened, 0), [(1, 0), (2, 0)]);
    assert_eq!(locked(&opened, 0), None);
    // The log goes on in a new segment behind the cut.
    let generation = 3 << 32;
    let mut hand = two_segments();
    hand.page(2, 4).fill(0);
    let header = chunk_header((5, 11, 0), 0, at(10, 4), &[Writes(3, 1)]);
    hand.chunk(&header, &[Writes(3, 1)]);
    let header = chunk_header((2, 10, 3), 0, last, &[Writes(1, 2)]);
    hand.page(2, 3).copy_from_slice(&header.encode(UUID));
    let opened = hand.open();
    assert_eq!(records(&opened, 0), [(1, 0), (2, 0)]);
    let segment = opened.store.facts().committed().journal;
    let journal = JournalPage {
        sequence: segment,
        batch: segment,
        entries: vec![JournalEntry::Open {
            segment: SegmentIndex::new(7),
            disk: disk(0),
            generation,
            kind: DIRTY,
        }],
    };
    let offset = hand.geometry.journal_page_offset(segment);
    hand.write(offset, &journal.encode(UUID));
    hand.log_chunk((7, generation, 0), last, last, &[Writes(9, 1)]);
    let opened = hand.open_again();
    assert_eq!(records(&opened, 0), [(1, 0), (2, 0), (9, 0)]);
    assert_eq!(locked(&opened, 0), None);
}

#[test]
fn rot_below_what_was_durable_locks_the_disk_and_frees_nothing() {
    let mut hand = two_segments();
    hand.page(2, 3)[100] ^= 1;
    let mut opened = hand.open();
    for _ in 0..2 {
        assert_eq!(locked(&opened, 0), Some(LockReason::Damaged));
        // What can be read is kept for the operator.
        assert_eq!(records(&opened, 0), [(1, 0), (2, 0), (3, 0)]);
        assert_eq!(
            (phase(&opened, 2), phase(&opened, 5)),
            (Phase::Dirty, Phase::Dirty)
        );
        opened = hand.open_again();
    }
}

#[test]
fn rot_is_told_from_a_torn_tail_by_a_header_behind_it() {
    // In the last segment: a walk alone would end at the rot.
    let mut hand = Hand::of_disks(1);
    hand.opened(2, 0, 10, DIRTY);
    let last = hand.log_chunk(
        (2, 10, 0),
        Position::START,
        Position::START,
        &[Writes(1, 1)],
    );
    let last = hand.log_chunk((2, 10, 2), last, last, &[Writes(2, 1)]);
    hand.log_chunk((2, 10, 4), last, last, &[Writes(3, 1)]);
    hand.page(2, 2).fill(0xff);
    let opened = hand.open();
    assert_eq!(locked(&opened, 0), Some(LockReason::Damaged));
}

#[test]
fn a_last_chunk_that_the_tables_know_is_missed() {
    // Its header and its block.
    for page in [0, 1] {
        let mut hand = two_segments();
        hand.page(5, page).fill(0xff);
        let opened = hand.open();
        assert_eq!(records(&opened, 0), [(1, 0), (2, 0), (1, 0)]);
        assert_eq!(locked(&opened, 0), None, "nobody says that it was there");

        let mut hand = two_segments();
        hand.page(5, page).fill(0xff);
        hand.logged(0, at(11, 1));
        let mut opened = hand.open();
        // The journal says so, and then the checkpoint.
        for _ in 0..2 {
            if page == 0 {
                assert_eq!(locked(&opened, 0), Some(LockReason::Damaged));
            } else {
                // Whoever reads the block finds that it is not whole.
                assert_eq!(records(&opened, 0), [(1, 0), (2, 0), (1, 0), (3, 0)]);
                assert_eq!(locked(&opened, 0), None);
            }
            opened = hand.open_again();
        }
    }
}

#[test]
fn of_a_log_that_was_given_up_nothing_is_missed() {
    let mut hand = two_segments();
    hand.page(5, 0).fill(0xff);
    hand.logged(0, at(11, 1));
    hand.void.push(DiskId::from_u128(1));
    hand.open();
    let opened = hand.open_again();
    assert!(opened.store.dirty_logs().get(disk(0)).is_none());
}

#[test]
fn a_place_that_cannot_be_read_is_no_torn_tail() {
    for page in [3, 4, 9] {
        let mut hand = two_segments();
        let header = chunk_header((5, 11, 0), 0, at(10, 4), &[Writes(3, 1)]);
        hand.chunk(&header, &[Writes(3, 1)]);
        let last = at(10, 2);
        let header = chunk_header((2, 10, 3), 0, last, &[Writes(1, 2)]);
        hand.chunk(&header, &[Writes(1, 2)]);
        let segment = if page == 9 { 5 } else { 2 };
        hand.unreadable = vec![hand.offset(segment, page).get() / PAGE_BYTES as u64];
        let opened = hand.open();
        assert_eq!(locked(&opened, 0), Some(LockReason::Damaged), "page {page}");
    }
}

#[test]
fn where_a_log_may_be_that_is_not_found_is_doubt() {
    #[derive(Clone, Copy, PartialEq)]
    enum First {
        Whole,
        Damaged,
        Unreadable,
    }
    for page in [First::Whole, First::Damaged, First::Unreadable] {
        // Neither the journal nor the page of the table that is lost says that segment 5 is a log's.
        let mut hand = Hand::of_disks(1);
        hand.put_tables();
        let mut pages = 0..1000;
        let first =
            pages.find(|page| !CheckpointPage::segments_of(&hand.geometry, *page).is_empty());
        let offset = hand.geometry.checkpoint_page_offset(0, first.unwrap());
        hand.write(offset, &[0; PAGE_BYTES]);
        let start = Position::START;
        hand.log_chunk((5, 11, 0), start, start, &[Writes(3, 1)]);
        let header = hand.offset(5, 0);
        match page {
            First::Whole => {}
            First::Damaged => hand.write(header, &[0; PAGE_BYTES]),
            First::Unreadable => hand.unreadable = vec![header.get() / PAGE_BYTES as u64],
        }
        let mut opened = hand.open_again();
        for _ in 0..2 {
            let entry = opened.store.facts().disk_entry(disk(0)).unwrap();
            assert!(entry.in_doubt);
            let is_found = page == First::Whole;
            let reason = is_found.then_some(LockReason::Unbelievable);
            assert_eq!(locked(&opened, 0), reason);
            // The operator is told of it, and the next recovery finds whole tables, and the doubt in
            // them.
            let report = hand.inspect_again();
            let told: Vec<_> = report.logs.iter().map(|log| log.locked).collect();
            assert_eq!(told, [Some(LockReason::Unbelievable)]);
            opened = hand.open_again();
        }
    }
}

#[test]
fn a_trusted_slot_above_the_watermark_is_clean() {
    let mut hand = two_segments();
    hand.trusted(2, 2);
    let opened = hand.open();
    assert_eq!(found(&opened, 0, 2), Found::Clean);
    assert_eq!(clean(&opened, 0, 2), Some(hand.slot(2, 2)));
    // A trusted one that was written again is not.
    let mut hand = two_segments();
    hand.trusted(2, 1);
    let opened = hand.open();
    assert_eq!(found(&opened, 0, 1), Found::Dirty(hand.slot(2, 4)));
    assert_eq!(clean(&opened, 0, 1), None);
    assert!(!opened.store.trusts(hand.slot(2, 1)));
}

#[test]
fn an_older_clean_copy_does_not_come_back() {
    let mut hand = two_segments();
    hand.clean_segment(6, 0, 9, &[(1, 0), (40, 0)]);
    let slot = hand.slot(6, 1);
    let opened = hand.open();
    assert_eq!(clean(&opened, 0, 1), None);
    assert_eq!(clean(&opened, 0, 40), Some(hand.slot(6, 2)));
    let flash = &opened.store;
    assert!(!flash.trusts(slot), "a later life must not bring it");
}

#[test]
fn a_block_that_two_slots_claim_is_believed_of_neither() {
    let mut hand = Hand::of_disks(1);
    // Twice in one segment, and once more in another.
    hand.clean_segment(6, 0, 9, &[(1, 0), (2, 0), (1, 1), (3, 0)]);
    hand.clean_segment(7, 0, 10, &[(3, 0), (4, 0)]);
    let opened = hand.open();
    let found: Vec<_> = (1..5).map(|block| clean(&opened, 0, block)).collect();
    let (second, fourth) = (hand.slot(6, 2), hand.slot(7, 2));
    assert_eq!(found, [None, Some(second), None, Some(fourth)]);
    for (segment, page) in [(6, 1), (6, 3), (6, 4), (7, 1)] {
        assert!(!opened.store.trusts(hand.slot(segment, page)));
    }
    opened.store.self_check();
}

#[test]
fn what_is_written_after_an_erasure_counts_and_the_rest_reads_as_zeroes() {
    let mut hand = Hand::of_disks(1);
    hand.clean_segment(6, 0, 9, &[(12, 0)]);
    hand.opened(2, 0, 10, DIRTY);
    let does = [Writes(11, 1), Erases(10, 5), Writes(13, 1)];
    hand.log_chunk((2, 10, 0), Position::START, Position::START, &does);
    let opened = hand.open();
    assert_eq!(records(&opened, 0), [(11, 0), (10, 5), (13, 0)]);
    let until = |block| Found::Erased(BlockIndex::new(block));
    assert_eq!(found(&opened, 0, 11), until(13));
    assert_eq!(found(&opened, 0, 13), Found::Dirty(hand.slot(2, 2)));
    assert_eq!(found(&opened, 0, 14), until(15));
    assert_eq!(clean(&opened, 0, 12), None);
}

#[test]
fn what_is_below_the_watermark_is_clean_if_it_is_trusted() {
    let mut hand = two_segments();
    hand.destaged(0, at(10, 2));
    hand.trusted(2, 2);
    let opened = hand.open();
    assert_eq!(records(&opened, 0), [(1, 0), (3, 0)]);
    assert_eq!(watermark(&opened, 0), at(10, 2));
    assert_eq!(clean(&opened, 0, 2), Some(hand.slot(2, 2)));
    assert_eq!(phase(&opened, 2), Phase::Dirty);
}

#[test]
fn a_segment_below_the_watermark_is_an_ordinary_one() {
    let mut hand = two_segments();
    hand.destaged(0, at(10, 4));
    hand.trusted(2, 4);
    let opened = hand.open();
    assert_eq!(records(&opened, 0), [(3, 0)]);
    // It had no footer yet, so its chunks are walked.
    assert_eq!(clean(&opened, 0, 1), Some(hand.slot(2, 4)));
    assert_eq!(phase(&opened, 2), Phase::Closed);
    // The origin has everything, and what is not trusted does not count.
    let mut hand = two_segments();
    hand.destaged(0, at(11, 1));
    hand.trusted(5, 1);
    let opened = hand.open();
    assert!(opened.store.dirty_logs().get(disk(0)).is_none());
    assert_eq!(clean(&opened, 0, 3), Some(hand.slot(5, 1)));
    assert_eq!(
        (phase(&opened, 2), phase(&opened, 5)),
        (Phase::Free, Phase::Closed)
    );
}

#[test]
fn damage_below_the_watermark_is_none() {
    let mut hand = two_segments();
    hand.destaged(0, at(10, 2));
    hand.page(2, 0).fill(0xff);
    let opened = hand.open();
    assert_eq!(records(&opened, 0), [(1, 0), (3, 0)]);
    assert_eq!(locked(&opened, 0), None);
}

#[test]
fn chunks_of_an_earlier_use_of_a_segment_are_not_the_logs() {
    let mut hand = two_segments();
    // Segment 5 was segment of generation 8 before: behind the new chunk lies an old one.
    let old = chunk_header((5, 8, 2), 0, at(8, 1), &[Writes(77, 1)]);
    hand.chunk(&old, &[Writes(77, 1)]);
    let opened = hand.open();
    assert_eq!(records(&opened, 0), [(1, 0), (2, 0), (1, 0), (3, 0)]);
    assert_eq!(locked(&opened, 0), None);
}

#[test]
fn the_damage_of_one_disk_is_not_anothers() {
    let mut hand = two_segments();
    hand.disks[1] = hand.disks[0].clone().map(|entry| DiskEntry {
        id: DiskId::from_u128(2),
        ..entry
    });
    hand.opened(8, 1, 12, DIRTY);
    let does = [Writes(1, 9)];
    let header = chunk_header((8, 12, 0), 1, Position::START, &does);
    hand.chunk(&header, &does);
    hand.page(2, 3).fill(0xff);
    let opened = hand.open();
    assert_eq!(locked(&opened, 0), Some(LockReason::Damaged));
    assert_eq!(
        (locked(&opened, 1), records(&opened, 1)),
        (None, vec![(1, 0)])
    );
}

#[test]
fn a_lost_page_of_the_segment_table_locks_what_is_found_without_it() {
    let mut hand = two_segments();
    hand.journal.clear();
    hand.put_tables();
    let first =
        (0..1000).find(|page| !CheckpointPage::segments_of(&hand.geometry, *page).is_empty());
    let offset = hand.geometry.checkpoint_page_offset(0, first.unwrap());
    hand.write(offset, &[0; PAGE_BYTES]);
    let mut opened = hand.open_again();
    for _ in 0..2 {
        assert_eq!(records(&opened, 0), [(1, 0), (2, 0), (1, 0), (3, 0)]);
        assert_eq!(locked(&opened, 0), Some(LockReason::Unbelievable));
        assert_eq!(
            (phase(&opened, 2), phase(&opened, 5)),
            (Phase::Dirty, Phase::Dirty)
        );
        // The next recovery finds whole tables, and that they are not to be believed.
        opened = hand.open_again();
    }
}

#[test]
fn a_lost_page_of_the_disk_table_is_made_up_from_the_log() {
    let mut hand = two_segments();
    hand.put_tables();
    let offset = hand.geometry.checkpoint_page_offset(0, 0);
    hand.write(offset, &[0; PAGE_BYTES]);
    let opened = hand.open_again();
    assert_eq!(records(&opened, 0), [(1, 0), (2, 0), (1, 0), (3, 0)]);
    assert_eq!(locked(&opened, 0), Some(LockReason::Unbelievable));
    let entry = opened.store.facts().disk_entry(disk(0)).unwrap();
    assert_eq!(
        (entry.id, entry.size),
        (DiskId::from_u128(1), Bytes::mib(4))
    );
}

#[test]
fn a_gap_in_the_journal_makes_clean_blocks_void_and_locks_dirty_ones() {
    let mut hand = two_segments();
    hand.clean_segment(6, 0, 9, &[(40, 0)]);
    hand.put_tables();
    let beyond = JournalPage {
        sequence: 3,
        batch: 3,
        entries: vec![],
    };
    let offset = hand.geometry.journal_page_offset(3);
    hand.write(offset, &beyond.encode(UUID));
    let opened = hand.open_again();
    assert_eq!(clean(&opened, 0, 40), None);
    assert_eq!(locked(&opened, 0), Some(LockReason::Unbelievable));
    assert_eq!(records(&opened, 0), [(1, 0), (2, 0), (1, 0), (3, 0)]);
}

#[test]
fn a_retired_incarnation_keeps_its_dirty_log() {
    let mut hand = two_segments();
    hand.clean_segment(6, 0, 9, &[(40, 0)]);
    hand.required = Some(5);
    let opened = hand.open();
    assert_eq!(clean(&opened, 0, 40), None);
    assert_eq!(locked(&opened, 0), None);
    assert_eq!(records(&opened, 0), [(1, 0), (2, 0), (1, 0), (3, 0)]);
}

#[test]
fn the_journal_goes_on_when_the_tables_of_the_recovery_are_durable() {
    let mut hand = two_segments();
    hand.pace = LOGGED_AFTER;
    // The tables do not say that the log is durable up to its end: an entry will.
    let mut opened = hand.open();
    assert!(!hand.written.is_empty());
    let early = hand.written.iter().find(|offset| hand.is_journal(**offset));
    assert_eq!(early, None, "an entry overtakes the tables");
    hand.written.clear();
    opened.tick(&mut hand, Instant::ZERO + units::Duration::from_secs(1000));
    let late = hand.written.iter().any(|offset| hand.is_journal(*offset));
    assert!(late, "an entry has waited for the tables");
}

#[test]
fn what_waits_on_an_older_copy_is_in_doubt() {
    let mut hand = two_segments();
    hand.served = 5;
    let opened = hand.open();
    assert_eq!(locked(&opened, 0), Some(LockReason::Unbelievable));
    // So it is if nothing does: it may have come later.
    let mut hand = Hand::of_disks(1);
    hand.served = 5;
    let opened = hand.open();
    assert!(opened.store.facts().disk_entry(disk(0)).unwrap().in_doubt);
}

#[test]
fn flash_on_which_less_is_found_than_was_durable_is_an_older_copy() {
    let durable = two_segments().open().store.facts().committed();
    // What was durable when the cache was open, which is more than its first life had left.
    let behind = [
        Committed {
            superblock: durable.superblock,
            journal: 0,
        },
        Committed {
            superblock: 0,
            journal: durable.journal + 1,
        },
    ];
    for committed in behind {
        let mut hand = two_segments();
        hand.clean_segment(6, 0, 9, &[(40, 0)]);
        hand.committed = committed;
        let opened = hand.open();
        assert_eq!(locked(&opened, 0), Some(LockReason::Unbelievable));
        assert_eq!(clean(&opened, 0, 40), None);
    }
    // It goes on from where it was.
    let mut hand = two_segments();
    hand.clean_segment(6, 0, 9, &[(40, 0)]);
    let opened = hand.open();
    hand.committed = opened.store.facts().committed();
    assert!(hand.committed.is_beyond(Committed::default()));
    let opened = hand.open_again();
    assert_eq!(locked(&opened, 0), None);
    assert_eq!(clean(&opened, 0, 40), Some(hand.slot(6, 1)));
    assert_eq!(
        opened.store.facts().committed().max(hand.committed),
        opened.store.facts().committed()
    );
}

#[test]
fn what_a_killed_process_had_in_memory_is_found_and_written() {
    let mut hand = two_segments();
    // One chunk behind the last, and one in a segment of which the journal does not know yet.
    let (first, second) = ([Writes(4, 1), Erases(0, 1)], [Writes(5, 1)]);
    let header = chunk_header((5, 11, 2), 0, at(11, 1), &first);
    let last = header.last();
    hand.left.push(left(&header, &first));
    let header = chunk_header((9, 12, 0), 0, last, &second);
    hand.left.push(left(&header, &second));
    let mut opened = hand.open();
    for _ in 0..2 {
        let all = [(1, 0), (2, 0), (1, 0), (3, 0), (4, 0), (0, 1), (5, 0)];
        assert_eq!(records(&opened, 0), all);
        assert_eq!(locked(&opened, 0), None);
        assert_eq!(hand.page(9, 1), content(5, 1));
        // The next recovery finds them on flash.
        opened = hand.open_again();
    }
}

#[test]
fn a_cut_of_what_a_segment_was_used_for_before_says_nothing_of_memory() {
    let mut hand = two_segments();
    // Segment 9 was cut behind its second page, freed, and has two chunks in memory; which comes first
    // is as their places are.
    let (first, second) = ([Writes(4, 1)], [Writes(5, 1)]);
    let before = chunk_header((9, 12, 0), 0, at(11, 1), &first);
    let behind = chunk_header((9, 12, 2), 0, before.last(), &second);
    hand.left.push(left(&behind, &second));
    hand.left.push(left(&before, &first));
    hand.put_tables();
    hand.cut_when_free(9, 2);
    let opened = hand.open_again();
    let all = [(1, 0), (2, 0), (1, 0), (3, 0), (4, 0), (5, 0)];
    assert_eq!(records(&opened, 0), all);
    assert_eq!(locked(&opened, 0), None);
}

#[test]
fn what_was_in_memory_goes_before_what_is_torn_on_flash() {
    let mut hand = two_segments();
    let does = [Writes(3, 1)];
    let header = chunk_header((5, 11, 0), 0, at(10, 4), &does);
    hand.left.push(left(&header, &does));
    hand.page(5, 1).fill(0);
    let opened = hand.open();
    assert_eq!(records(&opened, 0), [(1, 0), (2, 0), (1, 0), (3, 0)]);
    assert_eq!(hand.page(5, 1), content(3, 1));
}

#[test]
fn what_memory_has_of_a_segment_that_was_freed_since_does_not_count() {
    let mut hand = two_segments();
    let does = [Writes(4, 1)];
    let header = chunk_header((9, 8, 0), 0, Position::START, &does);
    hand.left.push(left(&header, &does));
    hand.opened(9, 0, 9, CLEAN);
    hand.journal.push(JournalEntry::Free {
        segment: SegmentIndex::new(9),
        generation: 9,
    });
    let opened = hand.open();
    assert_eq!(records(&opened, 0), [(1, 0), (2, 0), (1, 0), (3, 0)]);
}

#[test]
fn the_operator_sees_what_is_dirty_and_where_it_lies() {
    let mut hand = two_segments();
    let does = [Erases(7, 2), Writes(4, 1)];
    let header = chunk_header((5, 11, 2), 0, at(11, 1), &does);
    hand.left.push(left(&header, &does));
    hand.destaged(0, at(10, 1));
    hand.trusted(5, 1);
    let report = hand.inspect();
    assert_eq!((report.uuid, report.in_doubt), (UUID, false));
    let [log] = &report.logs[..] else {
        panic!("one disk is dirty")
    };
    assert_eq!((log.id, &*log.name), (DiskId::from_u128(1), "vm0"));
    assert_eq!((log.epoch, log.watermark), (1, at(10, 1)));
    assert_eq!(log.locked, None);
    let told: Vec<(u64, u64, bool)> = log
        .records
        .iter()
        .map(|record| match &record.what {
            FoundWhat::Block {
                block, is_settled, ..
            } => (record.interval, block.get(), *is_settled),
            FoundWhat::Erasure(erasure) => (record.interval, erasure.first.get(), false),
        })
        .collect();
    let expected = [
        (0, 2, false),
        (1, 1, false),
        (2, 3, true),
        (3, 7, false),
        (3, 4, false),
    ];
    assert_eq!(told, expected);
    // The bytes are where the report says.
    for (record, (block, version)) in [(1, (1, 2)), (4, (4, 1))] {
        let FoundWhat::Block {
            bytes, checksum, ..
        } = &log.records[record].what
        else {
            panic!("it is a block")
        };
        let bytes = match bytes {
            FoundBytes::Flash(offset) => hand.device[offset.to_usize()..][..PAGE_BYTES].to_vec(),
            FoundBytes::Memory(bytes) => bytes.clone(),
        };
        assert_eq!(bytes, content(block, version));
        assert_eq!(*checksum, flash_format::checksum(&bytes));
    }
}

#[test]
fn a_damaged_log_is_shown_with_what_is_left_of_it() {
    let mut hand = two_segments();
    hand.page(2, 3).fill(0xff);
    let report = hand.inspect();
    assert_eq!(report.logs[0].locked, Some(LockReason::Damaged));
    assert_eq!(report.logs[0].records.len(), 3);
}

#[test]
fn a_log_that_the_operator_gives_up_is_void_for_good() {
    let mut hand = two_segments();
    hand.clean_segment(6, 0, 9, &[(40, 0)]);
    hand.page(2, 3).fill(0xff);
    hand.void.push(DiskId::from_u128(1));
    let mut opened = hand.open();
    for _ in 0..2 {
        assert!(opened.store.dirty_logs().get(disk(0)).is_none());
        assert_eq!(clean(&opened, 0, 40), None);
        assert_eq!(
            (phase(&opened, 2), phase(&opened, 5)),
            (Phase::Free, Phase::Free)
        );
        opened = hand.open_again();
    }
}

#[test]
fn what_a_medium_returns_wrong_once_is_read_again() {
    // A header in the middle, the header and the data of the last chunk.
    for (segment, page) in [(2, 3), (5, 0), (5, 1)] {
        let mut hand = two_segments();
        let place = hand.offset(segment, page).get() / PAGE_BYTES as u64;
        hand.garbled.push((place, 2));
        let does = [Writes(3, 1)];
        let header = chunk_header((5, 11, 0), 0, at(10, 4), &does);
        hand.chunk(&header, &does);
        let opened = hand.open();
        assert_eq!(records(&opened, 0), [(1, 0), (2, 0), (1, 0), (3, 0)]);
        assert_eq!(locked(&opened, 0), None);
    }
}
