//! Hits, blocks written to flash, memory and CPU time of admission policies on a real trace.
//!
//! ```text
//! cargo run --release -p yardstick --example admission -- \
//!     libcachesim/cloudPhysicsIO.vscsi.zst clock 0.01 1,5,10,25,40 always larc reuse-age
//!
//! trace  replacement  percent  policy  hits  read_hits  staged_hits  admitted  updated  memory_share  ns
//! ```
//!
//! The share is a percentage of the trace's distinct blocks; RAM for admission is a part of it (0.01: one
//! hundredth of the flash). Ratios are of accesses, read hits of reads; updated are writes of blocks on flash; the memory is the most that was held, as a part of the
//! flash; nanoseconds of CPU time an access include the replacement policy. Without policies: all.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::cast_precision_loss,
    reason = "an example that prints figures"
)]

use policy::admission::{Share, Spec};
use policy::replacement::Fraction;
use rustix::time::{ClockId, clock_gettime};
use units::{BLOCK_BYTES, Bytes};
use yardstick::admission::{Front, seen};

/// CPU time of this process so far, in nanoseconds.
fn cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    u64::try_from(time.tv_sec).unwrap() * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap()
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut next = |what: &str| arguments.next().unwrap_or_else(|| panic!("{what}"));
    let trace = next("which trace, below the traces' folder");
    let replacement = next("which replacement policy");
    let ram = Fraction::parse(
        &next("which part of the flash"),
        Fraction::ZERO,
        Fraction::ONE,
    );
    let percents = next("which percentages");
    let mut specs: Vec<Spec> = arguments.map(|text| text.parse().unwrap()).collect();
    if specs.is_empty() {
        let names = Spec::ALL.iter().map(|about| about.name);
        specs = names.map(|name| name.parse().unwrap()).collect();
    }
    let accesses = seen(&trace_fixtures::real_trace(&trace).expect("the trace"));
    let distinct = accesses.iter().map(|seen| seen.key).max().unwrap() + 1;
    for percent in percents.split(',') {
        let blocks = u64::from(distinct) * percent.parse::<u64>().unwrap() / 100;
        let flash = Bytes::new(blocks * BLOCK_BYTES);
        let staging = ram.as_ref().expect("a part").of_bytes(flash).unwrap();
        for spec in &specs {
            let mut front = Front::new(spec, Share::new(blocks, staging), &replacement, blocks);
            let before = cpu_ns();
            for seen in &accesses {
                front.access(*seen);
            }
            let ns = (cpu_ns() - before) as f64 / accesses.len() as f64;
            let counts = front.counts;
            println!(
                "{trace}\t{replacement}\t{percent}\t{spec}\t{:.4}\t{:.4}\t{:.4}\t{:.4}\t{:.4}\t{:.5}\t{ns:.1}",
                counts.hit_ratio(),
                counts.read_hit_ratio(),
                counts.staged_hits as f64 / counts.accesses as f64,
                counts.admitted_ratio(),
                counts.flash_write_hits as f64 / counts.accesses as f64,
                counts.memory.get() as f64 / flash.get() as f64,
            );
        }
    }
}
