//! What a trace shows: the workload, and how caches of all sizes behave under it.

use super::args::Advise;
use crate::mrc::{Passed, in_blocks, pass, survey};
use crate::terminal::Progress;
use crate::terminal::exit::{CliError, Exit};
use crate::traces::{is_regular, needs_a_file};
use curves::{Measured, Settings};
use mrc::advice::{Behaviour, BySize, FlashWrites, Sizes, Times, Workload, candidates};
use mrc::{Between, Curve, Point};
use simulator::extents::Extents;
use simulator::result::LatencyResult;
use simulator::{CacheSize, RunResult, SizeError, Study, Tier, Warmup, WritePolicy};
use std::num::NonZeroUsize;
use std::path::Path;
use trace::info::Warning;
use units::number::{count_near, real};

/// What is known of a trace before anything is judged.
pub(super) struct Observed {
    pub(super) format: &'static str,
    /// Why no advice is to be drawn from it.
    pub(super) ruins: Vec<Warning>,
    pub(super) workload: Workload,
    pub(super) behaviour: Behaviour,
    /// Blocks that the curve is from.
    pub(super) sampled_blocks: u64,
    /// The part of the trace that was simulated, above 0 and at most 1.
    pub(super) simulated_rate: f64,
    pub(super) sizes: Sizes,
}

/// Block accesses that are simulated at each size at most: some ten seconds on two cores.
const SIMULATED_ACCESSES: u64 = 1 << 24;

/// All sizes of LRU, by the distances at which blocks are used again.
pub(super) fn by_reuse(arguments: &Advise, path: &Path) -> Result<Observed, CliError> {
    let settings = Settings {
        method: arguments.sampling.method(),
        writes: arguments.scenario().write_mode.writes(),
        block: arguments.sampling.reading.block,
        per_volume: false,
    };
    let Passed {
        measured,
        format,
        ruins,
    } = pass(&arguments.sampling, path, &settings)?;
    let workload = workload(arguments, &measured);
    let footprint = workload.footprint_blocks;
    let reads = measured.total.reads;
    Ok(Observed {
        format,
        ruins,
        workload,
        sizes: Sizes {
            candidates: candidates(reads.knee_blocks().unwrap_or(footprint), footprint),
            asked: asked_sizes(arguments, footprint)?,
        },
        behaviour: Behaviour {
            reachable: 1.0 - reads.floor(),
            reads,
            flash_writes: FlashWrites::EveryMiss,
            origin_writes: None,
            times: None,
        },
        sampled_blocks: measured.total.sampled_blocks,
        simulated_rate: 1.0,
    })
}

/// The policy that was asked for, simulated at sizes around the knee of the curve of LRU and at those asked for.
pub(super) fn by_simulation(arguments: &Advise, path: &Path) -> Result<Observed, CliError> {
    let name = path.display().to_string();
    if arguments.sampling.samples.is_some() {
        return Err(CliError::new(
            Exit::Usage,
            format!(
                "{} is simulated over a part of the trace, and a number of blocks was asked for",
                arguments.policy
            ),
        )
        .with_remedy("--sample 0.1 instead of --samples, or --policy lru"));
    }
    if !is_regular(path) {
        let needs = "a policy other than lru needs more passes";
        return Err(needs_a_file(path, needs, None));
    }
    let Passed {
        measured: surveyed,
        format,
        ruins,
    } = survey(&arguments.sampling, path)?;
    let workload = workload(arguments, &surveyed);
    let rate = simulated_rate(arguments, &workload);
    let asked = asked_sizes(arguments, workload.footprint_blocks)?;
    let curve = &surveyed.total.reads;
    let sizes = simulated_sizes(arguments, (&asked, curve, rate), &workload, &name)?;
    let simulation = Simulation {
        rate,
        has_time: workload.seconds.is_some(),
        sizes: sizes.iter().map(|blocks| scaled(*blocks, rate)).collect(),
        tiers: Vec::new(),
    };
    let runs = simulate(arguments, path, simulation)?;
    Ok(Observed {
        format,
        ruins,
        behaviour: behaviour(&sizes, &runs, rate, 1.0 - curve.floor()),
        sampled_blocks: runs[0].footprint_blocks.into(),
        workload,
        simulated_rate: rate,
        sizes: Sizes {
            candidates: sizes,
            asked,
        },
    })
}

/// The part of the trace that is simulated.
fn simulated_rate(arguments: &Advise, workload: &Workload) -> f64 {
    let accesses = workload.reads + workload.writes;
    match arguments.sampling.sample {
        Some(rate) => rate,
        None if arguments.sampling.exact || accesses <= SIMULATED_ACCESSES => 1.0,
        None => real(SIMULATED_ACCESSES) / real(accesses),
    }
}

/// The size that stands for one in a part of the trace.
fn scaled(blocks: u64, rate: f64) -> CacheSize {
    let blocks = count_near(real(blocks) * rate);
    CacheSize::Blocks(u32::try_from(blocks).unwrap_or(u32::MAX))
}

/// Memory in front of a cache of so many blocks: each size of it that was asked for, growing, and what part of all reads
/// it answers.
pub(super) fn in_front(
    arguments: &Advise,
    path: &Path,
    blocks: u64,
) -> Result<Vec<(u64, f64)>, CliError> {
    if !is_regular(path) {
        return Err(needs_a_file(path, "--ram needs more passes", None));
    }
    let blocks = u32::try_from(blocks).map_err(|error| CliError::of(Exit::Usage, &error))?;
    let tier = |size: &CacheSize| Tier {
        size: *size,
        policy: arguments.ram_policy.clone(),
    };
    let simulation = Simulation {
        rate: 1.0,
        has_time: false,
        sizes: vec![CacheSize::Blocks(blocks)],
        tiers: arguments.ram.iter().map(tier).collect(),
    };
    let runs = simulate(arguments, path, simulation)?;
    let answered = |run: &RunResult| {
        let counters = &run.counters;
        let ratio = real(counters.ram_read_hits) / real(counters.reads.max(1));
        (u64::from(run.ram_blocks), ratio)
    };
    let mut answered: Vec<(u64, f64)> = runs.iter().map(answered).collect();
    answered.sort_by_key(|(blocks, _)| *blocks);
    Ok(answered)
}

/// What is simulated of the policy that was asked for.
struct Simulation {
    /// The part of the trace.
    rate: f64,
    /// Whether the trace has times.
    has_time: bool,
    /// The caches.
    sizes: Vec<CacheSize>,
    /// The memories in front of each.
    tiers: Vec<Tier>,
}

fn simulate(
    arguments: &Advise,
    path: &Path,
    simulation: Simulation,
) -> Result<Vec<RunResult>, CliError> {
    let name = path.display().to_string();
    let rate = simulation.rate;
    // In a part of a trace an origin would have a part of its work.
    let has_queues = simulation.has_time && rate >= 1.0;
    let study = Study {
        policies: vec![arguments.policy.clone()],
        sizes: simulation.sizes,
        tiers: simulation.tiers,
        block: arguments.sampling.reading.block,
        write_policy: arguments.write_policy,
        write_miss: None,
        warmup: Warmup::default(),
        interval: None,
        latency: arguments.devices().filter(|_| has_queues),
        heat: false,
        seed: 0,
        threads: std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN),
    };
    let options = arguments.sampling.reading.options();
    let mut progress = Progress::new("simulating");
    let result = study.run(
        &name,
        &mut || {
            let reader = trace::open(path, &options)?.reader;
            Ok(if rate < 1.0 {
                Box::new(Extents::new(reader, rate, arguments.sampling.seed))
            } else {
                reader
            })
        },
        &mut |blocks| progress.count(blocks),
    );
    drop(progress);
    let simulated = result.map_err(|error| crate::sim::explain(&error, &name))?;
    Ok(simulated.runs)
}

fn workload(arguments: &Advise, measured: &Measured) -> Workload {
    let total = &measured.total;
    Workload {
        reads: total.reads_count,
        writes: total.accesses - total.reads_count,
        footprint_blocks: total.footprint_blocks,
        block_bytes: arguments.sampling.reading.block.get(),
        seconds: measured.facts.duration_seconds(),
    }
}

fn asked_sizes(arguments: &Advise, footprint: u64) -> Result<Vec<u64>, CliError> {
    let block = arguments.sampling.reading.block;
    in_blocks(&arguments.sizes, block, footprint)
        .map_err(|error: SizeError| CliError::of(Exit::Usage, &error))
}

/// Sizes around the knee of LRU's curve, as far as the policy takes them, and those asked for; growing.
fn simulated_sizes(
    arguments: &Advise,
    (asked, curve, rate): (&[u64], &Curve, f64),
    workload: &Workload,
    trace: &str,
) -> Result<Vec<u64>, CliError> {
    let policy = &arguments.policy;
    let takes = |blocks: &u64| match scaled(*blocks, rate) {
        CacheSize::Blocks(blocks) => blocks < u32::MAX && policy.takes(blocks),
        _ => false,
    };
    if let Some(blocks) = asked.iter().find(|blocks| !takes(blocks)) {
        return Err(CliError::new(
            Exit::Usage,
            format!("{trace}: {policy} cannot have a cache of {blocks} blocks"),
        )
        .with_remedy("larger --sizes, or --policy lru"));
    }
    let footprint = workload.footprint_blocks;
    // A log of a size holds somewhat fewer blocks.
    let anchor = curve.knee_blocks().map(|knee| knee + knee / 8);
    let mut sizes = candidates(anchor.unwrap_or(footprint), footprint);
    sizes.retain(takes);
    sizes.extend(asked);
    sizes.sort_unstable();
    sizes.dedup();
    if sizes.is_empty() {
        return Err(CliError::new(
            Exit::Usage,
            format!(
                "{trace} touches {footprint} blocks, fewer than the smallest cache that {policy} can have"
            ),
        )
        .with_remedy("--policy lru, or a size of your own: --sizes 64MiB"));
    }
    Ok(sizes)
}

/// What the runs of one policy in a part of the trace, one for each of these sizes of the whole, say of caches of all
/// sizes.
fn behaviour(sizes: &[u64], runs: &[RunResult], rate: f64, reachable: f64) -> Behaviour {
    let at = |of: &dyn Fn(&RunResult) -> f64| {
        let figures = sizes.iter().zip(runs);
        figures.map(|(blocks, run)| (*blocks, of(run))).collect()
    };
    let misses: Vec<(u64, f64)> = at(&|run| {
        let counters = &run.counters;
        real(counters.reads - counters.read_hits) / real(counters.reads.max(1))
    });
    let points = misses
        .into_iter()
        .map(|(blocks, miss_ratio)| Point { blocks, miss_ratio });
    let mut written = at(&|run| real(run.counters.flash_writes_blocks()) / rate);
    written.push((0, 0.0));
    let is_back = runs
        .iter()
        .any(|run| run.write_policy == WritePolicy::Back.name());
    let origin_writes = at(&|run| {
        let (counters, still) = (&run.counters, run.used.dirty_end);
        real(counters.destaged_blocks + u64::from(still)) / rate
    });
    let mean = |of: &dyn Fn(&LatencyResult) -> f64| {
        BySize::new(at(&|run| run.latency.as_ref().map_or(0.0, of)))
    };
    let reads = Curve::new(points.collect(), Between::Line);
    Behaviour {
        reachable: reachable.max(1.0 - reads.floor()),
        reads,
        flash_writes: FlashWrites::Counted(BySize::new(written)),
        origin_writes: is_back.then(|| BySize::new(origin_writes)),
        times: runs.iter().all(|run| run.latency.is_some()).then(|| Times {
            read_us: mean(&|latency| latency.reads.mean_us),
            write_us: mean(&|latency| latency.writes.mean_us),
        }),
    }
}
