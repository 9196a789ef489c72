//! Policies over a trace, by the crate `simulator`.

use crate::arguments::{Source, block, must_be_read_again, options, parse};
use crate::error::{sim, value};
use crate::guard::{Fault, Stop};
use crate::user_policy;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde::Serialize;
use simulator::device::DeviceSettings;
use simulator::latency::DEPTH_MAX;
use simulator::study::StudyResult;
use simulator::{Arrival, HeatMap, LatencySettings, Policy, RunResult, Study};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use trace::Volume;

/// The policies that there are, as JSON: name, parameters, queues, paper.
#[pyfunction]
pub(crate) fn policies() -> PyResult<String> {
    serde_json::to_string(&simulator::policy::known()).map_err(|error| value(&error))
}

/// What the Python half passes on; it has checked nothing but types.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Asked {
    sizes: Vec<String>,
    block: String,
    format: Option<String>,
    columns: Option<String>,
    write_policy: String,
    write_miss: Option<String>,
    warmup: String,
    interval: Option<String>,
    latency: bool,
    flash: Option<String>,
    origin: Option<String>,
    speed: Option<f64>,
    depth: Option<u32>,
    footprint_map: bool,
    seed: u64,
    threads: Option<NonZeroUsize>,
}

/// Runs every policy at every size over a trace. Answers JSON: `runs`, and beside them what plots need.
#[pyfunction]
#[pyo3(signature = (trace, policies, asked, stop=None))]
#[allow(
    clippy::needless_pass_by_value,
    reason = "pyo3 hands arguments over by value"
)]
pub(crate) fn simulate(
    py: Python<'_>,
    trace: PathBuf,
    policies: Vec<Bound<'_, PyAny>>,
    asked: Asked,
    stop: Option<PyRef<'_, Stop>>,
) -> PyResult<String> {
    let fault = Fault::new(stop.as_deref());
    let study = asked.study(&policies, &fault)?;
    if study.reads_twice() {
        must_be_read_again(
            &trace,
            "a size or a warm-up in percent, or Belady's policy,",
        )?;
    }
    let options = options(
        asked.format.as_deref(),
        asked.columns.as_deref(),
        study.block,
    )?;
    let source = Source {
        path: &trace,
        options: &options,
        fault: &fault,
    };
    let name = trace.display().to_string();
    let result = py.detach(|| {
        let mut known = None;
        let mut open = || {
            let opened = source.opened()?;
            known = Some((opened.format.name(), opened.recognised_by));
            Ok(fault.around(opened.reader))
        };
        let result = study.run(&name, &mut open, &mut |_| {});
        result.map(|result| (result, known))
    });
    fault.check()?;
    let (result, known) = result.map_err(|error| sim(&name, &error))?;
    let (format, recognised_by) = known.unwrap_or_default();
    Answer::new(&result, format, recognised_by).to_json()
}

/// What the Python half makes its results of.
#[derive(Serialize)]
struct Answer<'a> {
    runs: &'a [RunResult],
    /// Of each run.
    latency_cumulative: Vec<Option<&'a [(f64, f64)]>>,
    footprint_map: Option<FootprintMap<'a>>,
    duration_us: u64,
    format: &'static str,
    recognised_by: Option<String>,
}

#[derive(Serialize)]
struct FootprintMap<'a> {
    axis: simulator::Axis,
    maps: Vec<VolumeMap<'a>>,
}

#[derive(Serialize)]
struct VolumeMap<'a> {
    volume: String,
    map: &'a HeatMap,
}

impl<'a> Answer<'a> {
    fn new(result: &'a StudyResult, format: &'static str, recognised_by: Option<String>) -> Self {
        let of_volume = |(map, volume): (_, &Volume)| VolumeMap {
            volume: volume.to_string(),
            map,
        };
        let curve = |run: &'a RunResult| {
            let latency = run.latency.as_ref();
            latency.map(|latency| latency.cumulative.as_slice())
        };
        Self {
            runs: &result.runs,
            latency_cumulative: result.runs.iter().map(curve).collect(),
            footprint_map: result.heat.as_ref().map(|heat| FootprintMap {
                axis: heat.axis,
                maps: heat
                    .maps
                    .iter()
                    .zip(&result.volumes)
                    .map(of_volume)
                    .collect(),
            }),
            duration_us: result.duration_us,
            format,
            recognised_by,
        }
    }

    fn to_json(&self) -> PyResult<String> {
        serde_json::to_string(self).map_err(|error| value(&error))
    }
}

impl Asked {
    fn study(&self, policies: &[Bound<'_, PyAny>], fault: &Fault) -> PyResult<Study> {
        if policies.is_empty() || self.sizes.is_empty() {
            return Err(PyValueError::new_err(
                "nothing to simulate: give at least one policy, such as policies=['lru'], and one size, such as \
                 sizes=['10%']",
            ));
        }
        let mut all = Vec::new();
        for policy in policies {
            match policy.extract::<String>() {
                Ok(names) => all.extend(Policy::parse_list(&names).map_err(|error| value(&error))?),
                Err(_) => all.push(user_policy::policy(policy, fault)?),
            }
        }
        let processors = || std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        Ok(Study {
            policies: all,
            sizes: self
                .sizes
                .iter()
                .map(|size| parse(size))
                .collect::<PyResult<_>>()?,
            tiers: Vec::new(),
            block: block(&self.block)?,
            write_policy: one_of("write_policy", &self.write_policy)?,
            write_miss: self
                .write_miss
                .as_deref()
                .map(|word| one_of("write_miss", word))
                .transpose()?,
            warmup: parse(&self.warmup)?,
            interval: self.interval.as_deref().map(parse).transpose()?,
            latency: self.latency()?,
            heat: self.footprint_map,
            seed: self.seed,
            threads: self.threads.unwrap_or_else(processors),
        })
    }

    fn latency(&self) -> PyResult<Option<LatencySettings>> {
        let asked = self.latency
            || self.flash.is_some()
            || self.origin.is_some()
            || self.speed.is_some()
            || self.depth.is_some();
        if !asked {
            return Ok(None);
        }
        let device = |default: DeviceSettings, text: &Option<String>| match text {
            Some(text) => default.with(text).map_err(|error| value(&error)),
            None => Ok(default),
        };
        Ok(Some(LatencySettings {
            flash: device(DeviceSettings::flash_default(), &self.flash)?,
            origin: device(DeviceSettings::origin_default(), &self.origin)?,
            arrival: self.arrival()?,
        }))
    }

    fn arrival(&self) -> PyResult<Arrival> {
        match (self.speed, self.depth) {
            (Some(_), Some(_)) => Err(PyValueError::new_err(
                "speed= replays at the trace's own times and depth= as fast as possible: give one of them",
            )),
            (_, Some(depth)) if (1..=DEPTH_MAX).contains(&depth) => Ok(Arrival::Depth(depth)),
            (_, Some(depth)) => Err(PyValueError::new_err(format!(
                "depth={depth}: from 1 to {DEPTH_MAX} requests can be outstanding"
            ))),
            (speed, None) => {
                let speed = speed.unwrap_or(1.0);
                if (1e-6..=1e6).contains(&speed) {
                    return Ok(Arrival::Timed { speed });
                }
                Err(PyValueError::new_err(format!(
                    "speed={speed}: write a factor from 0.000001 to 1000000"
                )))
            }
        }
    }
}

/// A word, with the argument that it was given for.
fn one_of<T: std::str::FromStr<Err: std::error::Error>>(argument: &str, word: &str) -> PyResult<T> {
    word.parse()
        .map_err(|error: T::Err| PyValueError::new_err(format!("{argument}={word:?}: {error}")))
}
