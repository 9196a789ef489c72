//! The daemon's log of segments: its own block store on a flash that keeps nothing.
//!
//! The volumes of the trace are the daemon's disks, the trace's time is its clock. A size counts every
//! page of flash in segments, chunk headers and footers too, so that a log of a size holds somewhat fewer
//! blocks than a policy in place does.

use super::simulated_store::SimulatedStore;
use super::write_back::Logged;
use super::{CacheModel, Maker, places};
use crate::destaged::{Destaged, Done, LogRoom};
use crate::outcome::{Chore, DIRTY, HIT, LogStep, Outcomes, STORED, Timed};
use crate::policy::PolicyError;
use crate::write_policy::{WriteMiss, WritePolicy};
use policy::reclaim::Kind;
use segment_log::{FlashWritten, Source};
use trace::{Batch, Op, Record, Request, VolumeIndex};
use units::{BLOCK_BYTES, BlockIndex, Bytes, DiskSlot, Instant};

/// Such a cache.
pub(crate) struct Segments {
    store: SimulatedStore,
    write_policy: WritePolicy,
    allocates: bool,
    written: FlashWritten,
}

/// Nobody asks who left: what leaves is clean.
fn unasked(_disk: DiskSlot, _key: u32) {}

/// The segments that `hearth cache format` gives a flash with room for that many blocks.
pub(crate) fn segment_for(blocks: u32) -> Bytes {
    flash_format::segment_bytes_for(Bytes::new(u64::from(blocks) * BLOCK_BYTES))
}

/// Whether the daemon can do what is asked.
pub(super) fn check(maker: &Maker) -> Result<(), PolicyError> {
    if maker.block.get() != BLOCK_BYTES {
        return Err(PolicyError::Block(maker.block));
    }
    if maker.write_policy == WritePolicy::Back && maker.write_miss == WriteMiss::Bypass {
        return Err(PolicyError::LoggedWrites);
    }
    Ok(())
}

/// The store of a cache under this write policy.
pub(super) fn store_of(
    maker: &Maker,
    segment: Bytes,
    kind: Kind,
) -> Result<SimulatedStore, PolicyError> {
    let store = SimulatedStore::new(maker.blocks, segment, kind)?;
    Ok(match maker.write_policy {
        WritePolicy::Back => store.under_write_back(),
        WritePolicy::Around | WritePolicy::Through => store,
    })
}

/// What became of a block that was logged.
pub(super) const fn logged_flags(logged: Logged) -> u8 {
    match logged {
        Logged::Clean | Logged::Dirty => HIT | STORED | DIRTY,
        Logged::Absent => STORED | DIRTY,
    }
}

/// The daemon's disk that stands for a volume. More volumes than a daemon has disks share their streams.
pub(super) fn disk_of(volume: VolumeIndex) -> DiskSlot {
    let disk = volume.to_usize() % DiskSlot::COUNT;
    DiskSlot::new(u16::try_from(disk).expect("a slot is 16 bits"))
}

/// The first block of a request's disk that it touches.
pub(super) fn first_block(record: &Record) -> BlockIndex {
    let most = (1 << BlockIndex::BITS) - 1;
    BlockIndex::new((record.offset.get() / BLOCK_BYTES).min(most))
}

/// What was written between two looks beside the blocks themselves, as chores.
pub(super) fn push_chores(
    at_key: u32,
    before: FlashWritten,
    now: FlashWritten,
    chores: &mut Vec<Timed>,
) {
    for (chore, bytes) in [
        (Chore::Reclaim, now.reclaim - before.reclaim),
        (Chore::Descriptor, now.descriptors - before.descriptors),
        (
            Chore::Journal,
            now.journal + now.checkpoint - before.journal - before.checkpoint,
        ),
    ] {
        if bytes > 0 {
            chores.push(Timed {
                at_key,
                chore,
                blocks: u32::try_from(bytes / BLOCK_BYTES)
                    .expect("a request writes less than 16 TiB"),
            });
        }
    }
}

/// What logs have done on their way to their origins: what counts of it, and the steps.
pub(super) fn push_destaged(at_key: u32, all: impl Iterator<Item = Done>, outcomes: &mut Outcomes) {
    for done in all {
        let (chore, blocks) = match done.what {
            Destaged::Run(blocks) => (Some(Chore::DestageRun), blocks),
            Destaged::Coalesced(blocks) => (Some(Chore::Coalesce), blocks),
            Destaged::BatchEnded | Destaged::Settled { .. } => (None, 0),
        };
        outcomes.chores.extend(chore.map(|chore| Timed {
            at_key,
            chore,
            blocks,
        }));
        outcomes.add_step(LogStep { at_key, done });
    }
}

impl Segments {
    /// # Errors
    /// If the log cannot have this size, segment, block or write policy.
    pub(crate) fn new(
        kind: Kind,
        segment: Option<Bytes>,
        maker: &Maker,
    ) -> Result<Self, PolicyError> {
        check(maker)?;
        let segment = segment.unwrap_or_else(|| segment_for(maker.blocks));
        Ok(Self {
            store: store_of(maker, segment, kind)?,
            write_policy: maker.write_policy,
            allocates: maker.write_miss == WriteMiss::Allocate,
            written: FlashWritten::default(),
        })
    }

    fn request(&mut self, op: Op, disk: DiskSlot, keys: &[u32], flags: &mut [u8]) {
        match op {
            Op::Read if self.write_policy == WritePolicy::Back => {
                for (key, flag) in keys.iter().zip(flags) {
                    *flag = if self.store.touch(disk, *key) {
                        HIT
                    } else {
                        if let Some(mut back) = self.store.back() {
                            back.origin_was_read(disk);
                        }
                        let stored = self.store.insert(disk, *key, Source::Fill, &mut unasked);
                        STORED * u8::from(stored)
                    };
                }
            }
            Op::Read => {
                let each = |at: usize, hit, stored| {
                    flags[at] = (HIT * u8::from(hit)) | (STORED * u8::from(stored));
                };
                self.store.read_run(disk, keys, &mut unasked, each);
            }
            Op::Write if self.write_policy == WritePolicy::Through => {
                let each = |at: usize, hit, stored| {
                    flags[at] = (HIT * u8::from(hit)) | (STORED * u8::from(stored));
                };
                self.store
                    .write_run(disk, keys, self.allocates, &mut unasked, each);
            }
            Op::Write if self.write_policy == WritePolicy::Back => {
                for (key, flag) in keys.iter().zip(flags) {
                    let back = self.store.back();
                    *flag = match back.and_then(|mut back| back.log_block(disk, *key)) {
                        Some(logged) => logged_flags(logged),
                        None => HIT * u8::from(self.store.withdraw(disk, *key)),
                    };
                }
                self.store.commit_withdrawn();
            }
            Op::Discard | Op::WriteZeroes if self.write_policy == WritePolicy::Back => {
                if let Some(mut back) = self.store.back() {
                    back.log_erasure(disk, keys);
                }
            }
            Op::Write | Op::Discard | Op::WriteZeroes => {
                for (key, flag) in keys.iter().zip(flags) {
                    let was_cached = self.store.withdraw(disk, *key);
                    *flag = HIT * u8::from(was_cached && op == Op::Write);
                }
                self.store.commit_withdrawn();
            }
            Op::Flush => {
                if let Some(mut back) = self.store.back() {
                    back.flush(disk);
                }
            }
        }
    }

    /// What was written since the last look beside the blocks themselves.
    fn chores(&mut self, at_key: u32, outcomes: &mut Outcomes) {
        let now = self.store.written();
        let before = std::mem::replace(&mut self.written, now);
        push_chores(at_key, before, now, &mut outcomes.chores);
        if let Some(back) = self.store.back() {
            push_destaged(at_key, back.take_done(), outcomes);
        }
    }
}

impl CacheModel for Segments {
    fn run(&mut self, batch: &Batch, requests: &[Request], outcomes: &mut Outcomes) {
        let Some(first_key) = requests.first().map(|first| first.keys.start) else {
            return;
        };
        for request in requests {
            let record = &request.record;
            self.store
                .advance(Instant::from_nanos(record.time_us.saturating_mul(1000)));
            let disk = disk_of(record.volume);
            let flags = &mut outcomes.blocks[places(request, first_key)];
            let keys = batch.keys_of(request);
            self.store.note_places(disk, first_block(record), keys);
            if let Some(mut back) = self.store.back() {
                back.asked(disk);
            }
            self.request(record.op, disk, keys, flags);
            if self.write_policy == WritePolicy::Back {
                let written = (record.op != Op::Read).then_some(disk);
                self.store.advance_log(written, &mut unasked);
            }
            self.chores(request.keys.end.saturating_sub(1), outcomes);
        }
    }

    fn used_blocks(&self) -> u32 {
        self.store.cached_blocks() + self.store.dirty_blocks()
    }

    fn dirty_blocks(&self) -> u32 {
        self.store.dirty_blocks()
    }

    fn log_room(&self, _: &Batch, request: &Request) -> Option<LogRoom> {
        self.store.log_room(disk_of(request.record.volume))
    }
}
