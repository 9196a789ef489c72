//! One guest, one request at a time, over a tiny cache that reclaims, commits and checkpoints
//! all the time, with kills in between: every read is compared with a plain array. The world
//! does this with concurrency and faults; this is the short form that a debugger can follow.

use block_io::{BufPool, FlashDone, FlashOp, OriginDone, OriginOp, OriginVerb};
use cache::{
    Cache, Command, Config, ControlId, ControlOutcome, Effect, FormatOptions, Recovery, Request,
    RequestId, Tenure, Verb, WriteBack, WritePolicy, format,
};
use units::{Bytes, DiskId, DiskSlot, Duration, Instant, Offset, Prng, TenantSlot};
use workbench::Surroundings;

const FLASH: Bytes = Bytes::mib(2);
const DISK: u64 = 1 << 20;

struct Bench {
    dice: Prng,
    now: Instant,
    pool: BufPool,
    flash: Vec<u8>,
    origin: Vec<u8>,
    model: Vec<u8>,
    pending: Vec<FlashOp>,
    hits: u64,
    recovered: u64,
}

fn at(offset: Offset, length: usize) -> std::ops::Range<usize> {
    offset.to_usize()..offset.to_usize() + length
}

fn config() -> Config {
    Config {
        trust_delay: Duration::from_millis(50),
        write_delay: Duration::from_millis(5),
        ..Config::default()
    }
}

impl Surroundings for Bench {
    fn flash(&mut self, op: FlashOp) -> FlashDone {
        medium::carry_out(&mut self.flash, op)
    }

    fn origin(&mut self, op: OriginOp) -> OriginDone {
        let buf = match op.verb {
            OriginVerb::Read {
                offset,
                length,
                mut buf,
            } => {
                let length = length.to_usize();
                buf[..length].copy_from_slice(&self.origin[at(offset, length)]);
                Some(buf)
            }
            OriginVerb::Write { offset, data, .. } => {
                self.origin[at(offset, data.len())].copy_from_slice(&data);
                None
            }
            OriginVerb::Discard { offset, length }
            | OriginVerb::WriteZeroes { offset, length, .. } => {
                self.origin[at(offset, length.to_usize())].fill(0);
                None
            }
            OriginVerb::Flush => None,
        };
        OriginDone {
            token: op.token,
            buf,
            result: Ok(()),
            volatile: false,
            passes: false,
        }
    }
}

impl Bench {
    fn new(seed: u64) -> Self {
        let options = FormatOptions {
            segment_bytes: Bytes::kib(64),
            ..FormatOptions::new(FLASH, 7)
        };
        let mut flash = vec![0; FLASH.to_usize()];
        for (offset, bytes) in format(&options).unwrap() {
            flash[at(offset, bytes.len())].copy_from_slice(&bytes);
        }
        let mut dice = Prng::new(seed);
        let mut origin = vec![0; usize::try_from(DISK).unwrap()];
        dice.fill(&mut origin);
        let model = origin.clone();
        let pool = BufPool::new();
        Self {
            dice,
            now: Instant::ZERO,
            pool,
            flash,
            origin,
            model,
            pending: Vec::new(),
            hits: 0,
            recovered: 0,
        }
    }

    fn open(&mut self) -> (Cache, DiskSlot) {
        let recovery = Recovery::new(config(), FLASH, None, self.pool.clone(), self.now);
        let now = self.now;
        let recovered = workbench::recover(recovery, self, now).unwrap();
        assert_eq!(recovered.cold, None);
        assert_eq!(recovered.blocks_lost, 0);
        self.recovered += recovered.blocks;
        let mut cache = recovered.cache;
        let command = Command::Attach {
            disk: DiskId::from_u128(1),
            name: "vda".into(),
            size: Bytes::new(DISK),
            policy: WritePolicy::Through,
            read_only: false,
            tenant: "vm".into(),
            shared: false,
            fingerprint: None,
            owner: None,
            write_back: WriteBack::default(),
            tenure: Tenure::Owner,
        };
        cache.control(ControlId(1), command, self.now);
        let Some(Effect::ControlDone {
            result: Ok(ControlOutcome::Attached { disk, .. }),
            ..
        }) = self.drive(&mut cache)
        else {
            panic!("the disk is attached");
        };
        (cache, disk)
    }

    /// Carries effects out until one ends a request or command: the origin's at once, the flash's
    /// in any order and some only later.
    fn drive(&mut self, cache: &mut Cache) -> Option<Effect> {
        loop {
            let mut effects = Vec::new();
            cache.take_effects(&mut effects);
            let mut ended = None;
            for effect in effects {
                match effect {
                    Effect::Flash(op) => self.pending.push(op),
                    Effect::Origin(op) => {
                        let done = self.origin(op);
                        cache.origin_done(done, self.now);
                    }
                    Effect::Own { token, .. } => cache.owned(token, true, self.now),
                    Effect::Damaged(_) | Effect::Expected { .. } => {}
                    other => ended = Some(other),
                }
            }
            if ended.is_some() {
                return ended;
            }
            self.now = self.now + Duration::from_micros(self.dice.below(2000));
            cache.tick(self.now);
            if !self.pending.is_empty() {
                let lucky = usize::try_from(self.dice.below(self.pending.len() as u64)).unwrap();
                let op = self.pending.swap_remove(lucky);
                let done = self.flash(op);
                cache.flash_done(done, self.now);
            }
        }
    }

    fn verb(&mut self) -> Verb {
        let sectors = DISK / 512;
        let aligned = self.dice.one_in(2);
        let unit = if aligned { 8 } else { 1 };
        // Half of the requests go to a sixteenth of the disk.
        let span = if self.dice.one_in(2) {
            sectors / 16
        } else {
            sectors
        };
        let first = self.dice.below(span / unit) * unit;
        let count = (1 + self.dice.below(8)) * unit;
        let count = count.min(sectors - first);
        let (offset, length) = (Offset::new(first * 512), Bytes::new(count * 512));
        match self.dice.below(20) {
            0..=11 => Verb::Read { offset, length },
            12..=16 => {
                let mut bytes = vec![0; length.to_usize()];
                self.dice.fill(&mut bytes);
                Verb::Write {
                    offset,
                    data: self.pool.copy_of(&bytes),
                    fua: false,
                }
            }
            17 => Verb::Discard { offset, length },
            18 => Verb::WriteZeroes {
                offset,
                length,
                may_unmap: true,
                fua: false,
            },
            _ => Verb::Prefetch { offset, length },
        }
    }

    fn step(&mut self, cache: &mut Cache, disk: DiskSlot, n: u64) {
        let verb = self.verb();
        let mut expected = None;
        match &verb {
            Verb::Read { offset, length } => {
                expected = Some(self.model[at(*offset, length.to_usize())].to_vec());
            }
            Verb::Write { offset, data, .. } => {
                self.model[at(*offset, data.len())].copy_from_slice(data);
            }
            Verb::Discard { offset, length } | Verb::WriteZeroes { offset, length, .. } => {
                self.model[at(*offset, length.to_usize())].fill(0);
            }
            Verb::Flush | Verb::Prefetch { .. } => {}
        }
        let told = format!("{verb:?}");
        cache.request(
            Request {
                id: RequestId(n),
                disk,
                vm: TenantSlot::new(0),
                verb,
            },
            self.now,
        );
        let Some(Effect::Reply { request, result }) = self.drive(cache) else {
            panic!("a reply")
        };
        assert_eq!(request, RequestId(n));
        let payload = result.unwrap();
        if let Some(expected) = expected {
            let got: Vec<u8> = payload
                .iter()
                .flat_map(|slice| slice.iter().copied())
                .collect();
            assert!(got == expected, "request {n} {told} returned other bytes");
        }
    }
}

fn run(seed: u64) -> Bench {
    let mut bench = Bench::new(seed);
    let mut n = 0;
    for _life in 0..6 {
        let (mut cache, disk) = bench.open();
        for _ in 0..400 {
            n += 1;
            bench.step(&mut cache, disk, n);
            if n % 50 == 0 {
                cache.self_check();
            }
        }
        bench.hits += cache.facts().stats_of(disk).unwrap().read_block_hits;
        // Killed: what was on its way to flash is lost.
        bench.pending.clear();
    }
    bench
}

#[test]
fn every_read_returns_what_was_written_last_across_kills() {
    let (mut hits, mut recovered) = (0, 0);
    for seed in 0..40 {
        let bench = run(seed);
        hits += bench.hits;
        recovered += bench.recovered;
    }
    assert!(hits > 10_000, "the cache is used: {hits} hits");
    assert!(recovered > 1_000, "the cache survives: {recovered} blocks");
}
