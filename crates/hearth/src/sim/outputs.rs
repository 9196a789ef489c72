//! Files that a simulation writes: csv, Parquet, the report, and manifests.

use super::Simulated;
use super::args::{Sim, Together};
use super::memory::Memory;
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

/// The files of a simulation while it goes on. Tables are written anew after each pass, so that one that is
/// stopped leaves the rows that were done.
pub(super) struct Outputs<'a> {
    sim: &'a Sim,
    study: &'a Study,
    files: Vec<TraceFile>,
}

impl<'a> Outputs<'a> {
    /// Nothing is written yet.
    pub(super) const fn new(sim: &'a Sim, study: &'a Study) -> Self {
        Self {
            sim,
            study,
            files: Vec::new(),
        }
    }

    /// These runs of the present trace have ended, all but those of earlier traces.
    pub(super) fn ended(&self, runs: &[RunResult], all: &[Simulated], memory: &Memory) {
        let rows = rows(all, runs);
        if !rows.is_empty() {
            // All is written once more at the end: what cannot be written is told there, and the runs go on.
            let _ = self.tables(&rows, all, memory);
        }
    }

    /// The present trace has ended.
    pub(super) fn trace_ended(&mut self, one: &Simulated) -> Result<(), CliError> {
        let outputs = [
            &self.sim.csv,
            &self.sim.parquet,
            &self.sim.report,
            &self.sim.manifest,
        ];
        if outputs.iter().any(|path| path.is_some()) {
            for path in &one.paths {
                self.files.push(examined(path, one.format)?);
            }
        }
        Ok(())
    }

    fn tables(
        &self,
        rows: &[&RunResult],
        all: &[Simulated],
        memory: &Memory,
    ) -> Result<(), CliError> {
        if self.sim.csv.is_none() && self.sim.parquet.is_none() {
            return Ok(());
        }
        let text = self.manifest(all, memory)?;
        if let Some(path) = &self.sim.csv {
            to_file(path, |out| simulator::csv::write(out, rows))?;
            to_file(&manifest::beside(path), |out| out.write_all(&text))?;
        }
        if let Some(path) = &self.sim.parquet {
            to_file(path, |out| {
                simulator::parquet::write(out, rows, &String::from_utf8_lossy(&text))
                    .map_err(io::Error::other)
            })?;
            to_file(&manifest::beside(path), |out| out.write_all(&text))?;
        }
        Ok(())
    }

    fn manifest(&self, all: &[Simulated], memory: &Memory) -> Result<Vec<u8>, CliError> {
        manifest_of(self.sim, self.study, &self.files, all, memory)
            .to_json()
            .map_err(|error| CliError::of(Exit::Failed, &error))
    }

    /// Writes everything that was asked for: all traces have ended.
    pub(super) fn finish(self, all: &[Simulated], memory: &Memory) -> Result<(), CliError> {
        self.tables(&rows(all, &[]), all, memory)?;
        if let Some(path) = &self.sim.report {
            let traces: Vec<TraceReport> = all.iter().map(of_trace).collect();
            let manifest = manifest_of(self.sim, self.study, &self.files, all, memory);
            let page = report::html(&traces, &manifest)
                .map_err(|error| CliError::of(Exit::Failed, &error))?;
            to_file(path, |out| out.write_all(page.as_bytes()))?;
        }
        if let Some(path) = &self.sim.manifest {
            let text = self.manifest(all, memory)?;
            to_file(path, |out| out.write_all(&text))?;
        }
        Ok(())
    }
}

/// The rows of tables: the runs of the traces that have ended, and those of the present one.
fn rows<'r>(ended: &'r [Simulated], runs: &'r [RunResult]) -> Vec<&'r RunResult> {
    let ended = ended.iter().flat_map(|one| &one.result.runs);
    ended.chain(runs).collect()
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

fn manifest_of(
    sim: &Sim,
    study: &Study,
    files: &[TraceFile],
    all: &[Simulated],
    memory: &Memory,
) -> Manifest {
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
        "memory": memory.to_json(),
        "failed": all.iter().flat_map(Simulated::failures).collect::<Vec<_>>(),
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
    Manifest::new(command(), study.seed, parameters, files.to_vec())
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
