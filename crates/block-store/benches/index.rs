//! Nanoseconds an operation and bytes a block of the index, small and larger than every cache.
//!
//! `cargo bench -p block-store --bench index [-- BLOCKS...]`

#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "a bench reads the clock, prints, and counts below 2^32"
)]

use block_store::index::{Index, Located, Marked};
use std::hint::black_box;
use std::time::Instant;
use units::{BlockIndex, DiskSlot, FlashSlot, Prng};

/// Block `n` of a bijection: the same block never comes twice, and no table of them is needed.
fn located(n: u32) -> Located {
    let scattered = u64::from(n).wrapping_mul(0x9e37_79b1) & 0xffff_ffff;
    Located {
        disk: DiskSlot::new((n % 7) as u16),
        block: BlockIndex::new(scattered),
        slot: FlashSlot::new(n + 1),
    }
}

fn ns_each(begin: Instant, count: u32) -> f64 {
    begin.elapsed().as_secs_f64() * 1e9 / f64::from(count)
}

fn measure(blocks: u32) {
    let mut index = Index::new(blocks, 1);
    let mut batch = Vec::with_capacity(4096);
    // The descriptors of a segment are decoded into a small buffer; so is this.
    let begin = Instant::now();
    for start in (0..blocks).step_by(4096) {
        batch.clear();
        batch.extend((start..blocks.min(start + 4096)).map(located));
        index.insert_batch(&batch, |_, result| assert_eq!(result, Ok(None)));
    }
    let insert = ns_each(begin, blocks);

    let mut dice = Prng::new(2);
    let lookups = 4_000_000;
    let begin = Instant::now();
    for _ in 0..lookups {
        let n = dice.below(u64::from(blocks)) as u32;
        let wanted = located(n);
        assert_eq!(index.get(wanted.disk, wanted.block), Some(wanted.slot));
    }
    let hit = ns_each(begin, lookups);

    let begin = Instant::now();
    let mut chain = 0;
    for _ in 0..lookups {
        // Each lookup waits for the one before: latency, not throughput.
        let n = dice.below(u64::from(blocks)) as u32 ^ (chain & 1);
        let wanted = located(n.min(blocks - 1));
        chain = index
            .change(wanted.disk, wanted.block, |was| Marked { mark: 1, ..was })
            .map_or(0, |was| was.slot.get());
    }
    let chained = ns_each(begin, lookups);

    let begin = Instant::now();
    for _ in 0..lookups {
        let n = dice.below(u64::from(blocks)) as u32;
        black_box(index.get(DiskSlot::new(9), BlockIndex::new(u64::from(n))));
    }
    let miss = ns_each(begin, lookups);

    println!(
        "{blocks:>10} blocks: {:.3} bytes a block, load {:.3}, batched insert {insert:.1} ns ({:.1} M/s), hit {hit:.1} ns, hit in a chain {chained:.1} ns, miss {miss:.1} ns",
        index.bytes() as f64 / f64::from(blocks),
        index.len() as f64 / index.capacity() as f64,
        1e3 / insert,
    );
}

fn main() {
    let chosen: Vec<u32> = std::env::args()
        .skip(1)
        .filter_map(|a| a.parse().ok())
        .collect();
    let sizes = if chosen.is_empty() {
        vec![10_000, 1_000_000, 54_000_000]
    } else {
        chosen
    };
    for blocks in sizes {
        measure(blocks);
    }
}
