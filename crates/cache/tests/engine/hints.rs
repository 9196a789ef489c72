//! What guests say of their disks, in a cache whose flash and origins work at once.

use crate::support::Bench;
use cache::{Cache, Config, ControlError, Hint, Hinted};
use tenancy::Settings;
use units::{BLOCK_BYTES, Bytes, DiskSlot, Offset};

const BLOCKS: u64 = 1_000;
/// Ranges that a VM may have.
const RANGES_MAX: u64 = 32_768;

fn open(admission: &str) -> (Bench, Cache, DiskSlot) {
    let settings = Settings {
        admission: admission.parse().unwrap(),
        staging: Bytes::kib(256),
        frames: Some(Bytes::mib(1)),
        hot: "lru".parse().unwrap(),
        ..Settings::default()
    };
    let config = Config {
        tenancy: Some(settings),
        ..Config::default()
    };
    let (mut bench, mut cache) = Bench::open(Bytes::mib(24), Bytes::kib(64), config);
    let disk = bench.attach(&mut cache, 1, Bytes::new(BLOCKS * BLOCK_BYTES));
    (bench, cache, disk)
}

fn hint(cache: &mut Cache, disk: DiskSlot, first: u64, count: u64, hint: Hint) -> bool {
    hint_bytes(cache, disk, first * BLOCK_BYTES, count * BLOCK_BYTES, hint)
}

fn hint_bytes(cache: &mut Cache, disk: DiskSlot, offset: u64, length: u64, hint: Hint) -> bool {
    let range = (Offset::new(offset), Bytes::new(length));
    cache.guest(disk).hint(range, hint).unwrap()
}

/// Blocks on flash, hot ones and those that were kept out.
fn held(cache: &Cache, disk: DiskSlot) -> (u64, u64, u64) {
    let status = cache.facts().status();
    let kept_out = cache.facts().stats_of(disk).unwrap().kept_out_blocks;
    (status.cached_blocks, status.hot_blocks, kept_out)
}

#[test]
fn what_the_guest_wants_kept_out_is_neither_on_flash_nor_in_memory() {
    let (mut bench, mut cache, disk) = open("always");
    assert!(hint(&mut cache, disk, 0, 10, Hint::KeepOut));
    bench.read(&mut cache, disk, 9);
    bench.read(&mut cache, disk, 9);
    assert_eq!(held(&cache, disk), (0, 0, 2));
    bench.read(&mut cache, disk, 10);
    assert_eq!(held(&cache, disk), (1, 1, 2), "the next one is another");
}

/// What waits in memory for a second use does not go to flash with that use.
#[test]
fn what_was_staged_before_the_guest_wanted_it_kept_out_stays_out() {
    let (mut bench, mut cache, disk) = open("probation");
    bench.read(&mut cache, disk, 1);
    assert_eq!(cache.facts().status().staged_blocks, 1);
    assert!(hint(&mut cache, disk, 0, 10, Hint::KeepOut));
    bench.read(&mut cache, disk, 1);
    bench.read(&mut cache, disk, 1);
    assert_eq!(held(&cache, disk).0, 0);
}

#[test]
fn what_the_guest_will_want_again_has_one_access_more() {
    for admission in ["larc", "probation", "reuse-age"] {
        let (mut bench, mut cache, disk) = open(admission);
        bench.read(&mut cache, disk, 1);
        assert_eq!(held(&cache, disk).0, 0, "{admission}: its first use");
        assert!(hint(&mut cache, disk, 2, 1, Hint::Wanted));
        bench.read(&mut cache, disk, 2);
        let cached = held(&cache, disk).0;
        assert_eq!(cached, 1, "{admission}: its second, says the guest");
    }
}

/// A guest that lies worsens its own hit ratio. Of another one nothing changes.
#[test]
fn what_a_guest_says_changes_nothing_for_another_one() {
    let replay = |says: &[Hint]| {
        let (mut bench, mut cache, liar) = open("larc");
        let size = Bytes::new(BLOCKS * BLOCK_BYTES);
        let other = bench.attach_to(&mut cache, 2, size, "other", false);
        for hint in says {
            assert!(hint_bytes(&mut cache, liar, 0, u64::MAX, *hint));
        }
        for round in 0..3 {
            for block in 0..100 {
                bench.read(&mut cache, liar, block + round);
                bench.read(&mut cache, other, block);
            }
        }
        let stats = |disk| cache.facts().stats_of(disk).unwrap();
        (stats(liar), stats(other))
    };
    let (honest, beside_honest) = replay(&[]);
    let (liar, beside_liar) = replay(&[Hint::Wanted, Hint::KeepOut]);
    assert_eq!(beside_honest, beside_liar);
    assert!(honest.cached_blocks > 50 && liar.cached_blocks == 0);
    let (greedy, beside_greedy) = replay(&[Hint::KeepOut, Hint::Wanted]);
    assert_eq!(beside_greedy, beside_honest);
    assert!(greedy.cached_blocks >= honest.cached_blocks);
}

#[test]
fn ranges_of_all_disks_of_a_vm_have_one_bound_and_leave_with_their_disk() {
    let (mut bench, mut cache, disk) = open("always");
    let size = Bytes::new(1 << 40);
    let large = bench.attach(&mut cache, 2, size);
    let each_second = |cache: &mut Cache, disk, blocks: u64| {
        let firsts = (0..blocks).map(|at| 2 * at);
        let said = firsts.map(|first| hint(cache, disk, first, 1, Hint::KeepOut));
        said.filter(|said| *said).count() as u64
    };
    assert_eq!(each_second(&mut cache, disk, 500), 500);
    let taken = each_second(&mut cache, large, RANGES_MAX);
    assert_eq!(taken, RANGES_MAX - 500 - 1, "one may be cut in two");
    let hinted = cache.facts().hinted(large);
    assert_eq!((hinted.ranges, hinted.kept_out_blocks), (taken, taken));
    bench.detach(&mut cache, large);
    let again = bench.attach(&mut cache, 2, size);
    assert_eq!(cache.facts().hinted(again), Hinted::default());
}

#[test]
fn a_range_ends_with_its_disk_and_no_guest_speaks_for_an_image() {
    let (mut bench, mut cache, disk) = open("always");
    let last = (BLOCKS - 1) * BLOCK_BYTES;
    assert!(hint_bytes(
        &mut cache,
        disk,
        last - 1,
        u64::MAX,
        Hint::Wanted
    ));
    assert!(hint_bytes(&mut cache, disk, u64::MAX, 1, Hint::Wanted));
    assert!(hint_bytes(
        &mut cache,
        disk,
        1,
        2 * BLOCK_BYTES - 2,
        Hint::Wanted
    ));
    let hinted = cache.facts().hinted(disk);
    assert_eq!((hinted.ranges, hinted.wanted_blocks), (1, 1));
    cache.guest(disk).forget_hints();
    assert_eq!(cache.facts().hinted(disk), Hinted::default());
    let size = Bytes::new(BLOCKS * BLOCK_BYTES);
    let image = bench.attach_to(&mut cache, 3, size, "image", true);
    let said = cache
        .guest(image)
        .hint((Offset::new(0), size), Hint::KeepOut);
    assert_eq!(said, Err(ControlError::Shared));
}
