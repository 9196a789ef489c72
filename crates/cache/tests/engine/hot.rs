//! Copies in memory of what guests read, in a cache whose flash and origins work at once.

use crate::support::Bench;
use cache::{Cache, Command, Config, ControlId, Verb};
use policy::replacement::Fraction;
use tenancy::Settings;
use units::{BLOCK_BYTES, Bytes, DiskSlot, Duration, Offset, Prng};

const FLASH: Bytes = Bytes::mib(24);
const SEGMENT: Bytes = Bytes::kib(64);
const BLOCKS: u64 = 20_000;

/// A cache with so much memory beside staging.
fn open(admission: &str, hot: &str, copies: Bytes) -> (Bench, Cache, DiskSlot) {
    let settings = Settings {
        admission: admission.parse().unwrap(),
        staging: Bytes::kib(256),
        frames: (!copies.is_zero()).then(|| Bytes::kib(256) + copies),
        hot: hot.parse().unwrap(),
        ..Settings::default()
    };
    let config = Config {
        tenancy: Some(settings),
        ..Config::default()
    };
    let (mut bench, mut cache) = Bench::open(FLASH, SEGMENT, config);
    let disk = bench.attach(&mut cache, 1, Bytes::new(BLOCKS * BLOCK_BYTES));
    (bench, cache, disk)
}

fn hot(cache: &Cache) -> u64 {
    cache.facts().status().hot_blocks
}

#[test]
fn what_was_read_is_read_from_memory_and_counts_as_used() {
    let (mut bench, mut cache, disk) = open("always", "lru", Bytes::mib(1));
    bench.read(&mut cache, disk, 7);
    assert_eq!((hot(&cache), cache.facts().status().cached_blocks), (1, 1));
    // Until then the block is in the memory that is about to be written to flash.
    bench.pause = Duration::from_secs(2);
    bench.settle(&mut cache);
    assert!(cache.facts().status().buffered.is_zero());
    let read_before = cache.facts().stats().flash_read_bytes;
    bench.asked.clear();
    bench.read(&mut cache, disk, 7);
    assert!(bench.asked.is_empty(), "no origin is asked");
    assert_eq!(cache.facts().stats().flash_read_bytes, read_before);
    let stats = cache.facts().stats_of(disk).unwrap();
    let found = (
        stats.read_block_misses,
        stats.read_block_hot_hits,
        stats.read_block_hits,
    );
    assert_eq!(found, (1, 1, 0));
}

#[test]
fn a_block_that_was_refused_is_read_from_memory_and_asked_about_again() {
    let (mut bench, mut cache, disk) = open("larc", "lru", Bytes::mib(1));
    bench.read(&mut cache, disk, 7);
    assert_eq!((hot(&cache), cache.facts().status().cached_blocks), (1, 0));
    bench.asked.clear();
    bench.read(&mut cache, disk, 7);
    assert!(bench.asked.is_empty(), "memory answered");
    assert_eq!(cache.facts().status().cached_blocks, 1, "its second use");
}

/// Reads of a block until it has a copy.
fn reads_needed(bench: &mut Bench, cache: &mut Cache, disk: DiskSlot, block: u64) -> u64 {
    let before = hot(cache);
    let reads = (1..20).find(|_| {
        bench.read(cache, disk, block);
        // Until then the block is in the memory that is about to be written to flash.
        bench.pause = Duration::from_secs(2);
        bench.settle(cache);
        hot(cache) > before
    });
    reads.unwrap()
}

#[test]
fn a_vm_that_weighs_half_reads_twice_as_often_before_it_has_a_copy() {
    let (mut bench, mut cache, disk) = open("always", "frequency:threshold=2", Bytes::mib(1));
    assert_eq!(reads_needed(&mut bench, &mut cache, disk, 1), 2);
    let half = Fraction::millionths(500_000);
    cache.set_weight("vm", half);
    assert_eq!(reads_needed(&mut bench, &mut cache, disk, 2), 4);
    assert_eq!(cache.facts().tenants()[0].memory_weight, half);
    // One that comes later, and a policy that is set anew, have what was told before.
    cache.set_weight("late", half);
    let size = Bytes::new(BLOCKS * BLOCK_BYTES);
    let late = bench.attach_to(&mut cache, 2, size, "late", false);
    assert_eq!(reads_needed(&mut bench, &mut cache, late, 3), 4);
    let settings = cache.facts().tenancy().unwrap().clone();
    cache.set_tenancy(None, bench.now).unwrap();
    cache.set_tenancy(Some(settings), bench.now).unwrap();
    assert_eq!(reads_needed(&mut bench, &mut cache, disk, 4), 4);
    cache.set_weight("vm", Fraction::ONE);
    assert_eq!(reads_needed(&mut bench, &mut cache, disk, 5), 2);
}

/// What makes a copy stale.
type Stales = fn(&mut Bench, &mut Cache, DiskSlot);

#[test]
fn a_copy_leaves_with_whatever_makes_it_stale() {
    let drop = |bench: &mut Bench, cache: &mut Cache, disk| {
        cache.control(ControlId(3), Command::Drop { disk }, bench.now);
        bench.settle(cache);
    };
    let erase = |bench: &mut Bench, cache: &mut Cache, disk| {
        let verb = Verb::Discard {
            offset: Offset::ZERO,
            length: Bytes::mib(1),
        };
        bench.ask(cache, disk, verb);
    };
    let write = |bench: &mut Bench, cache: &mut Cache, disk| bench.write(cache, disk, 7);
    let detach = |bench: &mut Bench, cache: &mut Cache, disk| bench.detach(cache, disk);
    for stales in [write as Stales, erase, drop, detach] {
        let (mut bench, mut cache, disk) = open("always", "s3-fifo", Bytes::mib(1));
        bench.read(&mut cache, disk, 7);
        assert_eq!(hot(&cache), 1);
        stales(&mut bench, &mut cache, disk);
        assert_eq!(hot(&cache), 0);
    }
}

#[test]
fn without_memory_of_its_own_nothing_is_copied() {
    let (mut bench, mut cache, disk) = open("always", "s3-fifo", Bytes::ZERO);
    bench.read(&mut cache, disk, 7);
    bench.read(&mut cache, disk, 7);
    assert_eq!(hot(&cache), 0);
    assert_eq!(cache.facts().stats_of(disk).unwrap().read_block_hot_hits, 0);
}

/// What a cache has decided.
fn decisions(admission: &str, policy: &str, copies: Bytes) -> (Vec<u64>, u64) {
    let (mut bench, mut cache, disk) = open(admission, policy, copies);
    let mut dice = Prng::new(5);
    for _ in 0..15_000 {
        let range = 1 + dice.below(BLOCKS);
        let block = dice.below(range);
        if dice.below(12) == 0 {
            bench.write(&mut cache, disk, block);
        } else {
            bench.read(&mut cache, disk, block);
        }
    }
    let of_disk = cache.facts().stats_of(disk).unwrap();
    (
        crate::support::decided(&cache, disk),
        of_disk.read_block_hot_hits,
    )
}

/// Memory hides no use: with it the same blocks are staged, enter the flash, are kept there and leave.
#[test]
fn a_cache_decides_with_memory_as_without() {
    for admission in ["always", "reuse-age", "staging", "larc"] {
        let (without, none) = decisions(admission, "lru", Bytes::ZERO);
        assert_eq!(none, 0);
        for policy in ["s3-fifo", "w-tinylfu", "lru", "frequency"] {
            let (with, hits) = decisions(admission, policy, Bytes::mib(2));
            assert_eq!(with, without, "{admission} behind {policy}");
            assert!(hits > 100, "{admission} behind {policy}: {hits}");
        }
    }
}
