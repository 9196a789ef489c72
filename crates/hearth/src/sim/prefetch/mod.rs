//! `hearth sim prefetch`: what miners fetch into a small buffer, and what a guest has of it.

pub mod args;
mod render;

use crate::terminal::Progress;
use crate::terminal::exit::{CliError, Exit};
use args::Prefetch;
use render::Measured;
use simulator::SimError;
use simulator::prefetch::{Workload, replay};
use std::path::Path;

/// Replays what was asked for and returns what to print.
pub(super) fn run(prefetch: &Prefetch, json: bool) -> Result<Vec<u8>, CliError> {
    let mut progress = Progress::new("replaying");
    let mut all = Vec::new();
    for trace in &prefetch.traces {
        let name = trace.display().to_string();
        let workload = read(prefetch, trace).map_err(|error| super::explain(&error, &name))?;
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
    if json {
        return render::json(&all);
    }
    Ok(render::table(&all))
}

fn read(prefetch: &Prefetch, trace: &Path) -> Result<Workload, SimError> {
    let mut opened = trace::open(trace, &prefetch.reading.options())?;
    Workload::read(&mut *opened.reader)
}
