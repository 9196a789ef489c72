//! Traces that the VMs of a fleet take their demand from.

use super::args::Fleet;
use crate::mrc::unread;
use crate::sim::outputs;
use crate::terminal::Progress;
use crate::terminal::exit::{CliError, Exit};
use crate::traces::unopened;
use curves::{DemandSettings, demand_series};
use simulator::TraceFile;
use simulator::fleet::{Demanded, TraceDemand, TraceDemandError, TraceDemands, TraceFacts};
use std::path::Path;
use trace::Options;
use units::{BLOCK_BYTES, Bytes};

/// Where the demand is from, and what is told of it.
pub(super) struct Source {
    pub(super) demanded: Demanded,
    /// What each trace says of a VM; nothing of generated demand.
    pub(super) facts: Vec<TraceFacts>,
    /// The same traces as files, for the manifest.
    pub(super) files: Vec<TraceFile>,
}

impl Source {
    /// Reads the traces that were asked for, each once.
    pub(super) fn read(fleet: &Fleet) -> Result<Self, CliError> {
        if fleet.demand_from.is_empty() {
            return Ok(Self {
                demanded: Demanded::Generated,
                facts: Vec::new(),
                files: Vec::new(),
            });
        }
        let block = Bytes::new(BLOCK_BYTES);
        let settings = DemandSettings::new(fleet.demand_window, block)
            .map_err(|error| CliError::of(Exit::Usage, &error))?;
        let options = Options {
            format: fleet.format,
            csv: fleet.columns.clone(),
            key: block,
            ..Options::default()
        };
        let (mut traces, mut files) = (Vec::new(), Vec::new());
        for path in &fleet.demand_from {
            let (trace, file) = of_trace(path, &options, &settings)?;
            traces.push(trace);
            files.push(file);
        }
        let traces = TraceDemands::new(traces).map_err(|error| unusable(&error))?;
        Ok(Self {
            facts: traces.facts(),
            demanded: Demanded::Traces(traces),
            files,
        })
    }
}

fn of_trace(
    path: &Path,
    options: &Options,
    settings: &DemandSettings,
) -> Result<(TraceDemand, TraceFile), CliError> {
    let mut opened = trace::open(path, options).map_err(|error| unopened(&error))?;
    let mut progress = Progress::new("measuring the demand");
    let series = demand_series(&mut *opened.reader, settings, &mut |requests| {
        progress.count(requests);
    });
    drop(progress);
    let series = series.map_err(|error| unread(&error, path))?;
    let trace = TraceDemand::new(path.display().to_string(), series);
    let trace = trace.map_err(|error| unusable(&error))?;
    Ok((trace, outputs::examined(path, opened.format.name())?))
}

fn unusable(error: &TraceDemandError) -> CliError {
    let cli = CliError::of(Exit::Usage, error);
    match error {
        TraceDemandError::NoTimes(_) => cli.with_remedy("hearth trace formats"),
        TraceDemandError::TooShort { .. } => cli.with_remedy("a shorter --demand-window"),
        TraceDemandError::NoReuse { .. } => cli.with_remedy("a longer --demand-window"),
        TraceDemandError::NoTrace | TraceDemandError::NothingRead => cli,
    }
}
