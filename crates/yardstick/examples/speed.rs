//! CPU time of the policies alone, on a real trace whose keys are in memory already, and of reading it.
//!
//! ```text
//! cargo run --release -p yardstick --example speed -- libcachesim/cloudPhysicsIO.vscsi.zst 27000 lru arc
//! policy  miss_ratio  read_ns  run_ns        nanoseconds an access, one line a policy
//! ```
//!
//! Without policies: all. `benches/beside_libcachesim.py` runs it in turn with libCacheSim.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::cast_precision_loss,
    reason = "an example that prints figures"
)]

use policy::replacement::Spec;
use rustix::time::{ClockId, clock_gettime};

/// CPU time of this process so far, in nanoseconds.
fn cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    u64::try_from(time.tv_sec).unwrap() * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap()
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let trace = arguments
        .next()
        .expect("which trace, below the traces' folder");
    let blocks: u64 = arguments.next().expect("how many blocks").parse().unwrap();
    let mut specs: Vec<Spec> = arguments.map(|text| text.parse().unwrap()).collect();
    if specs.is_empty() {
        specs = Spec::ALL
            .iter()
            .map(|about| about.name.parse().unwrap())
            .collect();
    }
    let path = trace_fixtures::real_trace(&trace).expect("the trace");
    let before = cpu_ns();
    let keys = yardstick::keys_of(&path);
    let accesses = keys.len() as f64;
    let read_ns = (cpu_ns() - before) as f64 / accesses;
    println!("policy\tmiss_ratio\tread_ns\trun_ns");
    for spec in specs {
        let mut policy = yardstick::build(&spec, blocks, &keys);
        let before = cpu_ns();
        let misses = yardstick::misses(policy.as_mut(), &keys);
        let run_ns = (cpu_ns() - before) as f64 / accesses;
        println!(
            "{spec}\t{:.4}\t{read_ns:.2}\t{run_ns:.2}",
            misses as f64 / accesses
        );
    }
}
