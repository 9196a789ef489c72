//! How much memory a study takes: each of its runs, and what all of them share.

use super::Study;
use crate::memory::Facts;
use crate::policy::Policy;
use crate::series::{Interval, Sample, VmSample};
use crate::write_policy::WritePolicy;
use units::Bytes;

/// For each block, under write-back: its place in a dirty log.
const LOGGED: u64 = 24;
/// A frame of memory in front, with its tables.
const FRAME: u64 = 96;
/// Histograms and queues of modelled devices.
const LATENCY: u64 = 512 << 10;
/// Counts of a volume, in a run and in its result.
const VOLUME: u64 = 512;
/// The splitter's tables for each distinct block.
const SPLITTER_KEY: u64 = 10;
/// Packs that go from the reader to the runs.
const READING: u64 = 2 << 20;
/// The next use of an access, and the table that it is found with.
const FUTURE_ACCESS: u64 = 4;
const FUTURE_KEY: u64 = 4;
/// The map of where a volume's accesses lie.
const HEAT: u64 = 64 << 10;
/// Samples where the program chooses their interval.
const SAMPLES_AUTOMATIC: u64 = 512;

/// What a run takes whose cache has `blocks` blocks, behind `frames` of memory.
pub(super) fn of_run(
    study: &Study,
    policy: &Policy,
    (blocks, frames): (u64, u64),
    facts: &Facts,
) -> Bytes {
    let logged = if study.write_policy == WritePolicy::Back {
        LOGGED * blocks
    } else {
        0
    };
    let latency = if study.latency.is_some() { LATENCY } else { 0 };
    Bytes::new(
        policy.memory(blocks, facts) + logged + latency + FRAME * frames + of_result(study, facts),
    )
}

/// What a run's result takes, as long as the study goes on.
fn of_result(study: &Study, facts: &Facts) -> u64 {
    let samples = match study.interval {
        None => 0,
        Some(Interval::Automatic) => SAMPLES_AUTOMATIC,
        Some(Interval::Accesses(accesses)) => facts.accesses / accesses.max(1) + 1,
        Some(Interval::Time(time)) => {
            let every_us = (time.as_nanos() / 1000).max(1);
            (facts.duration_us / every_us + 1).min(facts.accesses)
        }
    };
    let sample = size_of::<Sample>() as u64 + facts.vms * size_of::<VmSample>() as u64;
    samples * sample + VOLUME * facts.volumes
}

/// What a study takes beside its runs, with so many results at its end.
pub(super) fn of_study(study: &Study, results: u64, facts: &Facts) -> Bytes {
    let future = if study.policies.iter().any(Policy::knows_the_future) {
        FUTURE_ACCESS * facts.accesses + FUTURE_KEY * facts.footprint
    } else {
        0
    };
    let heat = if study.heat { HEAT * facts.volumes } else { 0 };
    let results = results * of_result(study, facts);
    Bytes::new(READING + SPLITTER_KEY * facts.footprint + future + heat + results)
}
