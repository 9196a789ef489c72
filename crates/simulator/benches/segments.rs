//! CPU time of the simulated store: `cargo bench -p simulator --bench segments [-- FILE BLOCKS]`.
//!
//! The file holds block numbers from zero as little-endian 32-bit words; without one the stream is
//! half uniform, half on a tenth of four times as many blocks as the cache has.

#![allow(clippy::print_stdout, reason = "a benchmark prints its figures")]
#![allow(
    clippy::unwrap_used,
    reason = "a benchmark may end where it finds nothing"
)]
#![allow(clippy::cast_precision_loss, reason = "figures are rounded anyway")]
#![allow(clippy::disallowed_methods, reason = "a benchmark reads a file")]

use policy::reclaim::Kind;
use simulator::simulated_store::SimulatedStore;
use units::{Bytes, DiskSlot, Prng};

/// CPU time of this thread: other work on the machine does not count.
fn cpu_nanos() -> i64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

fn keys(file: Option<&str>, blocks: u32) -> Vec<u32> {
    if let Some(file) = file {
        let bytes = std::fs::read(file).unwrap();
        return bytes
            .chunks_exact(4)
            .map(|word| u32::from_le_bytes(word.try_into().unwrap()))
            .collect();
    }
    let mut dice = Prng::new(1);
    let span = u64::from(blocks) * 4;
    let mut one = || {
        let span = if dice.one_in(2) { span / 10 } else { span };
        u32::try_from(dice.below(span)).unwrap()
    };
    (0..10_000_000).map(|_| one()).collect()
}

fn main() {
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with("--"))
        .collect();
    let blocks = arguments
        .get(1)
        .map_or(65_536, |text| text.parse().unwrap());
    let keys = keys(arguments.first().map(String::as_str), blocks);
    for kind in Kind::ALL {
        for segment in [Bytes::kib(256), Bytes::mib(4)] {
            let Ok(mut store) = SimulatedStore::new(blocks, segment, kind) else {
                println!("segment-{kind} has no segments of {segment} at {blocks} blocks");
                continue;
            };
            let begun = cpu_nanos();
            let mut misses = 0_usize;
            for key in &keys {
                misses += usize::from(!store.read(DiskSlot::new(0), *key, &mut |_, _| {}));
            }
            let seconds = (cpu_nanos() - begun) as f64 / 1e9;
            let (written, stats) = (store.written(), store.stats());
            println!(
                "segment-{kind}, {blocks} blocks, {segment}: {:.1} M/s, miss ratio {:.4}, {:.3} bytes written a byte admitted, {} segments reclaimed, {:.1} bytes a block of capacity",
                keys.len() as f64 / seconds / 1e6,
                misses as f64 / keys.len() as f64,
                written.total() as f64 / written.fill as f64,
                stats.segments_reclaimed,
                store.memory_bytes() as f64 / f64::from(blocks),
            );
        }
    }
}
