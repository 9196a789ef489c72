//! CPU time of tenancy and admission: `cargo bench -p simulator --bench tenants`.
//!
//! What a hit costs with and without it, by how large the working set is (a small one is sampled whole); and
//! how many accesses a second the simulated cache does with every admission policy, against the log alone.

#![allow(clippy::print_stdout, reason = "a benchmark prints its figures")]
#![allow(
    clippy::unwrap_used,
    reason = "a benchmark may end where it finds nothing"
)]
#![allow(clippy::cast_precision_loss, reason = "figures are rounded anyway")]

use policy::admission;
use policy::reclaim::Kind;
use simulator::divided_log::{Admission, DividedLog};
use simulator::simulated_store::SimulatedStore;
use tenancy::{Capacity, Request, Settings, TenantSettings};
use units::{BlockIndex, Bytes, DiskSlot, Instant, Prng, TenantSlot};

const DISK: DiskSlot = DiskSlot::new(0);
const VM: TenantSlot = TenantSlot::new(0);
const REPEATS: usize = 5;

/// CPU time of this thread: other work on the machine does not count.
fn cpu_nanos() -> i64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

/// Nanoseconds for each of so many things, the median of some repeats.
fn nanos(count: usize, mut work: impl FnMut()) -> f64 {
    let mut times: Vec<i64> = (0..REPEATS)
        .map(|_| {
            let begun = cpu_nanos();
            work();
            cpu_nanos() - begun
        })
        .collect();
    times.sort_unstable();
    times[REPEATS / 2] as f64 / count as f64
}

fn log(blocks: u32) -> SimulatedStore {
    SimulatedStore::new(blocks, Bytes::mib(1), Kind::default()).unwrap()
}

fn simulated(blocks: u32, settings: Settings) -> DividedLog {
    let log = log(blocks);
    let capacity = Capacity::of(log.facts().geometry());
    let admission = Admission::new(Some(settings), capacity, Instant::ZERO).unwrap();
    let mut simulated = DividedLog::new(log, admission);
    let settings = TenantSettings::default();
    simulated
        .change(|admission| admission.attach(VM, settings))
        .unwrap();
    simulated.set_owner(DISK, VM);
    simulated
}

fn request(first: u32, step: usize) -> Request {
    Request {
        vm: VM,
        tenant: VM,
        disk: DISK,
        first: BlockIndex::new(first.into()),
        count: 1,
        write: false,
        now: Instant::from_nanos(step as u64 * 20_000),
    }
}

/// Half of the accesses go to a tenth of the blocks.
fn stream(span: u32, count: usize) -> Vec<u32> {
    let mut dice = Prng::new(1);
    let mut one = || {
        let span = if dice.one_in(2) { span / 10 } else { span };
        u32::try_from(dice.below(span.into())).unwrap()
    };
    (0..count).map(|_| one()).collect()
}

fn hits() {
    const CACHE: u32 = 1 << 19;
    for span in [2_000, 20_000, 200_000] {
        let keys = stream(span, 2_000_000);
        let mut alone = log(CACHE);
        let mut divided = simulated(CACHE, Settings::default());
        for key in 0..span {
            alone.read(DISK, key, &mut |_, _| {});
            let arrival = divided.arrives(&request(key, 0));
            divided.read(&arrival, DISK, key);
        }
        let without = nanos(keys.len(), || {
            for key in &keys {
                assert!(alone.read(DISK, *key, &mut |_, _| {}));
            }
        });
        let with = nanos(keys.len(), || {
            for (step, key) in keys.iter().enumerate() {
                let arrival = divided.arrives(&request(*key, step));
                divided.read(&arrival, DISK, *key);
            }
        });
        let rate = divided.tenancy().report(VM).unwrap().curve.rate;
        println!(
            "a hit of {span} blocks, one a request: {without:.1} ns without, {with:.1} ns with, {:.1} ns for the tenancy ({rate:.3} of the blocks sampled)",
            with - without
        );
    }
}

fn accesses() {
    const CACHE: u32 = 1 << 16;
    let keys = stream(CACHE * 4, 4_000_000);
    let alone = nanos(keys.len(), || {
        let mut alone = log(CACHE);
        for key in &keys {
            alone.read(DISK, *key, &mut |_, _| {});
        }
    });
    println!("accesses, a log alone: {:.1} M/s", 1e3 / alone);
    for about in admission::Spec::ALL {
        let settings = Settings {
            admission: about.name.parse().unwrap(),
            allocation: "rwss".parse().unwrap(),
            staging: Bytes::mib(2),
            ..Settings::default()
        };
        let each = nanos(keys.len(), || {
            let mut divided = simulated(CACHE, settings.clone());
            for (step, key) in keys.iter().enumerate() {
                let request = request(*key, step);
                divided.advance(request.now);
                let arrival = divided.arrives(&request);
                divided.read(&arrival, DISK, *key);
            }
        });
        println!("accesses, {}: {:.1} M/s", about.name, 1e3 / each);
    }
}

fn main() {
    hits();
    accesses();
}
