//! Fleets of hosts whose flash is balanced by moves, by the crate `simulator`.

use crate::arguments::{Source, options, parse};
use crate::error::{curve, value};
use crate::guard::{Fault, Stop};
use curves::{DemandSettings, demand_series};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde::Serialize;
use simulator::columns::Kind;
use simulator::fleet::{
    Demanded, Faults, Outcome, Rule, Run, Settings, Summary, TraceDemand, TraceDemands, TraceFacts,
};
use std::path::PathBuf;
use units::{BLOCK_BYTES, Bytes, Duration};

/// Columns of a table of runs, a row each: what was asked, and sums of what came of it.
pub(crate) const COLUMNS: [(&str, Kind); 17] = [
    ("rule", Kind::Text),
    ("seed", Kind::Count),
    ("hosts", Kind::Count),
    ("vms", Kind::Count),
    ("windows", Kind::Count),
    ("faults", Kind::Text),
    ("demand_window", Kind::Text),
    ("overloaded_part", Kind::Real),
    ("load_stddev", Kind::Real),
    ("hits", Kind::Real),
    ("p90_ms", Kind::Real),
    ("moves", Kind::Count),
    ("rolled_back", Kind::Count),
    ("failed", Kind::Count),
    ("moved_bytes", Kind::Count),
    ("liars_found", Kind::Count),
    ("honest_distrusted", Kind::Count),
];

/// What the Python half passes on.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Asked {
    rule: String,
    hosts: usize,
    vms: usize,
    windows: usize,
    seed: u64,
    faults: String,
    demand_from: Vec<PathBuf>,
    demand_window: String,
    format: Option<String>,
    columns: Option<String>,
}

/// Runs a fleet under a rule. Answers JSON: what was asked, sums, and each window.
#[pyfunction]
#[pyo3(signature = (asked, stop=None))]
#[allow(
    clippy::needless_pass_by_value,
    reason = "pyo3 hands arguments over by value"
)]
pub(crate) fn simulate_fleet(
    py: Python<'_>,
    asked: Asked,
    stop: Option<PyRef<'_, Stop>>,
) -> PyResult<String> {
    let fault = Fault::new(stop.as_deref());
    let (demand, traces) = asked.demand(py, &fault)?;
    let settings = Settings {
        hosts: asked.hosts,
        vms: asked.vms,
        windows: asked.windows,
        seed: asked.seed,
        demand,
        rule: asked.rule()?,
        faults: asked.faults()?,
    };
    let outcome = py.detach(|| run(&settings, &fault));
    fault.check()?;
    let outcome = outcome?;
    let answer = Answer {
        seed: asked.seed,
        hosts: asked.hosts,
        vms: asked.vms,
        windows: asked.windows,
        faults: &asked.faults,
        demand_window: if traces.is_empty() {
            ""
        } else {
            &asked.demand_window
        },
        traces,
        run: outcome.summary(),
    };
    serde_json::to_string(&answer).map_err(|error| value(&error))
}

fn run(settings: &Settings, fault: &Fault) -> PyResult<Outcome> {
    let mut run = Run::new(settings).map_err(|error| value(&error))?;
    while run.next_window() {
        fault.look();
        if fault.is_raised() {
            break;
        }
    }
    Ok(run.end())
}

/// What the Python half makes its result of.
#[derive(Serialize)]
struct Answer<'a> {
    seed: u64,
    hosts: usize,
    vms: usize,
    windows: usize,
    faults: &'a str,
    /// Empty if demand was generated.
    demand_window: &'a str,
    traces: Vec<TraceFacts>,
    #[serde(flatten)]
    run: Summary<'a>,
}

impl Asked {
    fn rule(&self) -> PyResult<Rule> {
        let known = Rule::ALL.into_iter().find(|rule| rule.word() == self.rule);
        known.ok_or_else(|| {
            let words = Rule::ALL.map(Rule::word).join(", ");
            PyValueError::new_err(format!("rule={:?}: write one of {words}", self.rule))
        })
    }

    fn faults(&self) -> PyResult<Faults> {
        match self.faults.as_str() {
            "none" => Ok(Faults::NONE),
            "usual" => Ok(Faults::USUAL),
            other => Err(PyValueError::new_err(format!(
                "faults={other:?}: write none or usual"
            ))),
        }
    }

    /// Where the demand is from, and what each trace says of a VM.
    fn demand(&self, py: Python<'_>, fault: &Fault) -> PyResult<(Demanded, Vec<TraceFacts>)> {
        if self.demand_from.is_empty() {
            return Ok((Demanded::Generated, Vec::new()));
        }
        let block = Bytes::new(BLOCK_BYTES);
        let window: Duration = parse(&self.demand_window)?;
        let settings = DemandSettings::new(window, block).map_err(|error| value(&error))?;
        let options = options(self.format.as_deref(), self.columns.as_deref(), block)?;
        let mut traces = Vec::with_capacity(self.demand_from.len());
        for path in &self.demand_from {
            let name = path.display().to_string();
            let source = Source {
                path,
                options: &options,
                fault,
            };
            let (mut reader, _) = source.reader()?;
            let series = py.detach(|| demand_series(&mut *reader, &settings, &mut |_| {}));
            fault.check()?;
            let series = series.map_err(|error| curve(&name, &error))?;
            traces.push(TraceDemand::new(name, series).map_err(|error| value(&error))?);
        }
        let traces = TraceDemands::new(traces).map_err(|error| value(&error))?;
        let facts = traces.facts();
        Ok((Demanded::Traces(traces), facts))
    }
}
