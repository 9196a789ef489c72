//! What the scrub reads, finds, leaves alone and waits for.

use crate::support::Bench;
use block_io::FlashVerb;
use cache::{
    Cache, Command, Config, ControlId, Effect, Request, RequestId, ScrubPass, ScrubStatus, Verb,
    WriteBack, WritePolicy,
};
use units::{BLOCK_BYTES, Bytes, DiskSlot, Duration, Offset, TenantSlot};

const BLOCKS: u64 = 512;

/// A cache with a disk of [`BLOCKS`] blocks, all of them on flash, clean or dirty.
fn filled(policy: WritePolicy) -> (Bench, Cache, DiskSlot) {
    let (mut bench, mut cache) = Bench::open(Bytes::mib(32), Bytes::mib(1), Config::default());
    bench.pause = Duration::from_millis(10);
    bench.policy = policy;
    bench.write_back = WriteBack {
        age_max: Duration::from_secs(1000),
        idle_after: Duration::from_secs(1000),
        ..WriteBack::default()
    };
    let disk = bench.attach(&mut cache, 1, Bytes::new(BLOCKS * BLOCK_BYTES));
    for block in 0..BLOCKS {
        match policy {
            WritePolicy::Back => bench.write(&mut cache, disk, block),
            _ => bench.read(&mut cache, disk, block),
        }
    }
    (0..300).for_each(|_| bench.settle(&mut cache));
    (bench, cache, disk)
}

fn begin(bench: &mut Bench, cache: &mut Cache, rate: Bytes, from: ScrubPass) {
    cache.control(ControlId(9), Command::Scrub { rate, from }, bench.now);
}

fn status(cache: &Cache) -> ScrubStatus {
    cache.facts().scrub()
}

/// Lets a pass come to its end.
fn whole(bench: &mut Bench, cache: &mut Cache) -> ScrubStatus {
    for _ in 0..10_000 {
        if status(cache).pass.is_none() {
            return status(cache);
        }
        bench.settle(cache);
    }
    panic!("a pass ends: {:?}", status(cache));
}

#[test]
fn a_pass_examines_every_block_once() {
    let (mut bench, mut cache, _) = filled(WritePolicy::Through);
    let cached = cache.facts().status().cached_blocks;
    begin(&mut bench, &mut cache, Bytes::mib(50), ScrubPass::default());
    let seen = whole(&mut bench, &mut cache);
    assert_eq!((cached, seen.whole_passes), (BLOCKS, 1));
    assert_eq!(seen.total.blocks, cached);
    assert_eq!(seen.last, seen.total);
    assert_eq!(seen.total.damaged_clean + seen.total.damaged_lists, 0);
}

#[test]
fn damaged_clean_blocks_leave_the_cache() {
    let (mut bench, mut cache, disk) = filled(WritePolicy::Through);
    bench.spoil_all(&[0; 4096]);
    begin(&mut bench, &mut cache, Bytes::mib(50), ScrubPass::default());
    let seen = whole(&mut bench, &mut cache);
    assert_eq!(seen.total.damaged_clean, BLOCKS);
    // Once their distrust is durable.
    (0..300).for_each(|_| bench.settle(&mut cache));
    assert_eq!(cache.facts().status().cached_blocks, 0);
    bench.asked.clear();
    bench.read(&mut cache, disk, 3);
    assert_eq!(bench.asked, [disk], "the origin has it");
}

#[test]
fn damaged_dirty_blocks_are_told_and_kept() {
    let (mut bench, mut cache, disk) = filled(WritePolicy::Back);
    let dirty = cache.facts().write_back_of(disk).unwrap().logged;
    assert!(!dirty.is_zero());
    bench.spoil_all(&[1; 4096]);
    begin(&mut bench, &mut cache, Bytes::mib(50), ScrubPass::default());
    let seen = whole(&mut bench, &mut cache);
    assert_eq!(seen.total.damaged_dirty, dirty.get() / BLOCK_BYTES);
    let after = cache.facts().write_back_of(disk).unwrap().logged;
    assert_eq!(after, dirty);
    assert_eq!(bench.lost, seen.total.damaged_dirty);
}

#[test]
fn a_pass_keeps_its_rate() {
    let (mut bench, mut cache, _) = filled(WritePolicy::Through);
    let rate = Bytes::mib(1);
    begin(&mut bench, &mut cache, rate, ScrubPass::default());
    // 100 looks of 10 ms are a second: that many bytes, and a read on top.
    (0..100).for_each(|_| bench.settle(&mut cache));
    let read = status(&cache).total.blocks * BLOCK_BYTES;
    let most = rate.get() + 64 * BLOCK_BYTES;
    assert!(
        (rate.get() / 2..=most).contains(&read),
        "{read} bytes in a second"
    );
}

#[test]
fn a_pass_goes_on_where_it_was_stopped() {
    let (mut bench, mut cache, _) = filled(WritePolicy::Through);
    begin(&mut bench, &mut cache, Bytes::mib(1), ScrubPass::default());
    let half = loop {
        bench.settle(&mut cache);
        let (pass, _) = status(&cache).pass.unwrap();
        if pass.found.blocks > 0 {
            break pass;
        }
    };
    cache.control(ControlId(10), Command::StopScrub, bench.now);
    assert!(status(&cache).pass.is_none());
    begin(&mut bench, &mut cache, Bytes::mib(50), half);
    let seen = whole(&mut bench, &mut cache);
    assert_eq!(seen.last.blocks, BLOCKS, "each was counted once");
    assert_eq!(seen.whole_passes, 1);
}

/// How many reads of the flash the cache asks for now.
fn reads(cache: &mut Cache) -> Vec<block_io::FlashOp> {
    let mut effects = Vec::new();
    cache.take_effects(&mut effects);
    let ops = effects.into_iter().filter_map(|effect| match effect {
        Effect::Flash(op) if matches!(op.verb, FlashVerb::Read { .. }) => Some(op),
        _ => None,
    });
    ops.collect()
}

#[test]
fn guests_go_first_and_a_pass_ends_all_the_same() {
    let (mut bench, mut cache, disk) = filled(WritePolicy::Through);
    let verb = Verb::Read {
        offset: Offset::ZERO,
        length: Bytes::new(BLOCK_BYTES),
    };
    let request = Request {
        id: RequestId(1),
        disk,
        vm: TenantSlot::new(0),
        verb,
    };
    cache.request(request, bench.now);
    assert_eq!(reads(&mut cache).len(), 1, "the guest's, which hangs");
    begin(&mut bench, &mut cache, Bytes::mib(50), ScrubPass::default());
    let mut looks = 0;
    while reads(&mut cache).is_empty() {
        looks += 1;
        bench.now = bench.now + Duration::from_millis(10);
        cache.tick(bench.now);
    }
    assert_eq!(looks, 100, "a second");
}

#[test]
fn what_leaves_while_it_is_read_is_no_damage() {
    let (mut bench, mut cache, disk) = filled(WritePolicy::Through);
    begin(&mut bench, &mut cache, Bytes::mib(50), ScrubPass::default());
    let mut held = Vec::new();
    while held.is_empty() {
        held = reads(&mut cache);
        bench.now = bench.now + Duration::from_millis(10);
        cache.tick(bench.now);
    }
    bench.spoil_all(&[0; 4096]);
    for block in 0..BLOCKS {
        bench.write(&mut cache, disk, block);
    }
    for op in held {
        let done = bench.carry_out_flash(op);
        cache.flash_done(done, bench.now);
    }
    let seen = whole(&mut bench, &mut cache);
    assert_eq!((seen.total.damaged_clean, seen.whole_passes), (0, 1));
}
