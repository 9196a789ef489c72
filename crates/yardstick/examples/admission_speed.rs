//! CPU time of one call of each admission policy, without a cache around it.
//!
//! ```text
//! cargo run --release -p yardstick --example admission_speed
//! policy  hit_ns  new_ns  mixed_ns
//! ```
//!
//! `hit`: a block on flash. `new`: a block that was never missed before, once everything is full. `mixed`: misses,
//! half of them of one in ten of the blocks. 2^20 blocks of flash, RAM of a hundredth of it; the least of five
//! runs.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::cast_precision_loss,
    reason = "an example that prints figures"
)]

use policy::admission::{Access, Admission, Share, Spec, Verdict};
use rustix::time::{ClockId, clock_gettime};
use units::{BLOCK_BYTES, Bytes, Instant, Prng, TenantSlot};

const BLOCKS: u64 = 1 << 20;
const CALLS: u64 = 2_000_000;
const RUNS: u32 = 5;

/// CPU time of this process so far, in nanoseconds.
fn cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    u64::try_from(time.tv_sec).unwrap() * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap()
}

const ACCESS: Access = Access {
    tenant: TenantSlot::new(0),
    write: false,
    region: 0,
    run: Bytes::kib(4),
    now: Instant::ZERO,
};

/// The least time of a call, of [`RUNS`] times [`CALLS`].
fn least_ns(mut call: impl FnMut()) -> f64 {
    let mut least = f64::INFINITY;
    for _ in 0..RUNS {
        let before = cpu_ns();
        for _ in 0..CALLS {
            call();
        }
        least = least.min((cpu_ns() - before) as f64 / CALLS as f64);
    }
    least
}

/// A miss, after which a block that was admitted makes another one leave.
fn miss(policy: &mut dyn Admission<u64>, key: u64, left: &mut Vec<(u64, policy::admission::Fate)>) {
    if policy.missed(key, ACCESS, left) == Verdict::Admit {
        policy.evicted(key);
    }
    left.clear();
}

fn main() {
    println!("policy\thit_ns\tnew_ns\tmixed_ns");
    let staging = Bytes::new(BLOCKS * BLOCK_BYTES / 100);
    for about in Spec::ALL {
        let spec: Spec = about.name.parse().unwrap();
        let mut policy = spec.build::<u64>(Share::new(BLOCKS, staging));
        let (mut left, mut next) = (Vec::new(), 0);
        let new_ns = least_ns(|| {
            next += 1;
            miss(policy.as_mut(), next, &mut left);
        });
        let mut prng = Prng::new(1);
        let mixed_ns = least_ns(|| {
            let among = if prng.one_in(2) { BLOCKS / 10 } else { BLOCKS };
            miss(policy.as_mut(), prng.below(among), &mut left);
        });
        let hit_ns = least_ns(|| {
            next += 1;
            policy.hit(std::hint::black_box(next), ACCESS);
        });
        println!("{spec}\t{hit_ns:.1}\t{new_ns:.1}\t{mixed_ns:.1}");
    }
}
