//! `hearth sim`: traces through caches, by the crate `simulator`.
//!
//! ```text
//!   args ─► study ─► after each pass ──────────► outputs: csv, Parquet
//!                └─► a result for each trace ─┬─► table or JSON on standard output
//!                                             └─► outputs: report, manifest
//! ```

pub mod args;
pub mod fleet;
pub mod gather;
pub mod groups;
mod host;
mod memory;
pub mod migrate;
mod outputs;
pub mod prefetch;
mod render;

use crate::terminal::exit::{CliError, Exit, chain};
use crate::terminal::{Progress, output, to_json};
use crate::traces::{is_regular, needs_a_file, ruins};
use args::{Of, Sim, Together};
use memory::Memory;
use outputs::Outputs;
use simulator::policy::PolicyError;
use simulator::study::StudyResult;
use simulator::{Observer, Plan, RunResult, SimError, Study};

use std::path::{Path, PathBuf};
use trace::info::{Warning, Watch};
use trace::{OpenError, Opened, Options, Part};

/// A trace with what was found out about it.
struct Simulated {
    /// Its path as it was given, or those of the traces that it was merged from.
    name: String,
    /// Each of them.
    paths: Vec<PathBuf>,
    /// The format that it was read as.
    format: &'static str,
    /// What that was recognised by, unless it was given.
    recognised_by: Option<String>,
    /// Why what was found out is wrong.
    ruins: Vec<Warning>,
    result: StudyResult,
}

/// Simulates what was asked for and returns what to print.
pub(crate) fn run(sim: &Sim, json: bool) -> Result<Vec<u8>, CliError> {
    match &sim.of {
        Some(Of::Migrate(migrate)) => return migrate::run(migrate, json),
        Some(Of::Prefetch(prefetch)) => return prefetch::run(prefetch, json),
        Some(Of::Fleet(fleet)) => return fleet::run(fleet, json),
        Some(Of::Gather(gather)) => return gather::run(gather, json),
        Some(Of::Groups(groups)) => return groups::run(groups, json),
        None => {}
    }
    if sim.list_policies {
        return render::policies(json);
    }
    let study = sim.study()?;
    outputs::check(sim)?;
    let mut outputs = Outputs::new(sim, &study);
    let mut memory = Memory::new(sim.memory);
    let mut all = Vec::with_capacity(sim.traces.len());
    // Together the traces are one; else each is one by itself.
    let at_once = sim.together.map_or(1, |_| sim.traces.len());
    for paths in sim.traces.chunks(at_once) {
        let one = simulate(sim, &study, paths, &all, (&mut outputs, &mut memory))?;
        ruins::tell(&one.name, &one.ruins);
        outputs.trace_ended(&one)?;
        all.push(one);
    }
    if all.iter().all(|one| one.result.runs.is_empty()) {
        return complete(&all, Vec::new());
    }
    outputs.finish(&all, &memory)?;
    if let Some(words) = memory.in_words().filter(|_| !json) {
        eprintln!("{words}");
    }
    let text = if json {
        let runs: Vec<_> = all.iter().flat_map(|one| &one.result.runs).collect();
        to_json(&runs)?
    } else {
        render::results(&all, sim.volumes)?
    };
    complete(&all, text)
}

/// The answer, if each run has a result. If only some have, it is printed, and the command fails for the others.
fn complete(all: &[Simulated], text: Vec<u8>) -> Result<Vec<u8>, CliError> {
    let failures: Vec<String> = all.iter().flat_map(Simulated::failures).collect();
    let done: usize = all.iter().map(|one| one.result.runs.len()).sum();
    let first = all
        .iter()
        .find_map(|one| Some((one, one.result.failures.first()?)));
    let Some((one, first)) = first else {
        return Ok(text);
    };
    let mut error = explain(&first.error, &one.name);
    if done == 0 && failures.len() == 1 {
        return Err(error);
    }
    if done > 0 {
        output::print(&text)?;
        error.exit = Exit::Failed;
    }
    error.message = format!(
        "{} of {} runs have no result:\n  {}",
        failures.len(),
        failures.len() + done,
        failures.join("\n  ")
    );
    Err(error)
}

impl Simulated {
    /// The runs without a result, each with the reason.
    fn failures(&self) -> impl Iterator<Item = String> {
        self.result.failures.iter().map(|failure| {
            format!(
                "{} at {} over {}: {}",
                failure.policy,
                failure.size,
                self.name,
                chain(&failure.error)
            )
        })
    }
}

/// Runs of a study from which on the trace is looked at first, so that they can be planned: a reading more is then
/// little beside them.
const PLANNED_RUNS: usize = 4;

/// Who looks at a study: what it has done so far goes to the terminal and to files.
struct Watching<'a, 'o> {
    progress: Progress,
    before: &'a [Simulated],
    outputs: &'a mut Outputs<'o>,
    memory: &'a mut Memory,
}

impl Observer for Watching<'_, '_> {
    fn accessed(&mut self, blocks: u64) {
        self.progress.count(blocks);
    }

    fn planned(&mut self, plan: &Plan) {
        self.memory.planned(plan);
    }

    fn ended(&mut self, runs: &[RunResult]) {
        self.outputs.ended(runs, self.before, self.memory);
    }
}

fn simulate(
    sim: &Sim,
    study: &Study,
    paths: &[PathBuf],
    before: &[Simulated],
    (outputs, memory): (&mut Outputs<'_>, &mut Memory),
) -> Result<Simulated, CliError> {
    let names: Vec<String> = paths
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    let name = names.join(" + ");
    let pipe = paths.iter().find(|path| !is_regular(path));
    if let Some(path) = pipe {
        can_be_read_often_enough(sim, study, path)?;
    }
    let options = sim.reading.options();
    let (mut known, mut watch) = (None, None);
    let mut open = || {
        let opened = open_trace(sim.together, paths, &options)?;
        known = Some((opened.format.name(), opened.recognised_by));
        // A trace that is read again has been looked at.
        if watch.is_some() {
            return Ok(opened.reader);
        }
        let (reader, looks) = sim.reading.watch(opened.reader, opened.format);
        watch = Some(looks);
        Ok(reader)
    };
    let rereads = pipe.is_none();
    let plans = rereads && (sim.memory.is_some() || study.runs() >= PLANNED_RUNS);
    let limits = memory.limits(paths.len(), rereads, plans);
    let mut watching = Watching {
        progress: Progress::new("simulating"),
        before,
        outputs,
        memory,
    };
    let result = study.run_within(&name, &mut open, &limits, &mut watching);
    drop(watching);
    let result = result.map_err(|error| explain(&error, &name))?;
    let (format, recognised_by) = known.unwrap_or(("unknown", None));
    Ok(Simulated {
        name,
        paths: paths.to_vec(),
        format,
        recognised_by,
        ruins: watch.map_or_else(Vec::new, |watch: Watch| watch.ruins()),
        result,
    })
}

/// Refuses what needs a trace more than once, of one that is a pipe.
fn can_be_read_often_enough(sim: &Sim, study: &Study, path: &Path) -> Result<(), CliError> {
    if study.reads_twice() {
        let needs = "a size in percent, a warm-up in percent or Belady's policy needs it twice";
        let instead = "give sizes in bytes and the warm-up as a time";
        return Err(needs_a_file(path, needs, Some(instead)));
    }
    if sim.memory.is_some() {
        let needs = "--memory needs it once more to estimate what the runs take";
        return Err(needs_a_file(path, needs, Some("leave --memory out")));
    }
    Ok(())
}

/// Opens a trace, or several as one: a VM each, by the name of its file as it was given.
fn open_trace(
    together: Option<Together>,
    paths: &[PathBuf],
    options: &Options,
) -> Result<Opened, OpenError> {
    let Some(together) = together else {
        return trace::open(&paths[0], options);
    };
    let of_path = |path: &PathBuf| Part {
        path: path.clone(),
        vm: Some(path.display().to_string()),
    };
    let parts: Vec<Part> = paths.iter().map(of_path).collect();
    trace::open_together(&parts, together.arrangement(), options)
}

pub(crate) fn explain(error: &SimError, trace: &str) -> CliError {
    let named = |exit| CliError::new(exit, format!("{trace}: {}", chain(error)));
    match error {
        SimError::Open(OpenError::Read(_) | OpenError::Empty { .. }) | SimError::Read(_) => {
            CliError::of(Exit::Failed, error)
        }
        SimError::Open(_) => CliError::of(Exit::Usage, error),
        SimError::Split(_) | SimError::Empty => named(Exit::Failed),
        SimError::NoTime(_) => named(Exit::Usage)
            .with_remedy("--depth 32 instead of times; accesses instead of a span of time"),
        SimError::Memory { .. } => {
            named(Exit::Usage).with_remedy("a larger --memory, or a smaller --size")
        }
        SimError::Panicked(_) => named(Exit::Failed).with_remedy(
            "report it with the command and the trace; other policies are not concerned",
        ),
        SimError::AllWarmup(_) => named(Exit::Usage).with_remedy("a shorter --warmup"),
        SimError::Policy(PolicyError::Block(_)) => {
            named(Exit::Usage).with_remedy("leave --block out")
        }
        SimError::Policy(PolicyError::Admission(_)) => {
            named(Exit::Usage).with_remedy("--policy lru, or leave --admission out")
        }
        SimError::Policy(PolicyError::Settings(_)) => named(Exit::Usage)
            .with_remedy("a larger --size, or another --budget, --staging or --window"),
        SimError::Policy(PolicyError::WriteBack) => {
            named(Exit::Usage).with_remedy("--policy daemon; or --write-policy through or around")
        }
        SimError::Policy(PolicyError::LoggedWrites) => {
            named(Exit::Usage).with_remedy("leave --write-miss out, or --write-policy through")
        }
        SimError::Policy(PolicyError::Log(_)) => named(Exit::Usage)
            .with_remedy("a larger --size, or smaller segments: segment-twin-clock:segment=64KiB"),
        SimError::Size(_) | SimError::Policy(_) | SimError::TooLongForTheFuture => {
            named(Exit::Usage)
        }
    }
}
