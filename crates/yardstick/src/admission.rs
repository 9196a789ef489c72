//! Admission policies in front of flash that is written in place, on the real traces.
//!
//! ```text
//!   access ─► on flash? ── yes ─► hit            flash: a replacement policy of this many blocks
//!                └─ no ─► staged? ── yes ─► staged_hit
//!                            └─ no ─► missed ─► Admit: one block written; what it displaces is `evicted`
//! ```
//!
//! Counted are hits, those of staged bytes among them, and blocks written because they were admitted. A
//! write that hits is counted as a hit and not as an admission, whatever a write policy would do with it.

use std::path::Path;

use policy::admission::sequential::Runs;
use policy::admission::{Access, Admission, Fate, Refusals, Share, Staged, Verdict, region_of};
use policy::admission::{Reason, Spec};
use policy::replacement::{Capacity, Dense, Replacement, Setup};
use trace::{Batch, Op, Options, Records, Splitter};
use units::{Bytes, DiskSlot, Instant, TenantSlot};

/// One block access: which block, and what admission sees of it, in 16 bytes.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// Blocks are numbered from 0 in order of first access.
    pub key: u32,
    run_kib: u32,
    region: u32,
    write: bool,
}

impl Seen {
    /// A read that belongs to no run.
    pub const fn plain(key: u32) -> Self {
        Self {
            key,
            run_kib: 4,
            region: 0,
            write: false,
        }
    }

    fn access(self) -> Access {
        Access {
            tenant: TenantSlot::new(0),
            write: self.write,
            region: u64::from(self.region),
            run: Bytes::kib(u64::from(self.run_kib)),
            now: Instant::ZERO,
        }
    }
}

/// A trace's block accesses with their kind, region and run. Requests other than reads and writes are left out.
///
/// # Panics
/// If the trace cannot be read.
pub fn seen(path: &Path) -> Vec<Seen> {
    let mut opened = trace::open(path, &Options::default())
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut splitter = Splitter::new(Bytes::kib(4));
    let (mut records, mut batch, mut seen) = (Records::new(), Batch::default(), Vec::new());
    let mut runs: Vec<Runs> = Vec::new();
    while opened
        .reader
        .read_batch(&mut records)
        .expect("a good trace")
    {
        splitter.split(&records, &mut batch).expect("a good trace");
        for request in &batch.requests {
            let record = &request.record;
            if !matches!(record.op, Op::Read | Op::Write) {
                continue;
            }
            let volume = record.volume.to_usize();
            if volume >= runs.len() {
                runs.resize_with(volume + 1, Runs::new);
            }
            let run = runs[volume].note(record.offset, record.length);
            // Few volumes in one trace: regions of 4 MiB of all of them fit 32 bits here.
            let disk = DiskSlot::new(u16::try_from(volume).expect("few volumes"));
            let region = region_of(disk, record.offset);
            let region = (region >> 48) << 24 | region & 0x00ff_ffff;
            seen.extend(batch.keys_of(request).iter().map(|key| Seen {
                key: *key,
                run_kib: u32::try_from(run.get() >> 10).unwrap_or(u32::MAX),
                region: u32::try_from(region).expect("few volumes"),
                write: record.op == Op::Write,
            }));
        }
    }
    seen
}

/// What was counted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Block accesses.
    pub accesses: u64,
    /// Reads among them.
    pub reads: u64,
    /// Accesses of blocks on flash.
    pub flash_hits: u64,
    /// Writes among those.
    pub flash_write_hits: u64,
    /// Reads of blocks on flash, or of staged bytes.
    pub read_hits: u64,
    /// Accesses of blocks whose bytes were staged.
    pub staged_hits: u64,
    /// Blocks written to flash.
    pub admitted: u64,
    /// Blocks refused, by reason.
    pub refused: Refusals,
    /// The most memory that admission had, staged bytes included; looked at now and then.
    pub memory: Bytes,
}

impl Counts {
    /// Hits among the accesses.
    pub fn hit_ratio(&self) -> f64 {
        ratio(self.flash_hits + self.staged_hits, self.accesses)
    }

    /// Read hits among the reads.
    pub fn read_hit_ratio(&self) -> f64 {
        ratio(self.read_hits, self.reads)
    }

    /// Blocks admitted for each access.
    pub fn admitted_ratio(&self) -> f64 {
        ratio(self.admitted, self.accesses)
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of accesses are small")]
fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole as f64
}

/// An admission policy in front of a replacement policy.
pub struct Front {
    admission: Box<dyn Admission<u64>>,
    flash: Box<dyn Replacement<u32> + Send>,
    staged: Vec<bool>,
    left: Vec<(u64, Fate)>,
    evicted: Vec<u32>,
    /// What was counted so far.
    pub counts: Counts,
}

impl Front {
    /// A share's admission before flash of `blocks` under a replacement policy.
    ///
    /// # Panics
    /// If `blocks` is no capacity.
    pub fn new(spec: &Spec, share: Share, replacement: &str, blocks: u64) -> Self {
        let setup = Setup::new(Capacity::new(blocks).expect("a capacity"), Dense::new());
        let replacement: policy::replacement::Spec = replacement.parse().expect("a policy");
        Self {
            admission: spec.build(share),
            flash: replacement.build(setup),
            staged: Vec::new(),
            left: Vec::new(),
            evicted: Vec::new(),
            counts: Counts::default(),
        }
    }

    fn admit(&mut self, key: u32) {
        self.counts.admitted += 1;
        self.flash.access(key, &mut self.evicted);
        for key in self.evicted.drain(..) {
            self.admission.evicted(u64::from(key));
        }
    }

    fn is_staged(&mut self, key: u32) -> &mut bool {
        let key = key as usize;
        if key >= self.staged.len() {
            self.staged.resize((key + 1) * 9 / 8, false);
        }
        &mut self.staged[key]
    }

    /// One access.
    ///
    /// # Panics
    /// If the policy breaks the promises of [`Admission`].
    pub fn access(&mut self, seen: Seen) {
        let (key, access) = (seen.key, seen.access());
        self.counts.accesses += 1;
        self.counts.reads += u64::from(!seen.write);
        if self.flash.contains(key) {
            self.counts.flash_hits += 1;
            self.counts.read_hits += u64::from(!seen.write);
            self.counts.flash_write_hits += u64::from(seen.write);
            self.flash.access(key, &mut self.evicted);
            self.admission.hit(u64::from(key), access);
            return;
        }
        let mut left = std::mem::take(&mut self.left);
        if *self.is_staged(key) {
            self.counts.staged_hits += 1;
            self.counts.read_hits += u64::from(!seen.write);
            let answer = self.admission.staged_hit(u64::from(key), access, &mut left);
            *self.is_staged(key) = answer == Staged::Stays;
            if answer == Staged::Admit {
                self.admit(key);
            }
        } else {
            match self.admission.missed(u64::from(key), access, &mut left) {
                Verdict::Admit => self.admit(key),
                Verdict::Stage => *self.is_staged(key) = true,
                Verdict::Refuse(reason) => {
                    assert_ne!(reason, Reason::Budget, "that is the caller's");
                    self.counts.refused.add(reason);
                }
            }
        }
        for (key, fate) in left.drain(..) {
            let key = u32::try_from(key).expect("keys have 32 bits");
            assert!(
                std::mem::take(self.is_staged(key)),
                "only what was staged leaves"
            );
            if fate == Fate::Admit {
                self.admit(key);
            }
        }
        self.left = left;
        if self.counts.accesses.is_multiple_of(1 << 12) {
            self.counts.memory = self.counts.memory.max(self.admission.memory());
        }
    }
}
