//! `hearth sim prefetch`: what miners fetch into a small buffer, and what a guest has of it.

pub mod args;
mod render;
mod report;

use crate::terminal::Progress;
use crate::terminal::exit::{CliError, Exit};
use crate::terminal::output;
use crate::traces::ruins;
use args::Prefetch;
use render::Measured;
use simulator::SimError;
use simulator::prefetch::{Workload, replay};
use std::path::Path;

/// Replays what was asked for and returns what to print.
pub(super) fn run(prefetch: &Prefetch, json: bool) -> Result<Vec<u8>, CliError> {
    output::check(&prefetch.report, &prefetch.traces)?;
    let mut progress = Progress::new("replaying");
    let mut all = Vec::new();
    let mut formats = Vec::new();
    for trace in &prefetch.traces {
        let name = trace.display().to_string();
        let (workload, format) =
            read(prefetch, trace).map_err(|error| super::explain(&error, &name))?;
        formats.push(format);
        for row in prefetch.rows() {
            let tally = replay(&workload, &row.experiment)
                .map_err(|error| CliError::of(Exit::Usage, &error))?;
            progress.count(workload.reads());
            all.push(Measured {
                trace: name.clone(),
                row,
                tally,
            });
        }
    }
    drop(progress);
    if let Some(path) = &prefetch.report {
        report::write(path, prefetch, &formats, &all)?;
    }
    if json {
        return render::json(&all);
    }
    Ok(render::table(&all))
}

/// The requests of a trace, and its format.
fn read(prefetch: &Prefetch, trace: &Path) -> Result<(Workload, &'static str), SimError> {
    let opened = trace::open(trace, &prefetch.reading.options())?;
    let (mut reader, watch) = prefetch.reading.watch(opened.reader, opened.format);
    let workload = Workload::read(&mut *reader)?;
    drop(reader);
    ruins::tell(&trace.display().to_string(), &watch.ruins());
    Ok((workload, opened.format.name()))
}
