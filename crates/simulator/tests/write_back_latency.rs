//! Write-back over modelled devices: a burst is taken at the speed of flash, and what goes on for long at that of the
//! origin, whatever holds the dirty blocks.

#![allow(clippy::unwrap_used, reason = "a test ends where it goes wrong")]

use simulator::{Arrival, LatencySettings, Policy, RunResult, Study, Warmup, WritePolicy};
use std::num::NonZeroUsize;
use trace::generate::Generator;
use units::Bytes;
use units::number::real;

/// What a run is asked: the trace, policy and size, how many requests are outstanding, the origin.
struct Asked<'a> {
    trace: &'a str,
    policy: &'a str,
    size: &'a str,
    arrival: Arrival,
    origin: &'a str,
}

fn run(asked: &Asked<'_>, write_policy: WritePolicy, with_latency: bool) -> RunResult {
    let latency = LatencySettings {
        flash: "nvme".parse().unwrap(),
        origin: asked.origin.parse().unwrap(),
        arrival: asked.arrival,
    };
    let study = Study {
        policies: Policy::parse_list(asked.policy).unwrap(),
        sizes: vec![asked.size.parse().unwrap()],
        tiers: Vec::new(),
        block: Bytes::kib(4),
        write_policy,
        write_miss: None,
        warmup: Warmup::None,
        interval: None,
        latency: with_latency.then_some(latency),
        heat: false,
        seed: 0,
        threads: NonZeroUsize::MIN,
    };
    let spec: trace::generate::Spec = asked.trace.parse().unwrap();
    let mut open = || -> Result<Box<dyn trace::Reader>, trace::OpenError> {
        Ok(Box::new(Generator::new(&spec)))
    };
    let result = study.run("generated", &mut open, &mut |_| {});
    result.unwrap().runs.remove(0)
}

fn back(asked: &Asked<'_>) -> (RunResult, f64) {
    let run = run(asked, WritePolicy::Back, true);
    let rate = run.latency.as_ref().unwrap().requests_per_s;
    (run, rate)
}

const SCATTERED: &str = "uniform,requests=40k,blocks=4M,reads=0,rate=5000";

#[test]
fn in_place_a_disk_takes_its_own_iops() {
    let (_, rate) = back(&Asked {
        trace: SCATTERED,
        policy: "lru",
        size: "100blk",
        arrival: Arrival::Depth(32),
        origin: "disk",
    });
    // The disk writes a block in 8 ms; 100 blocks fit in the cache.
    assert!((rate / 125.0 - 1.0).abs() < 0.02, "{rate} writes a second");
}

#[test]
fn a_full_log_takes_what_the_disk_does_times_what_its_batches_merge() {
    for trace in [
        SCATTERED,
        "sequential,requests=40k,blocks=4M,reads=0,rate=5000",
    ] {
        let (run, rate) = back(&Asked {
            trace,
            policy: "daemon",
            size: "64MiB",
            arrival: Arrival::Depth(32),
            origin: "disk,bandwidth=unlimited",
        });
        let counters = &run.counters;
        let merged = real(counters.destaged_blocks) / real(counters.origin_writes);
        // The log of a disk in 64 MiB holds 16 MiB, 4096 blocks; a write takes 8 ms, and so does a flush of a batch.
        let most = 125.0 * merged * 40_000.0 / (40_000.0 - 4_096.0);
        assert!(rate < most * 1.02, "{rate} of {most} writes a second");
        assert!(rate > most * 0.5, "{rate} of {most} writes a second");
    }
}

#[test]
fn a_burst_that_fits_in_the_log_waits_for_flash_alone() {
    let (run, _) = back(&Asked {
        trace: "uniform,requests=4k,blocks=4M,reads=0,rate=5000",
        policy: "daemon",
        size: "64MiB",
        arrival: Arrival::Timed { speed: 1.0 },
        origin: "disk",
    });
    let writes = run.latency.unwrap().writes;
    assert!(writes.p99_us < 100.0, "{writes:?}");
}

#[test]
fn an_origin_without_limits_makes_nobody_wait() {
    for policy in ["lru", "daemon"] {
        let (run, _) = back(&Asked {
            trace: SCATTERED,
            policy,
            size: "64MiB",
            arrival: Arrival::Timed { speed: 1.0 },
            origin: "read=0us,write=0us,iops=unlimited,bandwidth=unlimited,parallel=unlimited",
        });
        let writes = run.latency.unwrap().writes;
        // In place an evicted block is read from flash first.
        let most = if policy == "lru" { 110.0 } else { 30.0 };
        assert!(writes.mean_us < most, "{policy}: {writes:?}");
    }
}

#[test]
fn what_is_counted_does_not_depend_on_how_long_it_takes() {
    for policy in ["lru", "segment-clock", "daemon"] {
        let asked = Asked {
            trace: "zipf,requests=40k,blocks=20k,theta=0.9,reads=0.5,rate=500",
            policy,
            size: "32MiB",
            arrival: Arrival::Timed { speed: 1.0 },
            origin: "disk",
        };
        let [with, without] = [true, false].map(|with| run(&asked, WritePolicy::Back, with));
        assert_eq!(with.counters, without.counters, "{policy}");
    }
}
