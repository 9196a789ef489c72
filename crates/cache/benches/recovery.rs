//! What opening a cache costs: CPU of one core for each block that comes back, the device's time
//! excluded.
//!
//! `cargo bench -p cache --bench recovery [-- MIB_OF_CACHE ROUNDS]`

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::cast_precision_loss,
    clippy::disallowed_methods,
    reason = "a benchmark prints, reads the clock, and has nobody to report an error to"
)]

mod support;

use block_io::{BufPool, FlashDone, FlashOp, IoError};
use cache::{
    Cache, Command, Config, ControlId, ControlOutcome, Effect, FormatOptions, Recovered, Recovery,
    Request, RequestId, Tenure, Verb, WriteBack, WritePolicy, format,
};
use medium::FlashBytes;
use support::cpu_nanos;
use units::{BLOCK_BYTES, Bytes, DiskId, DiskSlot, Duration, Instant, Map, Offset, TenantSlot};
use workbench::Surroundings;

/// Flash that keeps pages of metadata and forgets blocks.
struct Flash {
    pages: Map<u64, Vec<u8>>,
}

impl FlashBytes for Flash {
    fn load(&mut self, offset: Offset, into: &mut [u8]) -> Result<(), IoError> {
        for (at, to) in (offset.get()..).step_by(4096).zip(into.chunks_mut(4096)) {
            match self.pages.get(&at) {
                Some(page) => to.copy_from_slice(page),
                None => to.fill(0),
            }
        }
        Ok(())
    }

    fn store(&mut self, offset: Offset, data: &[u8], _durable: bool) -> Result<(), IoError> {
        for (at, page) in (offset.get()..).step_by(4096).zip(data.chunks(4096)) {
            if page.starts_with(b"HEARTH") {
                self.pages.insert(at, page.to_vec());
            }
        }
        Ok(())
    }
}

impl Surroundings for Flash {
    fn flash(&mut self, op: FlashOp) -> FlashDone {
        medium::carry_out(self, op)
    }
}

/// Carries effects out at once.
fn drive(cache: &mut Cache, flash: &mut Flash, now: Instant) {
    workbench::settle(cache, flash, now, &mut Vec::new(), |effect| match effect {
        Effect::Reply { result, .. } => drop(result.unwrap()),
        Effect::ControlDone { result, .. } => {
            assert!(matches!(result, Ok(ControlOutcome::Attached { .. })));
        }
        _ => panic!("the flash works"),
    });
}

/// Opens the cache; how many nanoseconds the recovery itself took.
fn open(capacity: Bytes, flash: &mut Flash, pool: &BufPool) -> (Recovered, i64) {
    let mut nanos = -cpu_nanos();
    let mut recovery = Recovery::new(
        Config::default(),
        capacity,
        None,
        pool.clone(),
        Instant::ZERO,
    );
    nanos += cpu_nanos();
    let mut effects = Vec::new();
    loop {
        if let Some(result) = recovery.finished() {
            return (result.unwrap(), nanos);
        }
        recovery.take_effects(&mut effects);
        for effect in effects.drain(..) {
            let Effect::Flash(op) = effect else {
                panic!("recovery uses the flash")
            };
            let done = medium::carry_out(flash, op);
            nanos -= cpu_nanos();
            recovery.flash_done(done, Instant::ZERO);
            nanos += cpu_nanos();
        }
    }
}

fn fill(cache: &mut Cache, flash: &mut Flash, capacity: Bytes) {
    let size = Bytes::new(capacity.get() * 9 / 10 / BLOCK_BYTES * BLOCK_BYTES);
    let command = Command::Attach {
        disk: DiskId::from_u128(1),
        name: "bench".into(),
        size,
        policy: WritePolicy::Through,
        read_only: true,
        tenant: "vm".into(),
        shared: false,
        fingerprint: None,
        owner: None,
        write_back: WriteBack::default(),
        tenure: Tenure::Owner,
    };
    cache.control(ControlId(0), command, Instant::ZERO);
    drive(cache, flash, Instant::ZERO);
    let step = Bytes::mib(1);
    for n in 0..size.get() / step.get() {
        let verb = Verb::Read {
            offset: Offset::new(n * step.get()),
            length: step,
        };
        let id = RequestId(n);
        let disk = DiskSlot::new(0);
        cache.request(
            Request {
                id,
                disk,
                vm: TenantSlot::new(0),
                verb,
            },
            Instant::ZERO,
        );
        drive(cache, flash, Instant::ZERO);
    }
    // What waits for time is written too.
    for seconds in 1..5 {
        let now = Instant::ZERO + Duration::from_secs(seconds);
        cache.tick(now);
        drive(cache, flash, now);
    }
}

fn main() {
    let mut numbers = std::env::args().filter_map(|arg| arg.parse().ok());
    let mib = numbers.next().unwrap_or(8192);
    let rounds = numbers.next().unwrap_or(5);
    let capacity = Bytes::mib(mib);
    let pool = BufPool::new();
    let mut flash = Flash {
        pages: Map::default(),
    };
    for (offset, bytes) in format(&FormatOptions::new(capacity, 1)).unwrap() {
        flash.pages.insert(offset.get(), bytes);
    }
    let (recovered, _) = open(capacity, &mut flash, &pool);
    let mut cache = recovered.cache;
    fill(&mut cache, &mut flash, capacity);
    let cached = cache.facts().status().cached_blocks;
    drop(cache);
    for _ in 0..rounds {
        let (recovered, nanos) = open(capacity, &mut flash, &pool);
        assert_eq!(recovered.blocks, cached, "every block comes back");
        println!(
            "{cached} blocks: {:.1} M blocks a CPU-second, {:.1} ns a block",
            cached as f64 * 1e3 / nanos as f64,
            nanos as f64 / cached as f64
        );
    }
}
