//! Short worlds: none finds a violation, and together they reach every rare branch. There are as many as that takes; the program
//! `world --seeds` runs more.

#![allow(clippy::panic, reason = "a failure prints its whole trace")]

use std::sync::atomic::{AtomicU64, Ordering};
use world::{LATE_FIRST, LYING_FIRST, Marks, Options, YOUNGER_EVERY, run};

const SEEDS: u64 = 3_000;
/// They take longer.
const SEEDS_WITH_WRITE_BACK: u64 = 1_000;

/// Branches that the seeds above must reach. Those that they cannot are tested elsewhere: an
/// index without a place for a block needs blocks that were chosen for it.
const RARE: [&str; 62] = [
    "attach while running",
    "block evicted",
    "blocks came back",
    "blocks in flight at a crash",
    "budget",
    "checkpoint",
    "checkpoint in flight at a crash",
    "checksum mismatch",
    "guest scribbles",
    "read in place",
    "read repeated",
    "clean start",
    "clean stop",
    "cold: journal damaged",
    "cold: retired",
    "contended write",
    "crash",
    "crash while opening",
    "damage in a scrubbed world",
    "descriptors lost",
    "detach",
    "drop",
    "error reached a guest",
    "first-touch",
    "flash could not be opened",
    "flash dies",
    "flash error",
    "flash taken back",
    "flash timeout",
    "grown while served",
    "hot block read",
    "prefetched block read",
    "image joined",
    "image left",
    "journal page in flight at a crash",
    "journal wrapped",
    "killed fill",
    "nonsense refused",
    "not admitted: no segment",
    "not admitted: settings",
    "not admitted: write buffer",
    "not rewritten for the budget",
    "old copy of the flash put back",
    "power cut",
    "retirement",
    "retirement not recorded",
    "rewritten block trusted again",
    "segment reclaimed",
    "scrub",
    "sequential",
    "settings changed",
    "settings refused",
    "shared fill",
    "size changed",
    "staged block read",
    "stranger noticed",
    "survivor kept",
    "too-cold",
    "too-late",
    "window ended",
    "write allocated",
    "write waited for the journal",
];

/// The same for worlds with write-back.
const RARE_WITH_WRITE_BACK: [&str; 21] = [
    "another cache",
    "attached with a shorter origin",
    "attached with what waits",
    "chunk left in retained memory",
    "destaged",
    "detached with what waits",
    "detached without what waited",
    "flash lost",
    "one cut",
    "origin full",
    "origin gone",
    "owner not recorded",
    "owner's record closed",
    "policy: from back",
    "policy: to back",
    "refused: dirty",
    "refused: elsewhere",
    "refused: no write-back",
    "refused: not recorded",
    "went on from the origin alone",
    "what waited was given up",
];

/// What worlds of these kinds are for, by the seeds that are of the kind.
const RARE_OF_KINDS: [([u64; 2], &[&str]); 2] = [
    (
        LATE_FIRST,
        &["late change landed", "waited for a late change"],
    ),
    (
        LYING_FIRST,
        &[
            "cold: journal damaged",
            "cold: older copy",
            "cold: retired",
            "lying flash spares nothing",
            "lying flash spares the newest page",
        ],
    ),
];

/// Worlds beyond those above that have found something, most of them in the cache.
const FOUND: [u64; 58] = [
    24_435, 24_855, 28_953, 35_117, 39_635, 42_547, 63_269, 75_045, 77_669, 87_813, 95_013, 99_987,
    100_329, 103_027, 106_055, 117_761, 153_563, 156_961, 158_645, 169_990, 171_334, 182_149,
    187_718, 208_419, 227_917, 232_787, 237_089, 266_643, 322_827, 339_667, 342_873, 347_487,
    394_401, 424_693, 445_411, 489_393, 500_146, 522_153, 529_515, 572_671, 621_257, 707_381,
    726_049, 758_251, 765_130, 770_845, 788_711, 798_269, 811_347, 889_779, 921_999, 1_000_451,
    1_009_033, 1_010_538, 1_013_187, 1_023_693, 1_026_649, 1_051_935,
];

#[test]
fn worlds_that_once_found_something_find_nothing() {
    for seed in FOUND {
        if let Err(failure) = run(Options::new(seed)) {
            panic!("seed {seed}: {}", failure.violation);
        }
    }
}

#[test]
fn worlds_hold_and_reach_every_rare_branch() {
    let marks = run_all(0, SEEDS);
    let missed: Vec<_> = RARE.iter().filter(|name| marks.count(name) == 0).collect();
    assert!(missed.is_empty(), "no seed reached: {missed:?}");
}

#[test]
fn worlds_with_write_back_hold_and_reach_every_rare_branch() {
    let marks = run_all(1, SEEDS_WITH_WRITE_BACK);
    let rare = RARE_WITH_WRITE_BACK.iter();
    let missed: Vec<_> = rare.filter(|name| marks.count(name) == 0).collect();
    assert!(missed.is_empty(), "no seed reached: {missed:?}");
}

#[test]
fn late_and_lying_worlds_hold_and_reach_what_they_are_for() {
    for (firsts, rare) in RARE_OF_KINDS {
        for first in firsts {
            let marks = run_some((0..150).map(|number| first + number * YOUNGER_EVERY));
            let missed: Vec<_> = rare.iter().filter(|name| marks.count(name) == 0).collect();
            assert!(
                missed.is_empty(),
                "no seed from {first} on reached: {missed:?}"
            );
        }
    }
}

fn run_some(seeds: impl Iterator<Item = u64>) -> Marks {
    let mut marks = Marks::default();
    for seed in seeds {
        match run(Options::new(seed)) {
            Ok(outcome) => marks.merge(&outcome.marks),
            Err(failure) => panic!("seed {seed}: {}", failure.violation),
        }
    }
    marks
}

fn run_all(from: u64, seeds: u64) -> Marks {
    let next = AtomicU64::new(0);
    let work = || {
        let mut marks = Marks::default();
        loop {
            // Those of odd seeds have write-back.
            let seed = from + 2 * next.fetch_add(1, Ordering::Relaxed);
            if seed >= 2 * seeds {
                return marks;
            }
            match run(Options::new(seed)) {
                Ok(outcome) => marks.merge(&outcome.marks),
                Err(failure) => panic!(
                    "seed {seed}: {}\n{}\nagain: cargo run -p world -- --seed {seed} --trace",
                    failure.violation,
                    failure.trace.join("\n")
                ),
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut marks = Marks::default();
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        for thread in running {
            marks.merge(
                &thread
                    .join()
                    .expect("a thread that finds something says it itself"),
            );
        }
    });
    marks
}
