//! Each guard of the cache is needed: without it the world finds a violation.
//!
//! `cargo nextest run -p world --features mutants --test mutants`; with `--no-capture` it prints
//! the seed that found each, for the table in the book.
//!
//! Of each it is said which invariants it keeps: another violation does not count. Where the search
//! begins is where it was found last, if that takes long; when worlds change it goes on from there.

#![allow(
    clippy::print_stdout,
    reason = "the seeds that it finds are for the book"
)]
#![allow(
    clippy::unreadable_literal,
    reason = "seeds are written as `world --seed` takes them"
)]

use core_guards::Guard;
use world::{
    COMMANDED_FIRST, HASTY_FIRST, LATE_FIRST, LYING_FIRST, Options, ROTTEN_FIRST, SPECIAL_EVERY,
    Violation, YOUNGER_EVERY, run,
};

/// Seeds to look through, those of other worlds included: every guard is missed long before.
const SEEDS: u64 = 600_000;

/// Which worlds are looked through.
#[derive(Clone, Copy)]
struct Worlds {
    first: u64,
    every: u64,
}

/// Those without write-back.
const ORIGIN: Worlds = Worlds { first: 0, every: 2 };

/// Those with.
const BACK: Worlds = Worlds { first: 1, every: 2 };

/// Those of one kind.
const fn special(first: u64) -> Worlds {
    let every = SPECIAL_EVERY;
    Worlds { first, every }
}

/// Flash that lies about what is durable, without write-back.
const LYING: Worlds = Worlds {
    first: LYING_FIRST[0],
    every: YOUNGER_EVERY,
};
/// Origins that carry out late what they have given up, without write-back.
const LATE: Worlds = Worlds {
    first: LATE_FIRST[0],
    every: YOUNGER_EVERY,
};
/// The same with write-back.
const LATE_BACK: Worlds = Worlds {
    first: LATE_FIRST[1],
    every: YOUNGER_EVERY,
};
const HASTY: Worlds = special(HASTY_FIRST);
const COMMANDED: Worlds = special(COMMANDED_FIRST);
const ROTTEN: Worlds = special(ROTTEN_FIRST);

/// The first of these seeds from `from` on in which the cache does wrong without this guard, and right
/// with it; and what it does wrong: one of `expected`, or whatever if that is empty.
fn first_violation(
    guard: Guard,
    worlds: Worlds,
    from: u64,
    expected: &[&str],
) -> Option<(u64, Violation)> {
    let seeds = (0..).map(|number| worlds.first + number * worlds.every);
    let seeds = seeds.skip_while(|seed| *seed < from);
    seeds
        .take_while(|seed| *seed < from + SEEDS)
        .find_map(|seed| {
            core_guards::remove(Some(guard));
            let failure = run(Options::new(seed)).err();
            core_guards::remove(None);
            let violation = failure?.violation;
            let counts = expected.is_empty() || expected.contains(&violation.invariant);
            (counts && run(Options::new(seed)).is_ok()).then_some((seed, violation))
        })
}

fn is_missed(guard: Guard, worlds: Worlds, from: u64, expected: &[&str]) {
    let Some((seed, violation)) = first_violation(guard, worlds, from, expected) else {
        panic!("{SEEDS} seeds found nothing wrong without {guard:?}");
    };
    println!("{guard:?}: seed {seed}: {violation}");
}

macro_rules! missed {
    ($($worlds:ident { $($name:ident: $guard:ident from $from:literal $expected:expr,)+ })+) => {
        $($(
            #[test]
            fn $name() {
                is_missed(Guard::$guard, $worlds, $from, &$expected);
            }
        )+)+

        /// Guards that have a test here.
        const TESTED: &[Guard] = &[$($(Guard::$guard,)+)+];
    };
}

/// Budgets are checked over long spans here: a block that is rewritten beyond one is found by
/// `crates/cache/tests/engine/admission.rs`. A log that is given up too early is locked, for which the world finds
/// a reason. The others do harm in one world of some hundred thousand: an older copy of the flash, and a journal
/// that overtakes the tables of a recovery, are found by `crates/block-store/src/recovery/tests.rs`; a crash
/// before what is void is durably so, and a disk that has left in one superblock only, by
/// `crates/cache/tests/engine/tables.rs`; a checkpoint ahead of the journal by `crates/block-store/src/store/tests.rs`;
/// a record that is closed before the journal is durable by
/// `crates/cache/tests/engine/back_changes.rs`; a destage that ends out of order by `crates/cache/src/back/mod.rs`;
/// a flush that is answered as its disk enters write-back, before the recovered log is durable, by
/// `crates/cache/tests/engine/back.rs`; flash that is believed again before what writes had passed is durable, by
/// `crates/cache/tests/engine/late_writes.rs`; what a flush says of what another has lost, and what a log has written and a flush for somebody
/// else has lost, by `crates/cache/tests/engine/failed_flush.rs`; what another host reads, by `sites_mutants.rs`;
/// what is shipped to another host, by `crates/cache/tests/engine/shipping.rs`.
const TESTED_ELSEWHERE: [Guard; 22] = [
    Guard::HeldStandsStill,
    Guard::VerifyBeforeShip,
    Guard::RecordsFollow,
    Guard::IntervalsTravel,
    Guard::WatermarkTravels,
    Guard::KeptIsDurable,
    Guard::LeftoversFirst,
    Guard::ShippedLogAlone,
    Guard::DurableBeforePeerReads,
    Guard::RewriteWithinBudget,
    Guard::ReadAgain,
    Guard::CheckpointIsDurable,
    Guard::OldCopyIsDoubt,
    Guard::TablesBeforeJournal,
    Guard::OwnerInBothSuperblocks,
    Guard::KnownBeforeClosed,
    Guard::VoidBeforeOpen,
    Guard::KnownBeforeReinstated,
    Guard::OrderBeforeDone,
    Guard::EnteringFlushWaitsForLog,
    Guard::FailedFlushSpoils,
    Guard::FailedFlushComesAgain,
];

#[test]
fn no_guard_is_without_a_test() {
    let is_tested = |guard| TESTED.contains(guard) || TESTED_ELSEWHERE.contains(guard);
    let mut untested = Guard::ALL.iter().filter(|guard| !is_tested(guard));
    assert_eq!(untested.next(), None);
}

missed! {
    ORIGIN {
        distrust_before_the_origin_is_written: DistrustBeforeOrigin from 0 ["I1", "I3"],
        wait_for_an_overlapping_write_that_waits: WaitForOverlappingWrite from 2180 ["I1", "I3"],
        put_copies_to_rest_once: RestOnce from 14698 ["I1"],
        end_the_rest_of_one_use_of_a_slot: RestOfOneUse from 1010538 ["I1", "I3"],
        kill_fills_of_blocks_that_are_written: KillFills from 0 ["I1", "I3"],
        admit_nothing_that_is_being_written: NoFillDuringWrite from 0 ["I1", "I3"],
        let_killed_fills_bring_nothing: KilledFillStaysOut from 0 ["I1", "I3"],
        keep_no_guess_that_a_write_has_overtaken: KilledGuessStaysOut from 5474 ["I1", "I3"],
        unstage_what_is_written: WriteUnstages from 0 ["I1", "I3"],
        unstage_what_is_erased: ErasureUnstages from 0 ["I1", "I3"],
        unstage_with_the_disk: DetachUnstages from 0 ["I1", "I3"],
        forget_what_a_failed_flush_has_lost: FailedFlushForgets from 2098 ["I1", "I2", "I3"],
        fetch_nothing_that_is_staged: NoFillOfStaged from 0 ["assert"],
        allocate_no_contended_write: NoAllocationOfContendedWrite from 0 ["I1", "I3"],
        keep_out_what_is_refused: RefusedStaysOut from 0 ["I7"],
        keep_no_copy_of_contended_writes: NoCopyOfContendedWrite from 0 ["I1", "I3"],
        drop_blocks_written_in_part: PartialWriteDrops from 0 ["I1", "I3"],
        drop_blocks_that_are_erased: ErasureDrops from 0 ["I1", "I3"],
        verify_what_comes_from_flash: VerifyChecksum from 0 ["I1", "I2", "I4"],
        leave_segments_alone_that_are_read: PinReaders from 0 ["assert"],
        trust_only_what_the_origin_keeps: OriginFlushBeforeTrust from 0 ["I1", "I3"],
        believe_no_journal_with_a_gap: JournalGap from 0 ["I1", "I3"],
        record_retirement_before_the_origin_is_written: RetireBeforeOrigin from 0 ["I1", "I3"],
        record_that_the_flash_is_in_doubt_before_it_is_passed: RecordBeforePassing from 6640 ["I1", "I3"],
        wait_again_before_the_flash_is_believed: WaitWhileReturning from 41766 ["I1", "I3"],
        believe_no_retired_incarnation: Incarnation from 0 ["I1", "I3"],
        believe_no_blocks_of_an_origin_that_was_changed: Fingerprint from 0 ["I1", "I3"],
        replay_from_what_may_not_be_in_the_checkpoint: CheckpointStart from 3086 ["I1", "I3"],
        believe_no_descriptors_of_an_earlier_use: Generation from 22878 ["I1", "I3", "I4"],
        take_no_unread_journal_for_an_empty_one: UnreadJournal from 6192 ["I1", "I3"],
        give_no_segment_to_the_next_disk: SegmentNeedsItsDisk from 12298 ["I4"],
        free_durably_before_reuse: FreeBeforeReuse from 30268 ["I1", "I3"],
        free_before_the_checkpoint: FreedBeforeCheckpoint from 21330 ["I1", "I3"],
        record_before_a_disk_is_given_away: RecordBeforeDetach from 1192 ["I1", "I3"],
    }
    BACK {
        keep_no_copy_of_what_a_write_has_overtaken: FrameDies from 19857 ["I1", "I3"],
        tell_of_a_failed_flush: FailedFlushIsTold from 43 ["I2"],
        open_the_record_again_when_nobody_knows: OpenAfterDoubt from 0 ["I1", "I2", "I6", "prefix"],
        open_a_record_on_flash_that_is_believed: OpenRecordInTime from 2779 ["I1", "I3", "I6", "prefix"],
        open_the_record_before_the_first_write: RecordOpenBeforeWrite from 43 ["I2"],
        take_accepted_writes_over_to_the_next_process: AcceptedOutlivesProcess from 0 ["I1", "I6", "prefix"],
        append_before_a_flush_is_answered: AppendBeforeAnswer from 0 ["I1", "I6", "prefix"],
        flush_the_origin_before_the_watermark: OriginFlushBeforeSettled from 0 ["I6", "origin alone"],
        write_only_what_is_alone_with_fua: FlushWhatWasPlain from 0 ["I6", "origin alone"],
        bring_intervals_to_the_origin_in_their_order: IntervalOrder from 0 ["origin alone"],
        bring_again_what_the_origin_refused: RefusedComesAgain from 0 ["I6", "origin alone"],
        let_the_later_record_win: LaterRecordWins from 0 ["I1", "I6"],
        distrust_the_older_copy: DistrustOlderCopy from 0 ["I1"],
        let_a_record_beat_a_clean_copy: DirtyBeatsClean from 0 ["I1", "assert"],
        bring_nothing_to_the_origin_that_is_not_whole: VerifyBeforeDestage from 0 ["I4", "I6", "origin alone"],
        read_erased_blocks_as_zeroes: ErasedReadsZeroes from 0 ["I1"],
        merge_one_write_at_a_time: MergeAlone from 0 ["I1", "I6"],
        let_writes_on_their_way_end_before_write_back: SwitchWaits from 0 ["I1", "I2", "I6", "origin alone"],
        fetch_nothing_that_is_dirty: NoFillOfDirty from 0 ["I1"],
        kill_fills_of_blocks_that_are_accepted: AcceptKillsFills from 0 ["I1", "assert"],
        unstage_what_is_accepted: AcceptUnstages from 851 ["I1", "I6"],
        fetch_nothing_in_place_of_what_is_dirty: NoRefetchOfDirty from 0 ["I1"],
        close_the_record_before_the_log_is_passed: RecordClosedBeforeBypass from 0 ["I6"],
        close_the_record_when_the_origin_has_everything: EmptyBeforeClosed from 0 ["I6"],
        believe_no_flash_that_is_older_than_the_record: Epoch from 0 ["I5"],
        refuse_to_detach_what_waits: DetachRefusesDirty from 0 ["I6"],
        keep_the_size_of_what_waits: SameSize from 0 ["commands"],
        compare_the_tail_with_its_checksums: TailChecksum from 0 ["I1", "I8", "commands", "never hostage"],
    }
    LYING {
        believe_no_tables_that_are_behind_the_record: CommittedIsThere from 1226 ["I1", "I3"],
        use_no_number_of_a_checkpoint_that_was_lost_again: NumbersAreSkipped from 765130 ["I4"],
    }
    LATE {
        flush_what_has_come_late: LateBytesAreFlushed from 169990 ["I1", "I3"],
    }
    LATE_BACK {
        flush_what_was_read_of_a_late_change: LateReadsAreFlushed from 1051935 ["I2"],
    }
    HASTY {
        know_the_segment_before_memory_forgets: OpenBeforeForgotten from 1677 ["I1", "I6", "prefix"],
        know_the_segment_before_a_flush_is_answered: OpenBeforeAnswer from 0 ["I1", "I6", "prefix"],
        bring_to_the_origin_what_is_durable: DurableBeforeDestage from 9517 ["I1", "I2", "I3", "prefix"],
        know_the_watermark_before_a_block_comes_again: WatermarkBeforeNext from 4301 ["origin alone"],
        wait_with_what_was_superseded: SupersededWaits from 0 ["I6"],
        end_the_interval_at_a_recovery: RecoveryEndsInterval from 733 ["origin alone"],
        end_the_log_where_a_chunk_is_missing: ChunksFollow from 2301 ["prefix", "I1", "I6"],
        let_what_was_cut_off_stay_so: CutStays from 0 ["I1", "I8", "commands", "never hostage"],
        pass_what_went_out_of_order_before_the_rest: HolesBeforeOrder from 147597 ["I1", "I6", "origin alone"],
    }
    COMMANDED {
        read_the_log_of_failed_flash_with_its_key: KeyForFailedFlash from 75045 ["I1", "I2", "I4"],
        enter_the_epoch_before_the_record: EpochBeforeRecord from 1637 ["commands"],
        decrypt_by_the_same_key: SameKey from 0 ["I2", "I4"],
        close_the_record_before_what_waits_is_dropped: ClosedBeforeDropped from 709 ["I1", "I6"],
    }
    ROTTEN {
        lock_a_log_that_ends_before_memory: MemoryFollows from 42547 ["I1", "I6"],
        lock_a_log_of_which_something_is_missing: DamageLocks from 0 ["I1", "I6"],
        take_nothing_unreadable_for_torn: UnreadableIsNotTorn from 1155 ["I1", "I6", "prefix"],
        name_what_is_durable: DurableIsNamed from 243219 ["I1", "I6"],
        count_only_whole_records_of_memory: LeftChecksum from 0 ["I1", "I2", "dirty again", "never hostage"],
        lock_a_log_whose_watermark_may_be_wrong: DoubtLocks from 899 ["I1", "I6", "origin alone"],
    }
}
