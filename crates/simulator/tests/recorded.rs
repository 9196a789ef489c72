//! The policy `daemon` gives the daemon's own counts: what five guests asked of their disks while they ran
//! (`fixtures/guests`), through `daemon` and through a cache with its default settings, has the same hits,
//! admissions and flash writes, of each VM and of the base image that they share. Under write-back it has the same
//! destages: as many writes to the origins, of as many blocks.
//!
//! Requests are cut into single blocks, since reclaim goes on beside one of many blocks; and blocks are
//! numbered in the order of their first use on both sides, as the simulator numbers them: admission
//! remembers hashes of addresses. The trace ends before the first window does, since shares then follow
//! measured latencies, and here nothing takes time.

#![allow(clippy::unwrap_used, reason = "helpers of a test are part of it")]

#[path = "../../cache/tests/engine/support/mod.rs"]
#[allow(dead_code, reason = "the tests of the cache use the rest")]
mod support;

use cache::{Cache, Config, DirtyStatus, Verb, WriteBack};
use flash_format::{Geometry, segment_bytes_for};
use simulator::{Counters, Policy, Study, Warmup, WritePolicy};
use std::num::NonZeroUsize;
use support::Bench;
use tenancy::{Capacity, Counts, daemon};
use trace::{
    Batch, Op, ReadError, Reader, Record, Records, Role, Splitter, Volume, VolumeIndex, Volumes,
};
use units::{BLOCK_BYTES, Bytes, DiskSlot, Instant, Offset, TenantSlot};

const FLASH: Bytes = Bytes::mib(192);
/// The daemon's first window ends after five minutes.
const TIME_MAX_US: u64 = 299_000_000;

/// Accesses of single blocks, and the volumes that they name.
#[derive(Clone)]
struct Recorded {
    records: Vec<Record>,
    volumes: Volumes,
    given: usize,
}

impl Reader for Recorded {
    fn read_batch(&mut self, records: &mut Records) -> Result<bool, ReadError> {
        let rest = &self.records[self.given..];
        let batch = &rest[..rest.len().min(1000)];
        *records = batch.into();
        self.given += batch.len();
        Ok(!records.is_empty())
    }

    fn volumes(&self) -> &Volumes {
        &self.volumes
    }
}

/// The recording in single blocks. Volumes with blocks of their own come first, in the order of their first
/// use, so that they are the cache's disks in this order.
fn recorded(with_flushes: bool) -> Recorded {
    let path = trace_fixtures::root().join("fixtures/guests/debian-12-five.csv.zst");
    let mut reader = trace::open(&path, &trace::Options::default())
        .unwrap()
        .reader;
    let mut splitter = Splitter::new(Bytes::new(BLOCK_BYTES));
    let (mut accesses, mut chunk) = (Vec::new(), Records::new());
    let (mut disks, mut others) = (Vec::new(), Vec::new());
    while reader.read_batch(&mut chunk).unwrap() {
        let mut batch = Batch::default();
        splitter.know(reader.volumes());
        splitter.split(&chunk, &mut batch).unwrap();
        for request in &batch.requests {
            let record = request.record;
            if record.time_us > TIME_MAX_US {
                continue;
            }
            let own = batch.role(record.volume).blocks;
            if !disks.contains(&own) {
                disks.push(own);
            }
            if own != record.volume && !others.contains(&record.volume) {
                others.push(record.volume);
            }
            let keys = batch.keys_of(request);
            accesses.extend(keys.iter().map(|key| (record, Some(*key))));
            if record.op == Op::Flush && with_flushes {
                accesses.push((record, None));
            }
        }
    }
    let mut volumes = Volumes::new();
    let list: Vec<Volume> = reader.volumes().iter().map(|(_, of)| of.clone()).collect();
    let order: Vec<VolumeIndex> = disks.into_iter().chain(others).collect();
    let places: Vec<VolumeIndex> = order
        .iter()
        .map(|old| volumes.intern(&list[old.to_usize()]))
        .collect();
    let place = |old| places[order.iter().position(|other| *other == old).unwrap()];
    let records = accesses.iter().map(|(record, key)| Record {
        volume: place(record.volume),
        offset: Offset::new(u64::from(key.unwrap_or(0)) * BLOCK_BYTES),
        length: Bytes::new(key.map_or(0, |_| BLOCK_BYTES)),
        ..*record
    });
    Recorded {
        records: records.collect(),
        volumes,
        given: 0,
    }
}

/// What both have counted.
#[derive(Debug, Default, PartialEq)]
struct Answer {
    reads: u64,
    hits: u64,
    staged_hits: u64,
    /// Zero under write-back: the cache counts there what was clean, the simulator what was cached.
    write_hits: u64,
    admitted: u64,
    rewritten: u64,
    reclaimed_blocks: u64,
    descriptor_blocks: u64,
    logged_blocks: u64,
    destaged_blocks: u64,
    coalesced_blocks: u64,
    dirty_blocks: u64,
    origin_writes: u64,
    origin_write_bytes: u64,
}

fn simulated(recorded: &Recorded, blocks: u64, write_policy: WritePolicy) -> Answer {
    let study = Study {
        policies: vec![Policy::Daemon],
        sizes: vec![format!("{blocks}blk").parse().unwrap()],
        tiers: Vec::new(),
        block: Bytes::new(BLOCK_BYTES),
        write_policy,
        write_miss: None,
        warmup: Warmup::None,
        interval: None,
        latency: None,
        heat: false,
        seed: 0,
        threads: NonZeroUsize::MIN,
    };
    let mut open = || Ok(Box::new(recorded.clone()) as Box<dyn Reader>);
    let result = study.run("recorded", &mut open, &mut |_| {}).unwrap();
    let run = &result.runs[0];
    let of_misses = match write_policy {
        WritePolicy::Back => "allocate",
        WritePolicy::Through | WritePolicy::Around => "bypass",
    };
    assert_eq!((run.policy.as_str(), run.write_miss), ("daemon", of_misses));
    assert_eq!(
        (run.admission.as_str(), run.allocation.as_str()),
        ("reuse-age", "utility")
    );
    let counters: &Counters = &run.counters;
    Answer {
        reads: counters.reads,
        hits: counters.read_hits,
        staged_hits: counters.ram_read_hits,
        write_hits: match write_policy {
            WritePolicy::Back => 0,
            WritePolicy::Through | WritePolicy::Around => {
                counters.write_hits - counters.ram_write_hits
            }
        },
        admitted: counters.flash_fill_blocks,
        rewritten: counters.flash_update_blocks,
        reclaimed_blocks: counters.flash_reclaim_blocks,
        descriptor_blocks: counters.flash_descriptor_blocks,
        logged_blocks: counters.flash_dirty_blocks,
        destaged_blocks: counters.destaged_blocks,
        coalesced_blocks: counters.coalesced_blocks,
        dirty_blocks: run.used.dirty_end.into(),
        origin_writes: counters.origin_writes - counters.discard_requests,
        origin_write_bytes: counters.origin_write_bytes,
    }
}

/// A host whose disks and VMs come with their first requests.
struct Host {
    bench: Bench,
    cache: Cache,
    disks: Vec<Option<DiskSlot>>,
    /// By VM and image: who has joined.
    joined: Vec<(u32, VolumeIndex, TenantSlot)>,
    /// Volumes that are written, in the order in which they are first.
    written: Vec<VolumeIndex>,
    /// How much all dirty logs may take.
    room: Bytes,
}

impl Host {
    fn disk(&mut self, role: Role, blocks: u64) -> DiskSlot {
        let at = role.blocks.to_usize();
        if let Some(disk) = self.disks[at] {
            return disk;
        }
        let name = if role.is_image {
            "image".to_owned()
        } else {
            format!("vm{}", role.vm)
        };
        let size = Bytes::new(blocks * BLOCK_BYTES);
        let (bench, cache) = (&mut self.bench, &mut self.cache);
        let before = self.written.iter().position(|of| *of == role.blocks);
        let disks = before.unwrap_or(self.written.len()) as u64 + 1;
        bench.write_back.dirty_max = WriteBack::share_of(self.room, disks);
        let disk = bench.attach_to(cache, at as u128 + 1, size, &name, role.is_image);
        assert_eq!(disk.index(), at, "disks come in their order");
        self.disks[at] = Some(disk);
        disk
    }

    /// As whom a VM asks a disk.
    fn asks_as(&mut self, role: Role, disk: DiskSlot) -> TenantSlot {
        if !role.is_image {
            return self.cache.facts().tenant_of(disk).unwrap();
        }
        let known = |of: &&(u32, VolumeIndex, TenantSlot)| (of.0, of.1) == (role.vm, role.blocks);
        if let Some((.., slot)) = self.joined.iter().find(known) {
            return *slot;
        }
        let slot = self.cache.join(disk, &format!("vm{}", role.vm)).unwrap();
        self.joined.push((role.vm, role.blocks, slot));
        slot
    }

    /// Time passes, and the cache is ticked when it asked to be: under write-back a log is destaged then.
    fn pass_until(&mut self, now: Instant) {
        let mut at = Instant::ZERO;
        while self.bench.policy == cache::WritePolicy::Back
            && let Some(due) = self.cache.next_deadline()
            && due > at
            && due < now
        {
            self.bench.now = due;
            self.cache.tick(due);
            self.bench.settle(&mut self.cache);
            at = due;
        }
        self.bench.now = now;
        self.cache.tick(now);
        self.bench.settle(&mut self.cache);
    }

    fn access(&mut self, record: &Record, role: Role, blocks: u64) {
        self.bench.now = Instant::from_nanos(record.time_us * 1000);
        let disk = self.disk(role, blocks);
        let vm = self.asks_as(role, disk);
        self.pass_until(self.bench.now);
        let (offset, length) = (record.offset, record.length);
        let verb = match record.op {
            Op::Read => Verb::Read { offset, length },
            Op::Write => Verb::Write {
                offset,
                data: self.bench.pool.copy_of(&[1; 4096]),
                fua: false,
            },
            Op::Discard | Op::WriteZeroes => Verb::Discard { offset, length },
            Op::Flush => Verb::Flush,
        };
        self.bench.ask_for(&mut self.cache, disk, vm, verb);
        if record.op != Op::Read && self.bench.policy != cache::WritePolicy::Back {
            self.bench.ask_for(&mut self.cache, disk, vm, Verb::Flush);
        }
    }
}

/// The volumes that are written, in the order in which they are first.
fn written_first(recorded: &Recorded) -> Vec<VolumeIndex> {
    let mut written = Vec::new();
    for record in recorded.records.iter().filter(|of| of.op == Op::Write) {
        let volume = recorded.volumes.roles()[record.volume.to_usize()].blocks;
        if !written.contains(&volume) {
            written.push(volume);
        }
    }
    written
}

fn through_the_cache(
    recorded: &Recorded,
    geometry: &Geometry,
    policy: cache::WritePolicy,
) -> Answer {
    let config = Config {
        tenancy: Some(daemon::settings(Capacity::of(geometry).bytes())),
        ..Config::default()
    };
    let (mut bench, cache) = Bench::open(FLASH, segment_bytes_for(FLASH), config);
    bench.policy = policy;
    let mut host = Host {
        bench,
        cache,
        disks: vec![None; recorded.volumes.len()],
        joined: Vec::new(),
        written: written_first(recorded),
        room: WriteBack::room_on(Bytes::new(geometry.slots() * BLOCK_BYTES)),
    };
    let last = recorded.records.iter().map(|record| record.offset).max();
    let blocks = last.unwrap().get() / BLOCK_BYTES + 1;
    for record in &recorded.records {
        host.access(
            record,
            recorded.volumes.roles()[record.volume.to_usize()],
            blocks,
        );
    }
    host.cache.self_check();
    let tenants = host.cache.facts().tenants();
    let counts: Vec<Counts> = tenants
        .iter()
        .filter_map(|tenant| host.cache.facts().tenant_counts(tenant.slot).copied())
        .collect();
    let sum = |of: fn(&Counts) -> u64| counts.iter().map(of).sum();
    let stats = host.cache.facts().stats();
    let written = stats.flash_written;
    let disks = host.disks.iter().flatten();
    let dirty: Vec<_> = disks
        .filter_map(|disk| host.cache.facts().write_back_of(*disk))
        .collect();
    let dirty = |of: fn(&DirtyStatus) -> Bytes| {
        let bytes: u64 = dirty.iter().map(|status| of(status).get()).sum();
        bytes / BLOCK_BYTES
    };
    let writes = recorded.records.iter().filter(|of| of.op == Op::Write);
    let logged = match policy {
        cache::WritePolicy::Back => writes.count() as u64,
        cache::WritePolicy::Through | cache::WritePolicy::Around => 0,
    };
    let destaged = dirty(|status| status.destaged);
    let origin_bytes: u64 = host.bench.written.iter().map(|bytes| bytes.get()).sum();
    Answer {
        reads: sum(|counts| counts.reads),
        hits: sum(|counts| counts.read_hits + counts.staged_hits),
        staged_hits: sum(|counts| counts.staged_hits),
        write_hits: match policy {
            cache::WritePolicy::Back => 0,
            cache::WritePolicy::Through | cache::WritePolicy::Around => {
                sum(|counts| counts.write_hits)
            }
        },
        admitted: sum(|counts| counts.admitted),
        rewritten: sum(|counts| counts.rewritten),
        reclaimed_blocks: written.reclaim / BLOCK_BYTES,
        descriptor_blocks: written.descriptors / BLOCK_BYTES,
        logged_blocks: logged,
        destaged_blocks: destaged,
        coalesced_blocks: logged - destaged - dirty(|status| status.logged),
        dirty_blocks: dirty(|status| status.distinct),
        origin_writes: host.bench.written.len() as u64,
        origin_write_bytes: origin_bytes,
    }
}

/// What the simulator and the cache count of the recording.
fn counts(write_policy: WritePolicy, policy: cache::WritePolicy) -> Answer {
    let recorded = recorded(policy == cache::WritePolicy::Back);
    let geometry = Geometry::new(FLASH, segment_bytes_for(FLASH)).unwrap();
    let blocks = u64::from(geometry.segment_count()) * u64::from(geometry.segment_pages());
    let daemon = through_the_cache(&recorded, &geometry, policy);
    assert_eq!(simulated(&recorded, blocks, write_policy), daemon);
    daemon
}

#[test]
fn a_recording_has_the_daemons_own_counts() {
    let daemon = counts(WritePolicy::Through, cache::WritePolicy::Through);
    assert!(daemon.hits > 100_000, "{daemon:?}");
    assert!(daemon.admitted > 10_000, "{daemon:?}");
    assert!(
        daemon.reclaimed_blocks > 50 && daemon.staged_hits > 50,
        "{daemon:?}"
    );
}

#[test]
fn a_recording_under_write_back_has_the_daemons_own_counts() {
    let daemon = counts(WritePolicy::Back, cache::WritePolicy::Back);
    assert!(daemon.logged_blocks > 1000, "{daemon:?}");
    assert!(daemon.coalesced_blocks > 100, "{daemon:?}");
    assert!(daemon.origin_writes > 100, "{daemon:?}");
}
