//! The report of what miners were worth.

use super::super::outputs;
use super::args::{Bound, Prefetch};
use super::render::Measured;
use crate::terminal::exit::{CliError, Exit};
use crate::terminal::output::to_file;
use serde_json::json;
use simulator::Manifest;
use simulator::report::prefetch::{PrefetchReport, PrefetchRow, html};
use std::io::Write as _;
use std::path::Path;

/// Writes the page. `formats` are those that the traces were read as.
pub(super) fn write(
    path: &Path,
    prefetch: &Prefetch,
    formats: &[&str],
    all: &[Measured],
) -> Result<(), CliError> {
    let manifest = manifest(prefetch, formats)?;
    let traces = all.chunk_by(|one, next| one.trace == next.trace);
    let reports: Vec<PrefetchReport> = traces.map(|rows| of_trace(prefetch, rows)).collect();
    let page = html(&reports, &manifest).map_err(|error| CliError::of(Exit::Failed, &error))?;
    to_file(path, |out| out.write_all(page.as_bytes()))
}

fn of_trace(prefetch: &Prefetch, rows: &[Measured]) -> PrefetchReport {
    let of_row = |one: &Measured| PrefetchRow {
        miners: one.row.miners.clone(),
        waste: one.row.waste.clone(),
        ram: one.row.experiment.ram,
        policy: one.row.experiment.policy.to_string(),
        tally: one.tally,
    };
    PrefetchReport {
        trace: rows
            .first()
            .map_or_else(String::new, |one| one.trace.clone()),
        train_half: prefetch.train_half,
        rows: rows.iter().map(of_row).collect(),
    }
}

fn manifest(prefetch: &Prefetch, formats: &[&str]) -> Result<Manifest, CliError> {
    let texts = |words: &mut dyn Iterator<Item = String>| words.collect::<Vec<_>>();
    let traces = prefetch.traces.iter().zip(formats);
    let files = traces.map(|(path, format)| outputs::examined(path, format));
    let parameters = json!({
        "prefetch": texts(&mut prefetch.prefetch.0.iter().map(ToString::to_string)),
        "waste": match prefetch.waste {
            Bound::None => "unbounded".to_owned(),
            Bound::Part(part) => part.to_string(),
        },
        "bucket": prefetch.bucket.map(|bucket| bucket.to_string()),
        "ram": texts(&mut prefetch.ram.iter().map(ToString::to_string)),
        "ram_policy": texts(&mut prefetch.ram_policy.0.iter().map(ToString::to_string)),
        "train_half": prefetch.train_half,
    });
    let files = files.collect::<Result<_, _>>()?;
    // Nothing in these experiments draws dice.
    Ok(Manifest::new(outputs::command(), 0, parameters, files))
}
