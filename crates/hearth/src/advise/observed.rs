//! What a trace shows: the workload, and how caches of all sizes behave under it.

use super::args::Advise;
use super::usual_sizes;
use crate::mrc::{Passed, SIMULATED_PERCENTS, in_blocks, pass, survey};
use crate::terminal::Progress;
use crate::terminal::exit::{CliError, Exit};
use crate::traces::is_regular;
use curves::{Measured, Method, Settings};
use mrc::advice::{Behaviour, FlashWrites, Workload};
use mrc::{Between, Curve, Point};
use simulator::{CacheSize, RunResult, SizeError, Study, Tier, Warmup};
use std::num::NonZeroUsize;
use std::path::Path;
use trace::info::Warning;
use units::number::real;

/// What is known of a trace before anything is judged.
pub(super) struct Observed {
    pub(super) format: &'static str,
    /// Why no advice is to be drawn from it.
    pub(super) ruins: Vec<Warning>,
    pub(super) workload: Workload,
    pub(super) behaviour: Behaviour,
    /// Blocks that the curve is from.
    pub(super) sampled_blocks: u64,
    /// The sizes to compare, in blocks, growing.
    pub(super) sizes: Vec<u64>,
}

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
    let sizes = if arguments.sizes.is_empty() {
        usual_sizes(footprint)
    } else {
        asked_sizes(arguments, footprint)?
    };
    Ok(Observed {
        format,
        ruins,
        workload,
        behaviour: Behaviour {
            reads: measured.total.reads,
            flash_writes: FlashWrites::EveryMiss,
        },
        sampled_blocks: measured.total.sampled_blocks,
        sizes,
    })
}

/// The policy that was asked for, simulated over every access at the usual sizes and at those asked for.
pub(super) fn by_simulation(arguments: &Advise, path: &Path) -> Result<Observed, CliError> {
    let name = path.display().to_string();
    if arguments.sampling.method() != Method::Exact {
        return Err(CliError::new(
            Exit::Usage,
            format!(
                "{} is simulated over every access, and a sample was asked for",
                arguments.policy
            ),
        )
        .with_remedy("leave --sample and --samples out, or --policy lru"));
    }
    refuse_one_pass(path, "a policy other than lru")?;
    let Passed {
        measured: surveyed,
        format,
        ruins,
    } = survey(&arguments.sampling, path)?;
    let mut workload = workload(arguments, &surveyed);
    let asked = asked_sizes(arguments, workload.footprint_blocks)?;
    let simulated = simulated_sizes(arguments, &asked, workload.footprint_blocks, &name)?;
    let sizes = simulated.into_iter().map(CacheSize::Blocks).collect();
    let runs = simulate(arguments, path, (sizes, Vec::new()))?;
    workload.footprint_blocks = runs[0].footprint_blocks.into();
    let sizes = if asked.is_empty() {
        usual_sizes(workload.footprint_blocks)
            .into_iter()
            .filter(|size| runs.iter().any(|run| u64::from(run.size_blocks) <= *size))
            .collect()
    } else {
        asked
    };
    Ok(Observed {
        format,
        ruins,
        workload,
        behaviour: behaviour(&runs),
        sampled_blocks: workload.footprint_blocks,
        sizes,
    })
}

/// Memory in front of a cache of so many blocks: each size of it that was asked for, growing, and what part of all reads
/// it answers.
pub(super) fn in_front(
    arguments: &Advise,
    path: &Path,
    blocks: u64,
) -> Result<Vec<(u64, f64)>, CliError> {
    refuse_one_pass(path, "--ram")?;
    let blocks = u32::try_from(blocks).map_err(|error| CliError::of(Exit::Usage, &error))?;
    let tier = |size: &CacheSize| Tier {
        size: *size,
        policy: arguments.ram_policy.clone(),
    };
    let tiers = arguments.ram.iter().map(tier).collect();
    let runs = simulate(arguments, path, (vec![CacheSize::Blocks(blocks)], tiers))?;
    let answered = |run: &RunResult| {
        let counters = &run.counters;
        let ratio = real(counters.ram_read_hits) / real(counters.reads.max(1));
        (u64::from(run.ram_blocks), ratio)
    };
    let mut answered: Vec<(u64, f64)> = runs.iter().map(answered).collect();
    answered.sort_by_key(|(blocks, _)| *blocks);
    Ok(answered)
}

fn refuse_one_pass(path: &Path, what: &str) -> Result<(), CliError> {
    if is_regular(path) {
        return Ok(());
    }
    let name = path.display();
    Err(CliError::new(
        Exit::Usage,
        format!("{name} can be read only once, but {what} needs more passes"),
    )
    .with_remedy("save it as a file"))
}

/// Runs the policy that was asked for with caches of these sizes, each behind each of these memories.
fn simulate(
    arguments: &Advise,
    path: &Path,
    (sizes, tiers): (Vec<CacheSize>, Vec<Tier>),
) -> Result<Vec<RunResult>, CliError> {
    let name = path.display().to_string();
    let study = Study {
        policies: vec![arguments.policy.clone()],
        sizes,
        tiers,
        block: arguments.sampling.reading.block,
        write_policy: arguments.write_policy,
        write_miss: None,
        warmup: Warmup::default(),
        interval: None,
        latency: None,
        heat: false,
        seed: 0,
        threads: std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN),
    };
    let options = arguments.sampling.reading.options();
    let mut progress = Progress::new("simulating");
    let result = study.run(
        &name,
        &mut || Ok(trace::open(path, &options)?.reader),
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

/// Those asked for, and those of the usual ones that the policy takes; growing.
fn simulated_sizes(
    arguments: &Advise,
    asked: &[u64],
    footprint: u64,
    trace: &str,
) -> Result<Vec<u32>, CliError> {
    let policy = &arguments.policy;
    let takes = |blocks: u64| u32::try_from(blocks).is_ok_and(|blocks| policy.takes(blocks));
    if let Some(blocks) = asked.iter().find(|blocks| !takes(**blocks)) {
        return Err(CliError::new(
            Exit::Usage,
            format!("{trace}: {policy} cannot have a cache of {blocks} blocks"),
        )
        .with_remedy("larger --sizes, or --policy lru"));
    }
    let usual = SIMULATED_PERCENTS.map(|percent| footprint * percent / 100);
    let mut sizes: Vec<u32> = asked
        .iter()
        .copied()
        .chain(usual.into_iter().filter(|blocks| takes(*blocks)))
        .filter_map(|blocks| u32::try_from(blocks).ok())
        .collect();
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

/// What the runs of one policy, by rising size, say of caches of all sizes.
fn behaviour(runs: &[RunResult]) -> Behaviour {
    let point = |run: &RunResult| {
        let counters = &run.counters;
        let misses = counters.reads - counters.read_hits;
        Point {
            blocks: run.size_blocks.into(),
            miss_ratio: real(misses) / real(counters.reads.max(1)),
        }
    };
    let written = |run: &RunResult| {
        (
            u64::from(run.size_blocks),
            run.counters.flash_writes_blocks(),
        )
    };
    Behaviour {
        reads: Curve::new(runs.iter().map(point).collect(), Between::Line),
        flash_writes: FlashWrites::Counted(runs.iter().map(written).collect()),
    }
}
