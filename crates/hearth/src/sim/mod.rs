//! `hearth sim`: traces through caches, by the crate `simulator`.
//!
//! ```text
//!   args ─► study ─► a result for each trace ─┬─► table or JSON on standard output
//!                                             └─► outputs: csv, Parquet, report, manifest
//! ```

pub mod args;
pub mod fleet;
pub mod gather;
pub mod groups;
mod host;
pub mod migrate;
mod outputs;
pub mod prefetch;
mod render;

use crate::terminal::exit::{CliError, Exit, chain};
use crate::terminal::{Progress, to_json};
use crate::traces::{is_regular, ruins};
use args::{Of, Sim, Together};
use simulator::policy::PolicyError;
use simulator::study::StudyResult;
use simulator::{SimError, Study};

use std::path::PathBuf;
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
    let mut all = Vec::with_capacity(sim.traces.len());
    // Together the traces are one; else each is one by itself.
    let at_once = sim.together.map_or(1, |_| sim.traces.len());
    for paths in sim.traces.chunks(at_once) {
        let one = simulate(sim, &study, paths)?;
        ruins::tell(&one.name, &one.ruins);
        all.push(one);
    }
    outputs::write(sim, &study, &all)?;
    if json {
        let runs: Vec<_> = all.iter().flat_map(|one| &one.result.runs).collect();
        return to_json(&runs);
    }
    render::results(&all, sim.volumes)
}

fn simulate(sim: &Sim, study: &Study, paths: &[PathBuf]) -> Result<Simulated, CliError> {
    let names: Vec<String> = paths
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    let name = names.join(" + ");
    if study.reads_twice()
        && let Some(path) = paths.iter().find(|path| !is_regular(path))
    {
        return Err(CliError::new(
            Exit::Usage,
            format!(
                "{} can be read only once, but a size in percent, a warm-up in percent or Belady's \
                 policy needs it twice",
                path.display()
            ),
        )
        .with_remedy("save it as a file, or give sizes in bytes and the warm-up as a time"));
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
    let mut progress = Progress::new("simulating");
    let result = study.run(&name, &mut open, &mut |blocks| progress.count(blocks));
    drop(progress);
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
