//! A flash on which somebody has written anything at all, with checksums that are right.
//!
//! The cache of a short life is made once, by the cache itself. The first byte chooses whether
//! it was stopped or cut off; the rest is a list of patches to its pages of metadata:
//!
//! ```text
//! | page 1 | offset 2 | length 1 | bytes | ...        page: one of those with a magic number
//! ```
//!
//! Recovery must come to an end, with a cache or with an error; and a cache must serve whatever
//! it is asked. What it serves is not looked at: a forger who knows the format can make the
//! flash say anything. Rot, tears and misdirection, which no checksum survives, are the world's.

use crate::pieces;
use block_io::{BufPool, FlashDone, FlashOp, IoError};
use cache::{
    Cache, Command, Config, ControlId, FormatOptions, OfDirty, Recovery, Request, RequestId,
    Tenure, Verb, WriteBack, WritePolicy,
};
use flash_format::{PAGE_BYTES, SEGMENT_BYTES_MIN, checksum};
use medium::FlashBytes;
use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use units::{Bytes, DiskId, DiskSlot, Duration, Instant, Offset, TenantSlot};
use workbench::Surroundings;

const CAPACITY: Bytes = Bytes::mib(2);
const DISK_BYTES: Bytes = Bytes::mib(4);
const CRC: std::ops::Range<usize> = 60..64;
const MAGIC: &[u8] = b"HEARTH";

/// Effects that one life may need at most; a machine that goes on beyond it goes round in
/// circles.
const EFFECTS_MAX: usize = 100_000;

type Pages = BTreeMap<u64, Box<[u8]>>;

/// The flash, the origin and the clock of one life.
struct Life {
    base: Rc<Pages>,
    written: Pages,
    pool: BufPool,
    now: Instant,
    effects: usize,
}

thread_local! {
    static BASES: OnceCell<[Rc<Pages>; 2]> = const { OnceCell::new() };
}

pub(crate) fn run(bytes: &[u8]) {
    let Some((choice, patches)) = pieces::choice(bytes) else {
        return;
    };
    let [cut, stopped] = BASES.with(|bases| bases.get_or_init(first_lives).clone());
    let mut life = Life::new(if choice & 1 == 0 { cut } else { stopped });
    life.patch(patches);
    if let Some(mut cache) = life.recover() {
        cache.self_check();
        life.work(&mut cache);
        cache.self_check();
    }
}

/// A cache that was used and cut off, and the same stopped.
fn first_lives() -> [Rc<Pages>; 2] {
    let mut life = Life::new(Rc::new(Pages::new()));
    let options = FormatOptions {
        segment_bytes: SEGMENT_BYTES_MIN,
        ..FormatOptions::new(CAPACITY, 7)
    };
    for (offset, bytes) in cache::format(&options).expect("a sound layout") {
        life.write(offset, &bytes);
    }
    let mut cache = life.recover().expect("a fresh cache opens");
    life.work(&mut cache);
    let cut = Rc::new(life.written.clone());
    let disk = DiskSlot::new(0);
    let fingerprint = None;
    cache.control(
        ControlId(2),
        Command::Detach {
            disk,
            fingerprint,
            dirty: OfDirty::Refuse,
        },
        life.now,
    );
    life.turn(&mut cache);
    cache.control(ControlId(3), Command::Stop, life.now);
    life.turn(&mut cache);
    [cut, Rc::new(life.written)]
}

impl Life {
    fn new(base: Rc<Pages>) -> Self {
        Self {
            base,
            written: Pages::new(),
            pool: BufPool::new(),
            now: Instant::from_nanos(1),
            effects: 0,
        }
    }

    fn page(&self, page: u64) -> Option<&[u8]> {
        let page = self.written.get(&page).or_else(|| self.base.get(&page));
        page.map(|bytes| &**bytes)
    }

    fn write(&mut self, offset: Offset, bytes: &[u8]) {
        let first = offset.get() / PAGE_BYTES as u64;
        for (page, bytes) in (first..).zip(bytes.chunks(PAGE_BYTES)) {
            self.written.insert(page, bytes.into());
        }
    }

    fn patch(&mut self, mut patches: &[u8]) {
        let base = Rc::clone(&self.base);
        let sealed = base.iter().filter(|(_, bytes)| bytes.starts_with(MAGIC));
        let sealed: Vec<u64> = sealed.map(|(page, _)| *page).collect();
        while let [which, high, low, length, rest @ ..] = patches {
            let page = sealed[usize::from(*which) % sealed.len()];
            let start = usize::from(u16::from_be_bytes([*high, *low])) % PAGE_BYTES;
            let (new, rest) = rest.split_at(rest.len().min(usize::from(*length)));
            patches = rest;
            let mut bytes = self.page(page).unwrap_or_default().to_vec();
            for (place, new) in bytes[start..].iter_mut().zip(new) {
                *place = *new;
            }
            let content = [&bytes[..CRC.start], &bytes[CRC.end..]].concat();
            bytes[CRC].copy_from_slice(&checksum(&content).to_le_bytes());
            self.written.insert(page, bytes.into());
        }
    }

    fn recover(&mut self) -> Option<Cache> {
        let (config, pool) = (Config::default(), self.pool.clone());
        let recovery = Recovery::new(config, CAPACITY, None, pool, self.now);
        let now = self.now;
        let recovered = workbench::recover(recovery, self, now).ok()?;
        Some(recovered.cache)
    }

    /// Attaches a disk, reads and writes all over it, and lets time pass.
    fn work(&mut self, cache: &mut Cache) {
        let command = Command::Attach {
            disk: DiskId::from_u128(9),
            name: "vm1".to_owned(),
            size: DISK_BYTES,
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
        self.turn(cache);
        let disk = DiskSlot::new(0);
        for n in 0..96 {
            let offset = Offset::kib(n * 20 % 1536);
            let length = Bytes::kib(16);
            let verb = if n % 5 == 0 {
                let data = self.pool.take_zeroed(PAGE_BYTES).freeze();
                let fua = n % 10 == 0;
                Verb::Write { offset, data, fua }
            } else {
                Verb::Read { offset, length }
            };
            let id = RequestId(n);
            if cache.facts().stats_of(disk).is_some() {
                cache.request(
                    Request {
                        id,
                        disk,
                        vm: TenantSlot::new(0),
                        verb,
                    },
                    self.now,
                );
            }
            self.turn(cache);
        }
        for _ in 0..4 {
            self.now = self.now + Duration::from_secs(5);
            cache.tick(self.now);
            self.turn(cache);
        }
    }

    /// Carries out everything that the cache asks for, until it asks for nothing more.
    fn turn(&mut self, cache: &mut Cache) {
        let now = self.now;
        workbench::settle(cache, self, now, &mut Vec::new(), drop);
    }
}

impl Surroundings for Life {
    fn flash(&mut self, op: FlashOp) -> FlashDone {
        self.effects += 1;
        assert!(self.effects < EFFECTS_MAX, "it goes round in circles");
        medium::carry_out(self, op)
    }
}

impl FlashBytes for Life {
    fn load(&mut self, offset: Offset, into: &mut [u8]) -> Result<(), IoError> {
        let end = offset.checked_add(Bytes::new(into.len() as u64));
        assert!(
            end.is_some_and(|end| end.from_start() <= CAPACITY),
            "nothing is read beyond the device"
        );
        let first = offset.get() / PAGE_BYTES as u64;
        for (page, bytes) in (first..).zip(into.chunks_mut(PAGE_BYTES)) {
            match self.page(page) {
                Some(found) => bytes.copy_from_slice(found),
                None => bytes.fill(0),
            }
        }
        Ok(())
    }

    fn store(&mut self, offset: Offset, data: &[u8], _durable: bool) -> Result<(), IoError> {
        let end = offset + Bytes::new(data.len() as u64);
        assert!(
            end.from_start() <= CAPACITY,
            "nothing is written beyond the device"
        );
        self.write(offset, data);
        Ok(())
    }
}
