//! Each guard of the cache is needed: without it the world finds a violation.
//!
//! `cargo nextest run -p world --features mutants --test mutants`; with `--no-capture` it prints
//! the seed that found each, for the table in the book.

#![allow(
    clippy::print_stdout,
    reason = "the seeds that it finds are for the book"
)]

use cache::guard::{self, Guard};
use world::{Options, Violation, run};

/// Seeds to look through: every guard is missed long before.
const SEEDS: u64 = 50_000;

/// The first of these seeds in which the cache does wrong without this guard, and right with it; and
/// what it does wrong.
fn first_violation(guard: Guard, from: u64) -> Option<(u64, Violation)> {
    (from..SEEDS).step_by(2).find_map(|seed| {
        guard::remove(Some(guard));
        let failure = run(Options::new(seed)).err();
        guard::remove(None);
        let violation = failure?.violation;
        run(Options::new(seed)).is_ok().then_some((seed, violation))
    })
}

fn is_missed(guard: Guard, from: u64) {
    let Some((seed, violation)) = first_violation(guard, from) else {
        panic!("{SEEDS} seeds found nothing wrong without {guard:?}");
    };
    println!("{guard:?}: seed {seed}: {violation}");
}

macro_rules! missed {
    (from $from:literal: $($name:ident: $guard:ident,)+) => {
        $(
            #[test]
            fn $name() {
                is_missed(Guard::$guard, $from);
            }
        )+
    };
}

// Worlds of odd seeds have write-back.
missed! {
    from 0:
    distrust_before_the_origin_is_written: DistrustBeforeOrigin,
    wait_for_an_overlapping_write_that_waits: WaitForOverlappingWrite,
    kill_fills_of_blocks_that_are_written: KillFills,
    admit_nothing_that_is_being_written: NoFillDuringWrite,
    let_killed_fills_bring_nothing: KilledFillStaysOut,
    unstage_what_is_written: WriteUnstages,
    unstage_what_is_erased: ErasureUnstages,
    unstage_with_the_disk: DetachUnstages,
    fetch_nothing_that_is_staged: NoFillOfStaged,
    allocate_no_contended_write: NoAllocationOfContendedWrite,
    keep_out_what_is_refused: RefusedStaysOut,
    keep_no_copy_of_contended_writes: NoCopyOfContendedWrite,
    drop_blocks_written_in_part: PartialWriteDrops,
    drop_blocks_that_are_erased: ErasureDrops,
    verify_what_comes_from_flash: VerifyChecksum,
    leave_segments_alone_that_are_read: PinReaders,
    trust_only_what_the_origin_keeps: OriginFlushBeforeTrust,
    believe_no_journal_with_a_gap: JournalGap,
    record_retirement_before_the_origin_is_written: RetireBeforeOrigin,
    believe_no_retired_incarnation: Incarnation,
    believe_no_blocks_of_an_origin_that_was_changed: Fingerprint,
    replay_from_what_may_not_be_in_the_checkpoint: CheckpointStart,
    believe_no_descriptors_of_an_earlier_use: Generation,
    take_no_unread_journal_for_an_empty_one: UnreadJournal,
    give_no_segment_to_the_next_disk: SegmentNeedsItsDisk,
    free_durably_before_reuse: FreeBeforeReuse,
    free_before_the_checkpoint: FreedBeforeCheckpoint,
    write_owners_to_both_superblocks: OwnerInBothSuperblocks,
    record_before_a_disk_is_given_away: RecordBeforeDetach,
}
