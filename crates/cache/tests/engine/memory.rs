//! What the cache's tables take before anything is in them: whatever has a fixed size weighs most in a
//! small cache.

use crate::support::Bench;
use cache::{Cache, Config};
use flash_format::SEGMENT_BYTES_DEFAULT;
use units::{Bytes, DiskSlot};

fn open() -> (Bench, Cache) {
    Bench::open(Bytes::gib(1), SEGMENT_BYTES_DEFAULT, Config::default())
}

/// 7.6 bytes for the index, 4 for the checksum, an eighth for trust; the rest is for all tables.
#[test]
fn a_cache_of_a_gibibyte_takes_less_than_12_bytes_a_block() {
    let (mut bench, mut cache) = open();
    bench.attach(&mut cache, 1, Bytes::gib(1));
    let status = cache.facts().status();
    // Each closed segment will be listed: twice 16 bytes.
    let lists = 32 * status.segments.free;
    let all = status.memory.get() + lists;
    assert!(
        all <= 12 * status.blocks_max,
        "{all} bytes for {} blocks",
        status.blocks_max
    );
}

#[test]
fn disks_take_memory_when_they_come() {
    let (mut bench, mut cache) = open();
    let mut before = cache.facts().status().memory;
    for number in 0..64 {
        let disk = bench.attach(&mut cache, 1 + u128::from(number), Bytes::gib(1));
        assert_eq!(disk, DiskSlot::new(number));
    }
    let after = cache.facts().status().memory;
    assert!(after > before, "64 disks are remembered");
    before = after;
    let again = bench.attach(&mut cache, 65, Bytes::gib(1));
    bench.detach(&mut cache, again);
    let known = bench.attach(&mut cache, 65, Bytes::gib(1));
    assert_eq!(
        known, again,
        "a disk beyond the others is known when it comes back"
    );
    assert!(cache.facts().status().memory >= before);
}
