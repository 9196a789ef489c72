//! Runs by hand, and runs beside a slow model that does one block at a time.

use super::*;
use crate::cache::Maker;
use crate::latency::{Arrival, LatencySettings};
use crate::policy::{Policy, PolicyError};
use crate::series::Interval;
use crate::write_policy::WriteMiss;
use proptest::prelude::*;
use trace::{Splitter, VolumeIndex};
use units::{Duration, Offset};

const BLOCK: u64 = 4096;

fn record(op: Op, time_us: u64, offset: u64, length: u64) -> Record {
    let (offset, length) = (Offset::new(offset), Bytes::new(length));
    Record::new(time_us, VolumeIndex::new(0), op, offset, length)
}

fn blocks(op: Op, first: u64, count: u64) -> Record {
    record(op, 0, first * BLOCK, count * BLOCK)
}

fn run_of(
    policy: &str,
    size: u32,
    write_policy: WritePolicy,
    write_miss: WriteMiss,
    start: Start,
) -> Run {
    let maker = Maker {
        blocks: size,
        block: Bytes::new(BLOCK),
        write_policy,
        write_miss,
        future: None,
    };
    let policy: Policy = policy.parse().unwrap();
    Run::new(
        policy.build(&maker).unwrap(),
        write_policy,
        Bytes::new(BLOCK),
        start,
    )
}

/// Passes `records` through a run, `batch` of them at a time.
fn pass(run: &mut Run, records: &[Record], batch: usize) {
    let mut splitter = Splitter::new(Bytes::new(BLOCK));
    let mut split = Batch::default();
    for part in records.chunks(batch) {
        splitter.split(&part.into(), &mut split).unwrap();
        run.batch(&split);
    }
}

fn counted(write_policy: WritePolicy, write_miss: WriteMiss, records: &[Record]) -> Finished {
    let mut run = run_of("lru", 2, write_policy, write_miss, Start::Begun);
    pass(&mut run, records, 100);
    run.finish()
}

#[test]
fn a_read_that_misses_in_two_places_is_two_reads_of_the_origin() {
    // 1 is cached; of 0, 1, 2 the first and the last are not.
    let total = counted(
        WritePolicy::Through,
        WriteMiss::Allocate,
        &[blocks(Op::Read, 1, 1), blocks(Op::Read, 0, 3)],
    )
    .total;
    assert_eq!((total.reads, total.read_hits), (4, 1));
    assert_eq!(
        (total.origin_reads, total.origin_read_bytes),
        (3, 3 * BLOCK)
    );
    assert_eq!(total.flash_writes_blocks(), 3);
    assert_eq!((total.bytes, total.hit_bytes), (4 * BLOCK, BLOCK));
}

#[test]
fn writes_do_what_their_policy_says() {
    let records = [
        blocks(Op::Read, 0, 1),
        blocks(Op::Write, 0, 2),
        blocks(Op::Read, 0, 2),
    ];
    let counts = |policy, miss| {
        let finished = counted(policy, miss, &records);
        let total = finished.total;
        [
            total.write_hits,
            total.read_hits,
            total.origin_reads,
            total.origin_writes,
            total.flash_fill_blocks,
            total.flash_update_blocks,
            u64::from(finished.cache.dirty_blocks()),
        ]
    };
    // Around drops block 0, so that both are missed afterwards.
    assert_eq!(
        counts(WritePolicy::Around, WriteMiss::Allocate),
        [1, 0, 2, 1, 3, 0, 0]
    );
    assert_eq!(
        counts(WritePolicy::Through, WriteMiss::Allocate),
        [1, 2, 1, 1, 2, 1, 0]
    );
    assert_eq!(
        counts(WritePolicy::Through, WriteMiss::Bypass),
        [1, 1, 2, 1, 2, 1, 0]
    );
    assert_eq!(
        counts(WritePolicy::Back, WriteMiss::Allocate),
        [1, 2, 1, 0, 2, 1, 2]
    );
    assert_eq!(
        counts(WritePolicy::Back, WriteMiss::Bypass),
        [1, 1, 2, 1, 2, 1, 1]
    );
}

#[test]
fn evicted_dirty_blocks_are_destaged_and_discarded_ones_are_not() {
    let finished = counted(
        WritePolicy::Back,
        WriteMiss::Allocate,
        &[
            blocks(Op::Write, 0, 2),
            blocks(Op::Read, 2, 1), // evicts 0
            blocks(Op::Discard, 1, 1),
            blocks(Op::Read, 3, 2), // evicts 2, which is clean
        ],
    );
    assert_eq!(finished.total.destaged_blocks, 1);
    assert_eq!(finished.total.origin_write_bytes, BLOCK);
    assert_eq!(
        finished.total.origin_writes, 2,
        "the block, and the discard"
    );
    assert_eq!(finished.cache.dirty_blocks(), 0);
}

#[test]
fn parts_of_blocks_are_hit_bytes_as_far_as_they_were_asked_for() {
    let total = counted(
        WritePolicy::Through,
        WriteMiss::Allocate,
        &[
            record(Op::Read, 0, 100, 200),
            record(Op::Read, 0, 4000, 200), // 96 bytes of block 0, which is there, 104 of block 1
            record(Op::Read, 0, 5000, 10),
        ],
    )
    .total;
    assert_eq!((total.bytes, total.hit_bytes), (410, 96 + 10));
}

#[test]
fn statistics_begin_behind_the_warm_up() {
    let records: Vec<Record> = (0..10)
        .map(|n| record(Op::Read, n * 1000, (n % 2) * BLOCK, BLOCK))
        .collect();
    for (start, counted) in [
        (Start::Accesses(2), 8),
        (Start::Time(4000), 6),
        (Start::Begun, 10),
    ] {
        let mut run = run_of("lru", 2, WritePolicy::Through, WriteMiss::Allocate, start);
        pass(&mut run, &records, 3);
        let finished = run.finish();
        assert!(finished.is_counting);
        assert_eq!(finished.total.accesses(), counted, "{start:?}");
        assert_eq!(
            finished.total.misses(),
            if start == Start::Begun { 2 } else { 0 }
        );
    }
    let mut run = run_of(
        "lru",
        2,
        WritePolicy::Through,
        WriteMiss::Allocate,
        Start::Accesses(11),
    );
    pass(&mut run, &records, 3);
    assert!(!run.finish().is_counting);
}

#[test]
fn samples_lie_on_their_intervals_and_add_up() {
    let records: Vec<Record> = (0..100)
        .map(|n| record(Op::Read, 7 + n * 300, n * BLOCK, BLOCK))
        .collect();
    for batch in [1, 7, 100] {
        let series = Series::new(Interval::Time(Duration::from_millis(1)), true);
        let mut run = run_of(
            "lru",
            50,
            WritePolicy::Through,
            WriteMiss::Allocate,
            Start::Begun,
        )
        .with_series(Some(series));
        pass(&mut run, &records, batch);
        let series = run.finish().series.unwrap();
        let first = &series.samples[0];
        assert_eq!(
            (first.start, first.counters.reads, first.used_blocks),
            (0, 4, 4),
            "{batch}"
        );
        assert_eq!(series.samples.len(), 30);
        assert!(series.samples.iter().all(|sample| sample.start % 1000 == 0));
        let reads: u64 = series
            .samples
            .iter()
            .map(|sample| sample.counters.reads)
            .sum();
        assert_eq!(reads, 100);
        assert_eq!(series.samples[29].used_blocks, 50);
    }
}

/// What a cache under LRU does, one block at a time, without any cleverness.
struct Slow {
    size: usize,
    write_policy: WritePolicy,
    write_miss: WriteMiss,
    /// Most recently used first, with whether it is dirty.
    blocks: Vec<(u64, bool)>,
    total: Counters,
}

impl Slow {
    fn take(&mut self, block: u64) -> Option<bool> {
        let place = self.blocks.iter().position(|(other, _)| *other == block)?;
        Some(self.blocks.remove(place).1)
    }

    fn put(&mut self, block: u64, dirty: bool) {
        self.blocks.insert(0, (block, dirty));
        if self.blocks.len() > self.size && self.blocks.pop().unwrap().1 {
            self.total.destaged_blocks += 1;
            self.total.origin_writes += 1;
            self.total.origin_write_bytes += BLOCK;
        }
    }

    fn request(&mut self, record: &Record) {
        let (from, to) = (
            record.offset.get(),
            record.offset.get() + record.length.get(),
        );
        let range = from / BLOCK..to.div_ceil(BLOCK);
        match record.op {
            Op::Flush => self.total.flush_requests += 1,
            Op::Discard | Op::WriteZeroes => {
                self.total.discard_requests += 1;
                self.total.origin_writes += 1;
                for block in range {
                    self.take(block);
                }
            }
            Op::Read => {
                self.total.read_requests += 1;
                self.total.bytes += to - from;
                let mut fetching = false;
                for block in range {
                    self.total.reads += 1;
                    let was = self.take(block);
                    if was.is_some() {
                        self.total.read_hits += 1;
                        self.total.hit_bytes +=
                            to.min((block + 1) * BLOCK) - from.max(block * BLOCK);
                    } else {
                        self.total.origin_reads += u64::from(!fetching);
                        self.total.origin_read_bytes += BLOCK;
                        self.total.flash_fill_blocks += 1;
                    }
                    fetching = was.is_none();
                    self.put(block, was.unwrap_or(false));
                }
            }
            Op::Write => self.write(from, to, range),
        }
    }

    fn write(&mut self, from: u64, to: u64, range: Range<u64>) {
        self.total.write_requests += 1;
        self.total.bytes += to - from;
        let back = self.write_policy == WritePolicy::Back;
        if !back {
            self.total.origin_writes += 1;
            self.total.origin_write_bytes += to - from;
        }
        let mut passing = false;
        for block in range {
            self.total.writes += 1;
            let was = self.take(block);
            if was.is_some() {
                self.total.write_hits += 1;
                self.total.hit_bytes += to.min((block + 1) * BLOCK) - from.max(block * BLOCK);
            }
            if self.write_policy == WritePolicy::Around {
                continue;
            }
            let passes = was.is_none() && self.write_miss == WriteMiss::Bypass;
            if passes {
                if back {
                    self.total.origin_writes += u64::from(!passing);
                    self.total.origin_write_bytes += BLOCK;
                }
            } else {
                self.total.flash_update_blocks += u64::from(was.is_some());
                self.total.flash_fill_blocks += u64::from(was.is_none());
                self.put(block, back);
            }
            passing = passes;
        }
    }
}

fn any_record() -> impl Strategy<Value = Record> {
    let op = prop_oneof![
        8 => Just(Op::Read),
        8 => Just(Op::Write),
        1 => Just(Op::Flush),
        1 => Just(Op::Discard),
        1 => Just(Op::WriteZeroes),
    ];
    (op, 0..40_u64, 0..BLOCK / 512, 1..40_u64).prop_map(|(op, block, sector, sectors)| {
        let (offset, length) = match op {
            Op::Flush => (0, 0),
            // A model of whole blocks does not know what a discard of a part of one is.
            Op::Discard | Op::WriteZeroes => (block * BLOCK, sectors.div_ceil(8) * BLOCK),
            Op::Read | Op::Write => (block * BLOCK + sector * 512, sectors * 512),
        };
        record(op, 0, offset, length)
    })
}

proptest! {
    #[test]
    fn a_run_counts_what_a_slow_model_counts(
        records in prop::collection::vec(any_record(), 1..200),
        size in 1..30_u32,
        write_policy in prop::sample::select(&WritePolicy::ALL),
        write_miss in prop::sample::select(&WriteMiss::ALL),
        batch in 1..50_usize,
    ) {
        let mut slow = Slow {
            size: size as usize,
            write_policy,
            write_miss,
            blocks: Vec::new(),
            total: Counters::default(),
        };
        for record in &records {
            slow.request(record);
        }
        let mut run = run_of("lru", size, write_policy, write_miss, Start::Begun);
        pass(&mut run, &records, batch);
        let finished = run.finish();
        prop_assert_eq!(finished.total, slow.total);
        prop_assert_eq!(finished.cache.used_blocks() as usize, slow.blocks.len());
        let dirty = slow.blocks.iter().filter(|(_, dirty)| *dirty).count();
        prop_assert_eq!(finished.cache.dirty_blocks() as usize, dirty);
    }
}

#[test]
fn a_request_waits_for_the_blocks_that_it_missed() {
    let free = "iops=unlimited,bandwidth=unlimited,parallel=unlimited";
    let settings = LatencySettings {
        flash: format!("{free},read=100us,write=10us").parse().unwrap(),
        origin: format!("{free},read=1ms,write=2ms").parse().unwrap(),
        arrival: Arrival::Depth(1),
    };
    let model = LatencyModel::new(&settings, WritePolicy::Through, Bytes::new(BLOCK), 0);
    let mut run = run_of(
        "lru",
        9,
        WritePolicy::Through,
        WriteMiss::Allocate,
        Start::Begun,
    )
    .with_latency(Some(model));
    let records = [
        blocks(Op::Read, 0, 1),  // 1 ms
        blocks(Op::Read, 0, 1),  // 100 us
        blocks(Op::Read, 0, 2),  // 1 ms
        blocks(Op::Write, 0, 2), // 2 ms
    ];
    pass(&mut run, &records, 2);
    assert_eq!(run.finish().times().unwrap().ended, 4_100_000);
}

/// Of 64 KiB segments with 4 KiB blocks.
const LOG: &str = "segment-clock:segment=64KiB";

#[test]
fn a_log_under_write_back_counts_what_its_origin_gets_and_does_not_need() {
    let write = |time_us, first, count| record(Op::Write, time_us, first * BLOCK, count * BLOCK);
    let records = [
        write(0, 4, 4),
        write(1, 6, 2),
        record(Op::Read, 2, 4 * BLOCK, 5 * BLOCK),
        record(Op::Read, 9_000_000, 0, BLOCK),
        write(9_000_001, 4, 1),
    ];
    let mut run = run_of(
        LOG,
        1024,
        WritePolicy::Back,
        WriteMiss::Allocate,
        Start::Begun,
    );
    pass(&mut run, &records, 2);
    let finished = run.finish();
    let total = finished.total;
    assert_eq!((total.read_hits, total.reads), (4, 6));
    assert_eq!((total.write_hits, total.writes), (3, 7));
    assert_eq!((total.flash_dirty_blocks, total.flash_fill_blocks), (7, 2));
    assert_eq!((total.destaged_blocks, total.coalesced_blocks), (4, 2));
    assert_eq!(
        (total.origin_writes, total.origin_write_bytes),
        (1, 4 * BLOCK)
    );
    assert_eq!(finished.cache.dirty_blocks(), 1);
    assert_eq!(finished.cache.used_blocks(), 6);
}

#[test]
fn a_log_takes_every_write_and_caches_of_papers_have_no_write_back() {
    let refused = |policy: &str, write_miss| {
        let maker = Maker {
            blocks: 1024,
            block: Bytes::new(BLOCK),
            write_policy: WritePolicy::Back,
            write_miss,
            future: None,
        };
        policy.parse::<Policy>().unwrap().build(&maker).err()
    };
    for policy in [LOG, "daemon"] {
        assert_eq!(refused(policy, WriteMiss::Allocate), None);
        let logged = Some(PolicyError::LoggedWrites);
        assert_eq!(refused(policy, WriteMiss::Bypass), logged);
    }
    let written = refused("shr-tclock", WriteMiss::Allocate);
    assert_eq!(written, Some(PolicyError::WriteBack));
}

#[test]
fn what_a_flush_caused_is_counted_in_a_batch_of_its_own_too() {
    let records = [
        blocks(Op::Write, 0, 3),
        record(Op::Flush, 1, 0, 0),
        record(Op::Flush, 90_000_000, 0, 0),
    ];
    let counted = |batch| {
        let mut run = run_of(
            LOG,
            1024,
            WritePolicy::Back,
            WriteMiss::Allocate,
            Start::Begun,
        );
        pass(&mut run, &records, batch);
        run.finish().total
    };
    assert_eq!(counted(3).destaged_blocks, 3);
    assert_eq!(counted(1), counted(3));
}
