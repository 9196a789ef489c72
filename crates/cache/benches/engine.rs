//! What the cache engine itself costs: nanoseconds of one core for a 4 KiB read hit, from the
//! request to the reply, checksum included and data copies excluded (flash is an array of equal
//! blocks, so any buffer already holds the right bytes); and bytes of memory for a cached block.
//! The same with tenants (demand, curve, admission, shares), in turn without.
//!
//! `cargo bench -p cache --bench engine [-- MIB_OF_CACHE]`
//!
//! `cargo xtask instructions` runs it as `engine counted` under callgrind, which counts what
//! happens inside of [`counted_hits`] and nothing else; `engine counted tenants` has tenants, as the
//! daemon has it by default and with one block in 32 in its samples, as of a VM that uses 1 GiB;
//! `engine counted tenants whole` has all blocks in them, as of one that uses 32 MiB at most.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::cast_precision_loss,
    clippy::disallowed_methods,
    reason = "a benchmark prints, reads the clock, and has nobody to report an error to"
)]

mod support;

use block_io::{BufPool, FlashDone, FlashOp, FlashVerb};
use cache::{
    Cache, Command, Config, ControlId, ControlOutcome, Effect, FormatOptions, Recovery, Request,
    RequestId, Tenure, Verb, WriteBack, WritePolicy, format,
};
use support::cpu_nanos;
use units::{BLOCK_BYTES, Bytes, DiskId, DiskSlot, Instant, Offset, Prng, TenantSlot};
use workbench::Surroundings;

/// Reads in flight together.
const DEPTH: usize = 32;
const HITS: u64 = 1_000_000;
/// Times that each way is measured, in turn.
const ROUNDS: usize = 7;
/// Admission policies that are measured with tenants.
const ADMISSION: [&str; 3] = ["always", "staging:kind=hybrid", "probation"];

/// Flash whose blocks all read as zeroes, and metadata pages that are kept.
struct Flash {
    pages: std::collections::BTreeMap<u64, Vec<u8>>,
    metadata_end: u64,
}

impl Flash {
    #[inline]
    fn run(&mut self, op: FlashOp) -> FlashDone {
        let buf = match op.verb {
            FlashVerb::Read {
                offset,
                length,
                mut buf,
            } => {
                // A page of metadata went through this buffer: every one starts with its mark.
                if buf[0] != 0 {
                    buf.fill(0);
                }
                if offset.get() < self.metadata_end {
                    let length = length.to_usize();
                    // One page is known to be zero by its first byte.
                    if length > 4096 {
                        buf[..length].fill(0);
                    }
                    for (at, bytes) in self.pages.range(offset.get()..offset.get() + length as u64)
                    {
                        let at = usize::try_from(at - offset.get()).unwrap();
                        buf[at..at + bytes.len()].copy_from_slice(bytes);
                    }
                }
                Some(buf)
            }
            FlashVerb::Write { offset, data, .. } => {
                if offset.get() < self.metadata_end {
                    for (i, page) in data.chunks(4096).enumerate() {
                        self.pages
                            .insert(offset.get() + i as u64 * 4096, page.to_vec());
                    }
                }
                None
            }
            FlashVerb::ReadInto { .. } => panic!("nobody offers memory"),
            FlashVerb::Flush => None,
        };
        FlashDone {
            token: op.token,
            place: None,
            buf,
            result: Ok(()),
        }
    }
}

impl Surroundings for Flash {
    #[inline]
    fn flash(&mut self, op: FlashOp) -> FlashDone {
        self.run(op)
    }
}

/// Carries effects out at once; returns how many replies came.
fn drive(cache: &mut Cache, flash: &mut Flash, effects: &mut Vec<Effect>) -> u64 {
    let mut replies = 0;
    workbench::settle(
        cache,
        flash,
        Instant::ZERO,
        effects,
        |effect| match effect {
            Effect::Reply { result, .. } => {
                result.unwrap();
                replies += 1;
            }
            Effect::ControlDone { result, .. } => {
                assert!(matches!(result, Ok(ControlOutcome::Attached { .. })));
            }
            _ => panic!("the flash works"),
        },
    );
    replies
}

fn open(capacity: Bytes, pool: &BufPool) -> (Cache, Flash) {
    let mut flash = Flash {
        pages: std::collections::BTreeMap::new(),
        metadata_end: u64::MAX,
    };
    let writes = format(&FormatOptions::new(capacity, 1)).unwrap();
    flash.metadata_end = writes.iter().map(|(offset, _)| offset.get()).max().unwrap() * 3;
    for (offset, bytes) in writes {
        flash.pages.insert(offset.get(), bytes);
    }
    let recovery = Recovery::new(
        Config::default(),
        capacity,
        None,
        pool.clone(),
        Instant::ZERO,
    );
    let recovered = workbench::recover(recovery, &mut flash, Instant::ZERO).unwrap();
    (recovered.cache, flash)
}

/// Of the cache whose hits are counted under callgrind, which makes everything fifty times slower.
const COUNTED_MIB: u64 = 64;
/// Hits that are counted: what happens once in a while is spread over them.
const COUNTED_HITS: u64 = 100_000;
/// Of the 8,192 blocks in use one in 32 is sampled then.
const SAMPLE_BLOCKS: u32 = 256;

/// The tenants while hits are counted.
#[derive(Clone, Copy, PartialEq)]
enum Counted {
    NoTenants,
    /// It samples a part of the blocks.
    Sampled,
    /// Every block is in its samples.
    Whole,
}

fn main() {
    let has = |word: &str| std::env::args().any(|argument| argument == word);
    if has("counted") {
        return count(match (has("tenants"), has("whole")) {
            (false, _) => Counted::NoTenants,
            (true, false) => Counted::Sampled,
            (true, true) => Counted::Whole,
        });
    }
    let mib = std::env::args()
        .find_map(|arg| arg.parse().ok())
        .unwrap_or(4096);
    let capacity = Bytes::mib(mib);
    let size = capacity.get() * 9 / 10;
    let (mut cache, mut flash, disk) = warm(capacity, size);
    let status = cache.facts().status();
    let blocks = status.cached_blocks;
    println!("{blocks} blocks cached of {} that fit", status.blocks_max);
    println!(
        "memory: {} = {:.2} bytes a block that fits",
        status.memory,
        status.memory.get() as f64 / status.blocks_max as f64
    );

    let mut off = Vec::new();
    let mut on = ADMISSION.map(|_| Vec::new());
    for _ in 0..ROUNDS {
        cache.set_tenancy(None, Instant::ZERO).unwrap();
        off.push(measure_hits(&mut cache, &mut flash, disk, blocks));
        for (admission, on) in ADMISSION.iter().zip(&mut on) {
            let settings = tenancy::Settings {
                admission: admission.parse().unwrap(),
                staging: Bytes::mib(64),
                ..tenancy::Settings::default()
            };
            cache.set_tenancy(Some(settings), Instant::ZERO).unwrap();
            // Samples and ghosts fill first.
            measure_hits(&mut cache, &mut flash, disk, blocks);
            on.push(measure_hits(&mut cache, &mut flash, disk, blocks));
        }
    }
    let off = tell("off", off, None);
    for (admission, on) in ADMISSION.iter().zip(on) {
        tell(admission, on, Some(off));
    }
    println!("admission: {} of memory", cache.facts().status().admission);
}

/// Runs as many hits as callgrind is to count.
fn count(counted: Counted) {
    // Half of it: in a small cache the segments that are being filled count.
    let capacity = Bytes::mib(COUNTED_MIB);
    let (mut cache, mut flash, disk) = warm(capacity, capacity.get() / 2);
    let blocks = cache.facts().status().cached_blocks;
    let offsets = random_offsets(blocks);
    if counted != Counted::NoTenants {
        let mut settings = tenancy::Settings {
            admission: "reuse-age".parse().unwrap(),
            allocation: "utility".parse().unwrap(),
            staging: Bytes::mib(1),
            fill: true,
            ..tenancy::Settings::default()
        };
        if counted == Counted::Sampled {
            settings.curve_blocks = SAMPLE_BLOCKS;
            settings.measure = tenancy::Measure::Sampled(SAMPLE_BLOCKS);
        }
        cache.set_tenancy(Some(settings), Instant::ZERO).unwrap();
        // Samples fill first.
        run_hits(&mut cache, &mut flash, disk, &offsets, COUNTED_HITS);
    }
    let hits_before = cache.facts().stats_of(disk).unwrap().read_block_hits;
    let hits = counted_hits(&mut cache, &mut flash, disk, &offsets, COUNTED_HITS);
    let hits_after = cache.facts().stats_of(disk).unwrap().read_block_hits;
    assert_eq!(hits_after - hits_before, hits);
    println!("hits {hits}");
}

/// A cache that has all of a disk of about so many bytes.
fn warm(capacity: Bytes, bytes: u64) -> (Cache, Flash, DiskSlot) {
    let pool = BufPool::new();
    let (mut cache, mut flash) = open(capacity, &pool);
    let size = Bytes::new(bytes / BLOCK_BYTES * BLOCK_BYTES);
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
    let mut effects = Vec::new();
    cache.control(ControlId(0), command, Instant::ZERO);
    drive(&mut cache, &mut flash, &mut effects);
    let disk = DiskSlot::new(0);
    let step = Bytes::mib(1);
    for n in 0..size.get() / step.get() {
        let verb = Verb::Read {
            offset: Offset::new(n * step.get()),
            length: step,
        };
        cache.request(
            Request {
                id: RequestId(n),
                disk,
                vm: TenantSlot::new(0),
                verb,
            },
            Instant::ZERO,
        );
        drive(&mut cache, &mut flash, &mut effects);
    }
    (cache, flash, disk)
}

/// Prints a median with its spread; returns it.
fn tell(what: &str, mut nanos: Vec<f64>, off: Option<f64>) -> f64 {
    nanos.sort_by(f64::total_cmp);
    let median = nanos[nanos.len() / 2];
    let spread = (nanos[nanos.len() - 1] - nanos[0]) / 2.0;
    let more = off.map_or_else(String::new, |off| {
        format!(", {:+.1} % of off", (median / off - 1.0) * 100.0)
    });
    println!(
        "hit, tenants {what}: {median:.0} ns of CPU ± {spread:.0}, depth {DEPTH}, median of {ROUNDS} x {HITS} random hits{more}"
    );
    median
}

fn random_offsets(blocks: u64) -> Vec<Offset> {
    let mut dice = Prng::new(1);
    (0..1 << 20)
        .map(|_| Offset::new(dice.below(blocks - 300) * BLOCK_BYTES))
        .collect()
}

/// Nanoseconds of CPU for a hit.
fn measure_hits(cache: &mut Cache, flash: &mut Flash, disk: DiskSlot, blocks: u64) -> f64 {
    let offsets = random_offsets(blocks);
    let before = cache.facts().stats_of(disk).unwrap().read_block_hits;
    let begun = cpu_nanos();
    let replies = counted_hits(cache, flash, disk, &offsets, HITS);
    let nanos = (cpu_nanos() - begun) as f64 / replies as f64;
    assert_eq!(
        cache.facts().stats_of(disk).unwrap().read_block_hits - before,
        replies,
        "all were hits"
    );
    assert_eq!(cache.facts().stats().checksum_mismatches, 0);
    nanos
}

/// At least so many hits at the depth, nothing else; how many there were. Callgrind knows it by
/// its name.
#[inline(never)]
fn counted_hits(
    cache: &mut Cache,
    flash: &mut Flash,
    disk: DiskSlot,
    offsets: &[Offset],
    hits: u64,
) -> u64 {
    run_hits(cache, flash, disk, offsets, hits)
}

/// The same, not counted.
#[inline(never)]
fn run_hits(
    cache: &mut Cache,
    flash: &mut Flash,
    disk: DiskSlot,
    offsets: &[Offset],
    hits: u64,
) -> u64 {
    let mut effects = Vec::new();
    let mut replies = 0;
    let mut id = 0;
    while replies < hits {
        for _ in 0..DEPTH {
            let offset = offsets[usize::try_from(id).unwrap() % offsets.len()];
            let verb = Verb::Read {
                offset,
                length: Bytes::new(BLOCK_BYTES),
            };
            cache.request(
                Request {
                    id: RequestId(id),
                    disk,
                    vm: TenantSlot::new(0),
                    verb,
                },
                Instant::ZERO,
            );
            id += 1;
        }
        replies += drive(cache, flash, &mut effects);
    }
    replies
}
