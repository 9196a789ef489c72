//! Blocks that are prefetched into memory: when they are fetched, what they are worth, and when they are gone.

use crate::rig::Rig;
use crate::support::Bench;
use block_io::OriginVerb;
use cache::{Cache, Config, DiskStats, Foreseen, OfDirty};
use tenancy::Settings;
use units::{BLOCK_BYTES, Bytes, DiskSlot, Duration, Prng, TenantSlot};

const FLASH: Bytes = Bytes::mib(24);
const SEGMENT: Bytes = Bytes::kib(64);
const BLOCKS: u64 = 20_000;

fn settings(admission: &str, miners: &str) -> Settings {
    Settings {
        admission: admission.parse().unwrap(),
        staging: Bytes::mib(1),
        prefetch: miners.parse().unwrap(),
        ..Settings::default()
    }
}

/// A disk whose reads are foreseen.
fn foreseeing(miners: &str) -> Rig {
    let mut rig = Rig::through();
    for block in 1..30 {
        rig.write(block, number(block));
    }
    set(&mut rig, miners);
    rig.told.clear();
    rig
}

/// What fills a block that nobody has written since.
fn number(block: u64) -> u8 {
    u8::try_from(block + 1).unwrap()
}

/// The first byte of a block as a guest reads it.
fn read(rig: &mut Rig, block: u64) -> u8 {
    rig.read(block).unwrap()[0]
}

fn set(rig: &mut Rig, miners: &str) {
    let (now, settings) = (rig.now(), settings("always", miners));
    rig.cache_mut().set_tenancy(Some(settings), now).unwrap();
}

/// Runs of blocks that the origin was read for: the first block and how many.
fn reads(rig: &Rig) -> Vec<(u64, u64)> {
    let reads = rig.told.iter().filter_map(|verb| match verb {
        OriginVerb::Read { offset, length, .. } => {
            Some((offset.get() / BLOCK_BYTES, length.get() / BLOCK_BYTES))
        }
        _ => None,
    });
    reads.collect()
}

fn stats(rig: &mut Rig) -> DiskStats {
    let disk = rig.disk;
    rig.cache_mut().facts().stats_of(disk).unwrap()
}

fn foreseen(cache: &Cache) -> Foreseen {
    cache.facts().foreseen(TenantSlot::new(0)).unwrap()
}

#[test]
fn what_was_foreseen_is_read_from_memory_and_enters_the_flash_as_a_miss_would() {
    let mut rig = foreseeing("sequential:n=4");
    assert_eq!(read(&mut rig, 1), 2);
    assert_eq!(reads(&rig), [(1, 1), (2, 4)]);
    assert_eq!(rig.cache_mut().facts().status().ahead_blocks, 4);
    assert_eq!(rig.cache_mut().facts().status().cached_blocks, 1);
    rig.told.clear();
    assert_eq!(read(&mut rig, 3), 4);
    assert_eq!(reads(&rig), [(6, 2)], "only what is guessed next");
    let counted = stats(&mut rig);
    assert_eq!(
        (counted.read_block_ahead_hits, counted.read_block_misses),
        (1, 1)
    );
    assert_eq!(rig.cache_mut().facts().status().cached_blocks, 2);
}

#[test]
fn a_guess_waits_until_no_read_of_its_disk_waits_at_the_origin() {
    let mut rig = foreseeing("sequential:n=4");
    rig.hold_reads = true;
    let first = rig.begin_read(1);
    let second = rig.begin_read(20);
    assert_eq!(reads(&rig), [(1, 1), (20, 1)]);
    rig.free();
    assert_eq!(rig.bytes(first).unwrap().unwrap()[0], 2);
    assert_eq!(rig.bytes(second).unwrap().unwrap()[0], 21);
    assert_eq!(reads(&rig)[2..], [(2, 4), (21, 4)]);
}

/// A guest reads a block that nobody has read before, which takes the origin so long.
fn read_within(rig: &mut Rig, block: u64, time: Duration) {
    rig.hold_reads = true;
    rig.begin_read(block);
    rig.pass(time);
    rig.answer_held_read(block);
}

#[test]
fn nothing_is_fetched_while_what_was_fetched_makes_guests_wait_longer() {
    let mut rig = foreseeing("readahead");
    let usual = Duration::from_millis(1);
    for apart in 0..100 {
        read_within(&mut rig, 1000 + apart * 8, usual);
    }
    // A stream has a window on its way, which holds up what the guest reads elsewhere.
    for block in 100..102 {
        read_within(&mut rig, block, usual);
    }
    let fetched = foreseen(rig.cache_mut()).fetched_blocks;
    assert!(fetched > 0);
    for apart in 0..20 {
        read_within(&mut rig, 2000 + apart * 8, Duration::from_millis(5));
    }
    rig.free();
    for block in 300..310 {
        read_within(&mut rig, block, usual);
    }
    assert_eq!(foreseen(rig.cache_mut()).fetched_blocks, fetched);
    // With the origin as fast as it was, streams are read ahead again.
    for apart in 0..200 {
        read_within(&mut rig, 3000 + apart * 5, usual);
    }
    for block in 500..502 {
        read_within(&mut rig, block, usual);
    }
    assert!(foreseen(rig.cache_mut()).fetched_blocks > fetched);
}

#[test]
fn a_guest_that_wants_what_is_on_its_way_joins_it() {
    let mut rig = foreseeing("sequential:n=4");
    rig.read(1).unwrap();
    rig.hold_reads = true;
    rig.read(2).unwrap();
    assert_eq!(rig.reads_held_at_origin(), (1, BLOCK_BYTES), "block 6");
    let read = rig.begin_read(6);
    assert_eq!(rig.reads_held_at_origin(), (1, BLOCK_BYTES));
    rig.free();
    assert_eq!(rig.bytes(read).unwrap().unwrap()[0], 7);
    let seen = foreseen(rig.cache_mut());
    assert_eq!((seen.used_blocks, seen.wasted_blocks), (2, 0));
}

#[test]
fn what_a_write_overtakes_on_its_way_is_not_kept() {
    let mut rig = foreseeing("sequential:n=4");
    rig.read(1).unwrap();
    rig.hold_reads = true;
    rig.read(2).unwrap();
    let write = rig.begin_write(6, 99);
    rig.free();
    assert_eq!(rig.answer(write), Some(Ok(())));
    assert_eq!(foreseen(rig.cache_mut()).wasted_blocks, 1);
    assert_eq!(read(&mut rig, 6), 99);
    assert_eq!(stats(&mut rig).read_block_ahead_hits, 1, "block 2 alone");
}

#[test]
fn a_write_takes_the_frame_of_what_was_foreseen() {
    let mut rig = foreseeing("sequential:n=4");
    rig.read(1).unwrap();
    rig.write(3, 99);
    assert_eq!(read(&mut rig, 3), 99);
    assert_eq!(foreseen(rig.cache_mut()).wasted_blocks, 1);
}

#[test]
fn a_guess_that_fails_at_the_origin_is_wasted_and_hurts_nobody() {
    let mut rig = foreseeing("sequential:n=4");
    rig.read(1).unwrap();
    rig.hold_reads = true;
    rig.read(2).unwrap();
    rig.fail_held_reads();
    rig.free();
    assert_eq!(read(&mut rig, 6), 7);
    assert_eq!(foreseen(rig.cache_mut()).wasted_blocks, 1);
}

#[test]
fn other_miners_and_another_disk_begin_without_what_was_fetched_before() {
    let mut rig = foreseeing("sequential:n=4");
    rig.read(1).unwrap();
    rig.hold_reads = true;
    rig.read(2).unwrap();
    set(&mut rig, "readahead");
    assert_eq!(rig.cache_mut().facts().status().ahead_blocks, 0);
    rig.free();
    assert_eq!(rig.cache_mut().facts().status().ahead_blocks, 0);
    set(&mut rig, "sequential:n=4");
    rig.read(10).unwrap();
    rig.hold_reads = true;
    rig.read(11).unwrap();
    rig.hold_reads = false;
    rig.detach(OfDirty::Refuse).unwrap();
    assert_eq!(rig.cache_mut().facts().status().ahead_blocks, 0);
    set(&mut rig, "none");
    assert!(
        rig.cache_mut()
            .facts()
            .foreseen(TenantSlot::new(0))
            .is_none()
    );
}

fn open(admission: &str, miners: &str) -> (Bench, Cache, DiskSlot) {
    let config = Config {
        tenancy: Some(settings(admission, miners)),
        ..Config::default()
    };
    let (mut bench, mut cache) = Bench::open(FLASH, SEGMENT, config);
    let disk = bench.attach(&mut cache, 1, Bytes::new(BLOCKS * BLOCK_BYTES));
    (bench, cache, disk)
}

#[test]
fn a_stream_asks_the_origin_for_windows_instead_of_blocks() {
    let (mut bench, mut cache, disk) = open("always", "readahead");
    for block in 0..1000 {
        bench.read(&mut cache, disk, block);
    }
    let asked = bench.asked.len();
    assert!(asked < 200, "{asked} requests for 1,000 blocks");
    let seen = foreseen(&cache);
    assert!(
        seen.used_blocks > 900 && seen.wasted_blocks == 0,
        "{seen:?}"
    );
}

/// A miner that is always wrong wastes what its price allows, and no more.
#[test]
fn random_reads_waste_no_more_than_a_tenth_and_the_bucket() {
    let (mut bench, mut cache, disk) = open("always", "sequential:n=8");
    let mut dice = Prng::new(7);
    for _ in 0..5_000 {
        bench.read(&mut cache, disk, dice.below(BLOCKS / 20) * 20);
    }
    let seen = foreseen(&cache);
    assert!(seen.wasted_blocks <= 500 + 256 + 32, "{seen:?}");
    assert!(seen.refused_guesses > 4_000, "{seen:?}");
}

/// A price lets only so many guesses be outstanding. Wrong ones that stayed would leave no room for the right ones.
#[test]
fn a_stream_is_foreseen_after_any_number_of_wrong_guesses() {
    let (mut bench, mut cache, disk) = open("always", "readahead");
    let mut dice = Prng::new(7);
    for _ in 0..2_000 {
        let begun = dice.below(BLOCKS / 20) * 20;
        // Long enough for a stream to be seen, and then it ends.
        for block in begun..begun + 3 {
            bench.read(&mut cache, disk, block);
        }
    }
    let before = foreseen(&cache);
    assert!(before.wasted_blocks > 100, "{before:?}");
    // The guest reads on where nobody guesses, for as long as wrong guesses are kept.
    for _ in 0..2_000 {
        bench.read(&mut cache, disk, dice.below(BLOCKS / 20) * 20);
    }
    for block in 0..BLOCKS / 4 {
        bench.read(&mut cache, disk, block);
    }
    let used = foreseen(&cache).used_blocks - before.used_blocks;
    assert!(used > 1_000, "{used}: {:?}", foreseen(&cache));
}

/// What a cache has decided.
fn decisions(admission: &str, miners: &str) -> (Vec<u64>, u64) {
    let (mut bench, mut cache, disk) = open(admission, miners);
    let mut dice = Prng::new(5);
    for _ in 0..3_000 {
        let first = {
            let range = 1 + dice.below(BLOCKS - 8);
            dice.below(range)
        };
        for block in first..first + 1 + dice.below(8) {
            if dice.below(12) == 0 {
                bench.write(&mut cache, disk, block);
            } else {
                bench.read(&mut cache, disk, block);
            }
        }
    }
    let of_disk = cache.facts().stats_of(disk).unwrap();
    (
        crate::support::decided(&cache, disk),
        of_disk.read_block_ahead_hits,
    )
}

/// A guess is no demand: with miners the same blocks are staged, enter the flash, are kept there and leave.
#[test]
fn a_cache_decides_with_foresight_as_without() {
    for admission in ["always", "reuse-age", "staging", "larc"] {
        let (without, none) = decisions(admission, "none");
        assert_eq!(none, 0);
        for miners in ["readahead", "sequential:n=8", "readahead,vip,mithril"] {
            let (with, hits) = decisions(admission, miners);
            assert_eq!(with, without, "{admission}, {miners}");
            assert!(hits >= 20, "{admission}, {miners}: {hits}");
        }
    }
}

fn listen(rig: &mut Rig, listens: bool) {
    let disk = rig.disk;
    rig.cache_mut().guest(disk).set_listening(listens);
}

/// The guest reads what it is told of: that teaches the price nothing, and one guess of eight is held out.
#[test]
fn a_guest_that_listens_is_told_of_seven_guesses_in_eight() {
    let mut rig = foreseeing("sequential:n=1");
    read(&mut rig, 1);
    assert_eq!(rig.expected, [], "nobody listens");
    listen(&mut rig, true);
    for block in 3..11 {
        // Each second block is guessed, and not read before the next is.
        read(&mut rig, 2 * block);
    }
    let told = rig.expected.clone();
    assert_eq!(told.len(), 7, "{told:?}");
    assert!(told.iter().all(|(_, count)| *count == 1), "{told:?}");
    listen(&mut rig, false);
    read(&mut rig, 24);
    assert_eq!(rig.expected, told);
    let (first, _) = told[0];
    read(&mut rig, first);
    let seen = foreseen(rig.cache_mut());
    assert_eq!((seen.used_blocks, seen.told_blocks), (1, 1));
}

/// What a write has overtaken has no frame, and the guest is told of none.
#[test]
fn a_guest_is_told_only_of_what_is_in_memory() {
    let mut rig = foreseeing("sequential:n=4");
    listen(&mut rig, true);
    rig.hold_reads = true;
    let first = rig.begin_read(1);
    rig.free();
    rig.bytes(first).unwrap().unwrap();
    assert_eq!(rig.expected, [(2, 4)]);
    rig.hold_reads = true;
    let second = rig.begin_read(10);
    rig.answer_held_read(10);
    rig.write(12, 77);
    rig.free();
    rig.bytes(second).unwrap().unwrap();
    assert_eq!(rig.expected[1..], [], "all of the fill was killed");
}
