//! What enters the flash, in a cache whose flash and origins work at once.

use crate::support::Bench;
use cache::{Cache, Config, Verb};
use policy::admission::Reason;
use policy::admission::budget::Budget;
use tenancy::Settings;
use units::{BLOCK_BYTES, Bytes, DiskSlot, Offset};

const FLASH: Bytes = Bytes::mib(24);
const SEGMENT: Bytes = Bytes::kib(64);
const BLOCKS: u64 = 2000;

fn open(
    admission: &str,
    change: impl FnOnce(&mut Config, &mut Settings),
) -> (Bench, Cache, DiskSlot) {
    let mut settings = Settings {
        admission: admission.parse().unwrap(),
        staging: Bytes::mib(1),
        ..Settings::default()
    };
    let mut config = Config::default();
    change(&mut config, &mut settings);
    config.tenancy = Some(settings);
    let (mut bench, mut cache) = Bench::open(FLASH, SEGMENT, config);
    let disk = bench.attach(&mut cache, 1, Bytes::new(BLOCKS * BLOCK_BYTES));
    (bench, cache, disk)
}

fn prefetch(bench: &mut Bench, cache: &mut Cache, disk: DiskSlot, blocks: u64) {
    let verb = Verb::Prefetch {
        offset: Offset::ZERO,
        length: Bytes::new(blocks * BLOCK_BYTES),
    };
    bench.ask(cache, disk, verb);
}

#[test]
fn a_block_is_staged_then_read_from_memory_then_on_flash() {
    let (mut bench, mut cache, disk) = open("staging:kind=data", |_, _| {});
    bench.read(&mut cache, disk, 7);
    assert_eq!(
        (
            cache.facts().status().staged_blocks,
            cache.facts().status().cached_blocks
        ),
        (1, 0)
    );
    bench.asked.clear();
    bench.read(&mut cache, disk, 7);
    assert_eq!(
        (
            cache.facts().status().staged_blocks,
            cache.facts().status().cached_blocks
        ),
        (0, 1)
    );
    assert!(bench.asked.is_empty(), "memory answered");
    bench.read(&mut cache, disk, 7);
    let stats = cache.facts().stats_of(disk).unwrap();
    let found = (
        stats.read_block_misses,
        stats.read_block_staged_hits,
        stats.read_block_hits,
    );
    assert_eq!(found, (1, 1, 1));
}

#[test]
fn a_write_takes_the_staged_copy_away() {
    let (mut bench, mut cache, disk) = open("staging:kind=data", |_, _| {});
    bench.read(&mut cache, disk, 7);
    bench.write(&mut cache, disk, 7);
    assert_eq!(
        (
            cache.facts().status().staged_blocks,
            cache.facts().status().cached_blocks
        ),
        (0, 0)
    );
    bench.asked.clear();
    bench.read(&mut cache, disk, 7);
    assert_eq!(bench.asked, [disk], "the origin has the new bytes");
}

#[test]
fn a_detached_disk_leaves_nothing_staged() {
    let (mut bench, mut cache, disk) = open("staging:kind=data", |_, _| {});
    bench.read(&mut cache, disk, 7);
    bench.detach(&mut cache, disk);
    assert_eq!(cache.facts().status().staged_blocks, 0);
}

#[test]
fn a_written_block_enters_only_where_writes_allocate() {
    for allocate in [false, true] {
        let (mut bench, mut cache, disk) = open("always", |config, _| {
            config.allocate_writes = allocate;
        });
        bench.write(&mut cache, disk, 7);
        assert_eq!(cache.facts().status().cached_blocks, u64::from(allocate));
        assert_eq!(cache.facts().stats().writes_allocated, u64::from(allocate));
    }
}

#[test]
fn a_refusal_is_counted_by_why_and_a_prefetch_asks_no_policy() {
    let (mut bench, mut cache, disk) = open("larc", |_, _| {});
    bench.read(&mut cache, disk, 1999);
    assert_eq!(
        cache
            .facts()
            .stats()
            .not_admitted
            .refused
            .of(Reason::FirstTouch),
        1
    );
    prefetch(&mut bench, &mut cache, disk, 100);
    assert_eq!(cache.facts().status().cached_blocks, 100);
    assert_eq!(cache.facts().stats().not_admitted.refused.total(), 1);
}

/// A budget that lets 100 blocks in at once and then next to nothing.
fn hundred_blocks(_: &mut Config, settings: &mut Settings) {
    let geometry = flash_format::Geometry::new(FLASH, SEGMENT).unwrap();
    let reserve = tenancy::Capacity::of(&geometry).device_reserve();
    let budget = Budget::per_day(Bytes::mib(64)).unwrap();
    settings.budget = Some(budget.with_burst(reserve + Bytes::new(100 * BLOCK_BYTES)));
}

#[test]
fn nothing_enters_beyond_the_budget_not_even_what_is_asked_for() {
    let (mut bench, mut cache, disk) = open("always", hundred_blocks);
    prefetch(&mut bench, &mut cache, disk, 256);
    bench.read(&mut cache, disk, 1999);
    let entered = cache.facts().stats().blocks_appended;
    assert!(
        (10..=100).contains(&entered),
        "headers, journal and checkpoints count too: {entered}"
    );
    let refused = cache
        .facts()
        .stats()
        .not_admitted
        .refused
        .of(Reason::Budget);
    assert_eq!(refused, 257 - entered);
}

#[test]
fn a_rewritten_block_leaves_when_the_budget_is_used_up() {
    let (mut bench, mut cache, disk) = open("always", hundred_blocks);
    prefetch(&mut bench, &mut cache, disk, 10);
    for _ in 0..30 {
        for block in 0..10 {
            bench.write(&mut cache, disk, block);
        }
    }
    assert_eq!(
        cache.facts().stats().not_rewritten,
        10,
        "once each: then they are not cached"
    );
    assert_eq!(cache.facts().status().cached_blocks, 0);
    assert!(cache.facts().stats().blocks_appended <= 100);
}
