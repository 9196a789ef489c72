//! Studies over traces in memory: passes, sizes, warm-up, threads, refusals.

#![allow(clippy::unwrap_used, reason = "a test ends where it goes wrong")]

use policy::replacement::Replacement;
use proptest::prelude::*;
use simulator::policy::Custom;
use simulator::{
    Arrival, CacheSize, Interval, LatencySettings, Limits, Observer, Plan, Policy, RunResult,
    SimError, Study, StudyResult, Tier, Warmup, WriteMiss, WritePolicy,
};
use std::num::NonZeroUsize;
use trace::{Op, OpenError, ReadError, Reader, Record, Records, Volume, VolumeIndex, Volumes};
use units::{Bytes, Duration, Offset};

const BLOCK: u64 = 4096;

/// A trace in memory, a few records a batch.
struct InMemory {
    records: std::vec::IntoIter<Record>,
    volumes: Volumes,
    /// Fails instead of ending.
    breaks: bool,
}

impl InMemory {
    fn new(records: &[Record]) -> Self {
        let mut volumes = Volumes::new();
        volumes.intern(&Volume::default());
        Self {
            records: Vec::from(records).into_iter(),
            volumes,
            breaks: false,
        }
    }
}

impl Reader for InMemory {
    fn read_batch(&mut self, records: &mut Records) -> Result<bool, ReadError> {
        records.clear();
        records.extend(self.records.by_ref().take(37));
        if records.is_empty() && self.breaks {
            return Err(ReadError::Input {
                file: "memory".to_owned(),
                unpacked_bytes: 0,
                remedy: "none",
                source: std::io::Error::other("it breaks"),
            });
        }
        Ok(!records.is_empty())
    }

    fn volumes(&self) -> &Volumes {
        &self.volumes
    }
}

fn record(time_us: u64, op: Op, block: u64) -> Record {
    let volume = VolumeIndex::new(0);
    Record::new(
        time_us,
        volume,
        op,
        Offset::new(block * BLOCK),
        Bytes::new(BLOCK),
    )
}

fn study(policies: &str, sizes: &str) -> Study {
    Study {
        policies: Policy::parse_list(policies).unwrap(),
        sizes: sizes
            .split(',')
            .map(|size| size.parse::<CacheSize>().unwrap())
            .collect(),
        tiers: Vec::new(),
        block: Bytes::new(BLOCK),
        write_policy: WritePolicy::Through,
        write_miss: Some(WriteMiss::Allocate),
        warmup: Warmup::None,
        interval: None,
        latency: None,
        heat: false,
        seed: 0,
        threads: NonZeroUsize::new(2).unwrap(),
    }
}

fn run(study: &Study, records: &[Record]) -> Result<StudyResult, SimError> {
    let mut open =
        || -> Result<Box<dyn Reader>, OpenError> { Ok(Box::new(InMemory::new(records))) };
    study.run("memory", &mut open, &mut |_| {})
}

/// Reads of a hundred blocks in turn, a millisecond apart.
fn loop_of_hundred(accesses: u64) -> Vec<Record> {
    (0..accesses)
        .map(|n| record(1 + n * 1000, Op::Read, n % 100))
        .collect()
}

#[test]
fn runs_come_in_the_order_of_policies_and_sizes() {
    let result = run(&study("lru,fifo", "10blk,50%,200%"), &loop_of_hundred(1000)).unwrap();
    let cases: Vec<_> = result
        .runs
        .iter()
        .map(|run| (run.policy.as_str(), run.size_blocks, run.counters.misses()))
        .collect();
    // A loop that does not fit never hits under either.
    let of = |policy| [(policy, 10, 1000), (policy, 50, 1000), (policy, 200, 100)];
    assert_eq!(cases, [of("lru"), of("fifo")].concat());
    assert!(result.runs.iter().all(|run| run.footprint_blocks == 100));
    assert_eq!(result.duration_us, 999_000);
}

#[test]
fn a_warm_up_takes_the_first_misses_with_it() {
    for warmup in [
        Warmup::Percent(10.0),
        Warmup::Time(Duration::from_millis(100)),
    ] {
        let study = Study {
            warmup,
            ..study("lru", "100blk")
        };
        let counters = run(&study, &loop_of_hundred(1000)).unwrap().runs[0].counters;
        assert_eq!(
            (counters.accesses(), counters.misses()),
            (900, 0),
            "{warmup}"
        );
    }
    let study = Study {
        warmup: Warmup::Time(Duration::from_secs(2)),
        ..study("lru", "100blk")
    };
    let result = run(&study, &loop_of_hundred(1000));
    assert!(matches!(result, Err(SimError::AllWarmup(_))));
}

#[test]
fn what_needs_times_is_refused_without_them() {
    let untimed: Vec<Record> = (0..100).map(|n| record(0, Op::Read, n % 7)).collect();
    let free = "iops=unlimited".parse().unwrap();
    let latency = |arrival| LatencySettings {
        flash: free,
        origin: free,
        arrival,
    };
    let plain = || study("lru", "3blk");
    for study in [
        Study {
            latency: Some(latency(Arrival::Timed { speed: 1.0 })),
            ..plain()
        },
        Study {
            warmup: Warmup::Time(Duration::from_secs(1)),
            ..plain()
        },
        Study {
            interval: Some(Interval::Time(Duration::from_secs(1))),
            ..plain()
        },
    ] {
        assert!(matches!(run(&study, &untimed), Err(SimError::NoTime(_))));
    }
    let study = Study {
        latency: Some(latency(Arrival::Depth(4))),
        interval: Some(Interval::Automatic),
        ..plain()
    };
    let result = run(&study, &untimed).unwrap();
    assert!(
        result.runs[0]
            .latency
            .as_ref()
            .is_some_and(|latency| latency.requests_per_s > 0.0)
    );
    assert!(
        result.runs[0]
            .series
            .as_ref()
            .is_some_and(|series| series.samples.len() == 2)
    );
}

#[test]
fn a_trace_without_reads_and_writes_is_refused() {
    for records in [&[][..], &[record(5, Op::Discard, 1)]] {
        assert!(matches!(
            run(&study("lru", "3blk"), records),
            Err(SimError::Empty)
        ));
    }
}

#[test]
fn a_trace_that_breaks_is_an_error_with_any_number_of_threads() {
    for threads in [1, 3] {
        let study = Study {
            threads: NonZeroUsize::new(threads).unwrap(),
            ..study("lru,fifo", "3blk,5blk")
        };
        let records = loop_of_hundred(50_000);
        let mut open = || -> Result<Box<dyn Reader>, OpenError> {
            let mut reader = InMemory::new(&records);
            reader.breaks = true;
            Ok(Box::new(reader))
        };
        let result = study.run("memory", &mut open, &mut |_| {});
        assert!(
            matches!(result, Err(SimError::Read(_))),
            "{threads} threads"
        );
    }
}

#[test]
fn a_report_shows_where_the_accesses_lie() {
    let study = Study {
        heat: true,
        ..study("lru", "10%")
    };
    let heat = run(&study, &loop_of_hundred(1000)).unwrap().heat.unwrap();
    assert_eq!(heat.maps.len(), 1);
    assert_eq!(heat.maps[0].cells.iter().sum::<u64>(), 1000);
}

/// The most reads that a cache of `size` can hit when writes go around it, by trying everything: each
/// state is a set of cached blocks, and after each miss any block may leave.
fn best_read_hits(records: &[Record], size: usize) -> u32 {
    use std::collections::BTreeMap;
    let mut states: BTreeMap<Vec<u64>, u32> = BTreeMap::from([(Vec::new(), 0)]);
    for record in records {
        let block = record.offset.get() / BLOCK;
        let mut next: BTreeMap<Vec<u64>, u32> = BTreeMap::new();
        let mut offer = |state: Vec<u64>, hits: u32| {
            let best = next.entry(state).or_insert(0);
            *best = (*best).max(hits);
        };
        for (state, hits) in &states {
            let mut without = state.clone();
            without.retain(|other| *other != block);
            let cached = without.len() < state.len();
            if record.op != Op::Read {
                offer(without, *hits);
            } else if cached {
                offer(state.clone(), hits + 1);
            } else {
                let mut with = state.clone();
                with.push(block);
                with.sort_unstable();
                if with.len() <= size {
                    offer(with, *hits);
                } else {
                    for victim in with.iter().filter(|victim| **victim != block) {
                        let mut state = with.clone();
                        state.retain(|other| other != victim);
                        offer(state, *hits);
                    }
                }
            }
        }
        states = next;
    }
    states.into_values().max().unwrap_or(0)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn beladys_policy_is_the_best_there_is_even_when_blocks_are_dropped(
        accesses in prop::collection::vec((0..7_u64, 0..4_u32), 1..40),
        size in 1..4_u32,
    ) {
        let op = |die| if die == 0 { Op::Write } else { Op::Read };
        let records: Vec<Record> = accesses.iter().map(|(block, die)| record(1, op(*die), *block)).collect();
        let study = Study {
            write_policy: WritePolicy::Around,
            ..study("belady", &format!("{size}blk"))
        };
        let counters = run(&study, &records).unwrap().runs[0].counters;
        prop_assert_eq!(counters.read_hits, u64::from(best_read_hits(&records, size as usize)));
    }
}

/// Reads of some blocks often and of others seldom, and of each hundred accesses so many writes.
fn skewed(accesses: u64, writes: u64) -> Vec<Record> {
    let mut dice = units::Prng::new(3);
    let one = |n: u64| {
        let range = 1 + dice.below(400);
        let block = dice.below(range);
        let op = if dice.below(100) < writes {
            Op::Write
        } else {
            Op::Read
        };
        record(1 + n * 1000, op, block)
    };
    (0..accesses).map(one).collect()
}

/// The cache behind it decides as if it were not there, and what it serves is what the same policy has in place. (A write
/// takes the frame only, so of writes S3-FIFO remembers more than in place.)
#[test]
fn memory_in_front_hides_no_use_and_hits_as_its_policy_does_in_place() {
    for policy in ["s3-fifo", "w-tinylfu", "lru"] {
        for writes in [0, 10] {
            let records = skewed(30_000, writes);
            let around = Study {
                write_policy: WritePolicy::Around,
                ..study("segment-twin-clock,lru", "128blk")
            };
            let tiered = Study {
                tiers: vec![Tier {
                    size: CacheSize::Blocks(40),
                    policy: policy.parse().unwrap(),
                }],
                ..around.clone()
            };
            let in_place = Study {
                sizes: vec![CacheSize::Blocks(40)],
                policies: Policy::parse_list(policy).unwrap(),
                ..around.clone()
            };
            let bare = run(&around, &records).unwrap().runs;
            let in_place = run(&in_place, &records).unwrap().runs[0].counters;
            for (bare, tiered) in bare.iter().zip(run(&tiered, &records).unwrap().runs) {
                let (bare, behind) = (bare.counters, tiered.counters);
                assert!(behind.ram_read_hits >= in_place.read_hits, "{policy}");
                if writes == 0 {
                    assert_eq!(behind.ram_read_hits, in_place.read_hits, "{policy}");
                }
                assert_eq!(behind.flash_writes_blocks(), bare.flash_writes_blocks());
                assert_eq!(behind.write_hits, bare.write_hits);
                assert!(behind.read_hits >= bare.read_hits);
                assert_eq!(tiered.ram_policy, policy);
                assert_eq!(tiered.ram_blocks, 40);
            }
        }
    }
}

/// Who notes what a study says.
#[derive(Default)]
struct Notes {
    plan: Option<Plan>,
    /// Results after each pass.
    after: Vec<usize>,
}

impl Observer for Notes {
    fn accessed(&mut self, _: u64) {}

    fn planned(&mut self, plan: &Plan) {
        self.plan = Some(plan.clone());
    }

    fn ended(&mut self, runs: &[RunResult]) {
        self.after.push(runs.len());
    }
}

fn run_within(study: &Study, memory: Option<Bytes>) -> (StudyResult, Notes) {
    let records = loop_of_hundred(1000);
    let mut open =
        || -> Result<Box<dyn Reader>, OpenError> { Ok(Box::new(InMemory::new(&records))) };
    let limits = Limits {
        memory,
        program: Bytes::ZERO,
        rereads: true,
        plans: true,
    };
    let mut notes = Notes::default();
    let result = study.run_within("memory", &mut open, &limits, &mut notes);
    (result.unwrap(), notes)
}

/// Each run of this trace takes a little more than a quarter of a mebibyte, and reading two.
#[test]
fn runs_that_do_not_fit_at_once_go_one_after_the_other_with_the_same_results() {
    let study = study("lru,fifo,s3-fifo", "10blk,50%");
    let (at_once, all) = run_within(&study, None);
    let (in_turn, notes) = run_within(&study, Some(Bytes::kib(2600)));
    assert_eq!(all.after, [6]);
    assert_eq!(notes.after, [2, 4, 6], "{:?}", notes.plan);
    let told = |result: &StudyResult| -> Vec<String> {
        result
            .runs
            .iter()
            .map(|run| serde_json::to_string(run).unwrap())
            .collect()
    };
    assert_eq!(told(&at_once), told(&in_turn));
    assert!(notes.plan.unwrap().peak().unwrap() <= Bytes::kib(2600));
}

#[test]
fn a_size_that_fails_costs_no_other_its_result() {
    // No log has ten blocks; twenty million blocks take 680 MB.
    let mut study = study("lru,segment-clock", "10blk,20000000blk,5000blk");
    study.interval = Some(Interval::Automatic);
    let (result, _) = run_within(&study, Some(Bytes::mib(100)));
    let done: Vec<_> = result
        .runs
        .iter()
        .map(|run| (run.policy.as_str(), run.size_blocks))
        .collect();
    assert_eq!(done, [("lru", 10), ("lru", 5000), ("segment-clock", 5000)]);
    let mut failed: Vec<_> = result
        .failures
        .iter()
        .map(|failure| {
            (
                failure.policy.as_str(),
                failure.size.as_str(),
                failure.error.to_string(),
            )
        })
        .collect();
    failed.sort();
    assert_eq!(failed.len(), 3);
    assert!(failed[0].2.contains("100MiB are allowed"), "{failed:?}");
    assert_eq!((failed[1].0, failed[1].1), ("segment-clock", "10blk"));
    assert!(failed[2].2.contains("100MiB are allowed"), "{failed:?}");
    assert!(matches!(
        run(&study, &loop_of_hundred(10)),
        Err(SimError::Policy(_))
    ));
}

/// A cache whose code panics at its tenth access.
struct Bomb(u32);

impl Replacement<u32> for Bomb {
    fn access(&mut self, _: u32, _: &mut Vec<u32>) -> bool {
        self.0 += 1;
        assert!(self.0 < 10, "the tenth access");
        false
    }
    fn remove(&mut self, _: u32) -> bool {
        false
    }
    fn contains(&self, _: u32) -> bool {
        false
    }
    fn run(&mut self, keys: &[u32], _: &mut [u8]) {
        for key in keys {
            self.access(*key, &mut Vec::new());
        }
    }
    fn len(&self) -> u32 {
        0
    }
    fn capacity(&self) -> u32 {
        10
    }
    fn pass(&mut self) {}
}

#[test]
fn a_policy_that_panics_costs_no_other_its_result() {
    for threads in [1, 2] {
        let mut study = study("lru,fifo", "10blk");
        study.threads = NonZeroUsize::new(threads).unwrap();
        let bomb = Custom::new("bomb", |_| Box::new(Bomb(0)));
        study.policies.insert(1, Policy::Custom(bomb));
        let (result, _) = run_within(&study, None);
        let done: Vec<_> = result.runs.iter().map(|run| run.policy.as_str()).collect();
        assert_eq!(done, ["lru", "fifo"]);
        let failure = &result.failures[0];
        assert_eq!(failure.policy, "bomb");
        assert!(matches!(&failure.error, SimError::Panicked(why) if why == "the tenth access"));
    }
}
