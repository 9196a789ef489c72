//! Files that a simulation writes: csv, Parquet, the report, and manifests.

use super::Simulated;
use super::args::{Sim, Together};
use crate::terminal::exit::{CliError, Exit, chain};
use crate::terminal::output::{self, to_file};
use crate::traces::ruins::in_words;
use serde_json::json;
use simulator::report::TraceReport;
use simulator::{Arrival, Manifest, RunResult, Study, TraceFile, WriteMiss, manifest, report};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Finds out before an hour of simulating that a file could not be written behind it.
pub(super) fn check(sim: &Sim) -> Result<(), CliError> {
    let mut all: Vec<PathBuf> = [&sim.csv, &sim.parquet, &sim.report, &sim.manifest]
        .into_iter()
        .flatten()
        .cloned()
        .collect();
    let tables = [&sim.csv, &sim.parquet].into_iter().flatten();
    all.extend(tables.map(|path| manifest::beside(path)));
    output::check(&all, &sim.traces)
}

/// Writes what was asked for.
pub(super) fn write(sim: &Sim, study: &Study, all: &[Simulated]) -> Result<(), CliError> {
    let outputs = [&sim.csv, &sim.parquet, &sim.report, &sim.manifest];
    if outputs.iter().all(|path| path.is_none()) {
        return Ok(());
    }
    let manifest = manifest_of(sim, study, all)?;
    let text = manifest
        .to_json()
        .map_err(|error| CliError::of(Exit::Failed, &error))?;
    let runs: Vec<RunResult> = all.iter().flat_map(|one| one.result.runs.clone()).collect();
    if let Some(path) = &sim.csv {
        to_file(path, |out| simulator::csv::write(out, &runs))?;
        to_file(&manifest::beside(path), |out| out.write_all(&text))?;
    }
    if let Some(path) = &sim.parquet {
        to_file(path, |out| {
            simulator::parquet::write(out, &runs, &String::from_utf8_lossy(&text))
                .map_err(io::Error::other)
        })?;
        to_file(&manifest::beside(path), |out| out.write_all(&text))?;
    }
    if let Some(path) = &sim.report {
        let traces: Vec<TraceReport> = all.iter().map(of_trace).collect();
        let page =
            report::html(&traces, &manifest).map_err(|error| CliError::of(Exit::Failed, &error))?;
        to_file(path, |out| out.write_all(page.as_bytes()))?;
    }
    if let Some(path) = &sim.manifest {
        to_file(path, |out| out.write_all(&text))?;
    }
    Ok(())
}

fn of_trace(one: &Simulated) -> TraceReport {
    TraceReport {
        trace: one.name.clone(),
        ruins: one.ruins.iter().map(in_words).collect(),
        runs: one.result.runs.clone(),
        heat: one.result.heat.clone(),
        volumes: one.result.volumes.clone(),
        duration_us: one.result.duration_us,
    }
}

fn is_file(path: &Path) -> bool {
    let text = path.to_string_lossy();
    text != "-" && !text.starts_with(trace::generate::PREFIX)
}

fn manifest_of(sim: &Sim, study: &Study, all: &[Simulated]) -> Result<Manifest, CliError> {
    let mut files = Vec::with_capacity(all.len());
    let read = all
        .iter()
        .flat_map(|one| one.paths.iter().map(move |path| (path, one)));
    for (path, one) in read {
        files.push(examined(path, one.format)?);
    }
    let texts = |words: &mut dyn Iterator<Item = String>| words.collect::<Vec<_>>();
    let parameters = json!({
        "policies": texts(&mut study.policies.iter().map(ToString::to_string)),
        "admissions": texts(&mut study.policies.iter().map(|policy| policy.admission().unwrap_or_else(|| "always".to_owned()))),
        "staging": sim.admission.as_ref().map(|_| sim.staging.to_string()),
        "ram": texts(&mut study.tiers.iter().map(|tier| format!("{} {}", tier.size, tier.policy))),
        "together": sim.together.map(Together::name),
        "sizes": texts(&mut study.sizes.iter().map(ToString::to_string)),
        "block_bytes": study.block.get(),
        "write_policy": study.write_policy.name(),
        "write_miss": study.write_miss.map_or("by policy", WriteMiss::name),
        "warmup": study.warmup.to_string(),
        "interval": study.interval.map(|interval| interval.to_string()),
        "latency": study.latency.map(|latency| json!({
            "flash": latency.flash.to_string(),
            "origin": latency.origin.to_string(),
            "arrival": match latency.arrival {
                Arrival::Timed { speed } => format!("the trace's times, {speed}x"),
                Arrival::Depth(depth) => format!("depth {depth}"),
            },
        })),
    });
    Ok(Manifest::new(command(), study.seed, parameters, files))
}

/// What a manifest says of a trace.
pub(super) fn examined(path: &Path, format: &str) -> Result<TraceFile, CliError> {
    let name = path.display().to_string();
    if !is_file(path) {
        // What came through a pipe is gone; what was generated says how by its name.
        return Ok(TraceFile {
            file: name,
            format: format.to_owned(),
            bytes: None,
            xxh3_128: None,
        });
    }
    TraceFile::examine(path, format)
        .map_err(|error| CliError::new(Exit::Failed, format!("{name}: {}", chain(&error))))
}

/// The command that a manifest names, word by word.
pub(super) fn command() -> Vec<String> {
    std::env::args_os()
        .map(|word| word.to_string_lossy().into_owned())
        .collect()
}
