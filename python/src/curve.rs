//! Miss-ratio curves, by the crate `curves`.

use crate::arguments::{Source, block, must_be_read_again, options, parse};
use crate::error::{TraceError, curve as failed, value};
use crate::guard::{Fault, Stop};
use ::mrc::{Counted, MINIATURE_BLOCKS_MIN, Writes, plot_sizes};
use curves::{Curves, Measured, Method, Settings, measure};
use policy::replacement::Spec;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde_json::{Value, json};
use simulator::CacheSize;
use std::path::PathBuf;
use units::Bytes;

/// Points in an octave if no sizes are given.
const PER_OCTAVE: u32 = 8;
/// Sizes of a miniature simulation if none are given, in percent of the footprint.
const PERCENTS: [u64; 14] = [1, 2, 3, 5, 7, 10, 15, 20, 30, 40, 50, 65, 80, 100];
/// Sampled blocks from which the footprint is estimated before a miniature simulation.
const SURVEY_BLOCKS: usize = 1 << 16;

/// What the Python half passes on.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Asked {
    sample: Option<f64>,
    samples: Option<usize>,
    policy: String,
    sizes: Vec<String>,
    reads: bool,
    writes: String,
    block: String,
    format: Option<String>,
    columns: Option<String>,
    per_volume: bool,
    seed: u64,
}

/// The curves of a trace as JSON: the whole trace's, then its volumes' if asked for.
#[pyfunction]
#[pyo3(signature = (trace, asked, stop=None))]
#[allow(
    clippy::needless_pass_by_value,
    reason = "pyo3 hands arguments over by value"
)]
pub(crate) fn mrc(
    py: Python<'_>,
    trace: PathBuf,
    asked: Asked,
    stop: Option<PyRef<'_, Stop>>,
) -> PyResult<String> {
    let fault = Fault::new(stop.as_deref());
    let block = block(&asked.block)?;
    let options = options(asked.format.as_deref(), asked.columns.as_deref(), block)?;
    let source = Source {
        path: &trace,
        options: &options,
        fault: &fault,
    };
    let spec: Spec = parse(&asked.policy)?;
    let mut settings = Settings {
        method: asked.method()?,
        writes: asked.writes()?,
        block,
        per_volume: asked.per_volume,
    };
    if spec.about().name != "lru" {
        must_be_read_again(&trace, "a policy other than lru")?;
        let survey = Settings {
            method: Method::FixedSize {
                blocks_max: SURVEY_BLOCKS,
                seed: asked.seed,
            },
            per_volume: false,
            ..settings.clone()
        };
        let (found, _) = pass(py, &source, &survey)?;
        settings.method = asked.miniature(spec.clone(), found.total.footprint_blocks)?;
    }
    let (measured, format) = pass(py, &source, &settings)?;
    let named = json!({
        "trace": trace.display().to_string(),
        "format": format,
        "policy": spec.to_string(),
    });
    Ok(asked.answers(&named, &settings, &measured)?.to_string())
}

fn pass(
    py: Python<'_>,
    source: &Source<'_>,
    settings: &Settings,
) -> PyResult<(Measured, &'static str)> {
    let name = source.path.display().to_string();
    let (mut reader, format) = py.detach(|| source.reader())?;
    let measured = py.detach(|| measure(&mut *reader, settings, &mut |_| {}));
    source.fault.check()?;
    let measured = measured.map_err(|error| failed(&name, &error))?;
    if measured.total.accesses == 0 {
        return Err(TraceError::new_err(format!(
            "{name}: nothing is read or written"
        )));
    }
    Ok((measured, format.name()))
}

impl Asked {
    /// The method for LRU.
    fn method(&self) -> PyResult<Method> {
        let seed = self.seed;
        match (self.sample, self.samples) {
            (Some(_), Some(_)) => Err(PyValueError::new_err(
                "sample= is a part of all blocks and samples= a number of them: give one of them",
            )),
            (Some(rate), None) if rate > 0.0 && rate <= 1.0 => Ok(Method::FixedRate { rate, seed }),
            (Some(rate), None) => Err(PyValueError::new_err(format!(
                "sample={rate}: write a part of all blocks, above 0 and at most 1, such as 0.01"
            ))),
            (None, Some(0)) => Err(PyValueError::new_err(
                "samples=0: at least one block must be sampled, such as samples=8192",
            )),
            (None, Some(blocks_max)) => Ok(Method::FixedSize { blocks_max, seed }),
            (None, None) => Ok(Method::Exact),
        }
    }

    fn writes(&self) -> PyResult<Writes> {
        match self.writes.as_str() {
            "allocate" => Ok(Writes::Allocate),
            "invalidate" => Ok(Writes::Invalidate),
            "exclude" => Ok(Writes::Exclude),
            other => Err(PyValueError::new_err(format!(
                "writes={other:?}: a written block comes in (allocate), leaves (invalidate), or counts for nothing \
                 (exclude)"
            ))),
        }
    }

    fn miniature(&self, policy: Spec, footprint: u64) -> PyResult<Method> {
        let rate = match (self.sample, self.samples) {
            (Some(rate), _) => rate,
            (None, Some(blocks)) => (real(blocks as u64) / real(footprint.max(1))).min(1.0),
            (None, None) => 1.0,
        };
        let is_large_enough = |blocks: &u64| {
            *blocks > 0 && (rate >= 1.0 || real(*blocks) * rate >= real(MINIATURE_BLOCKS_MIN))
        };
        let mut sizes = self.in_blocks(footprint)?;
        if self.sizes.is_empty() {
            sizes = PERCENTS
                .iter()
                .map(|percent| footprint * percent / 100)
                .filter(is_large_enough)
                .collect();
            sizes.dedup();
        }
        Ok(Method::Miniature {
            policy,
            sizes,
            rate,
            seed: self.seed,
        })
    }

    /// The sizes that were asked for, in blocks, each once, growing.
    fn in_blocks(&self, footprint: u64) -> PyResult<Vec<u64>> {
        let block = block(&self.block)?;
        let footprint = u32::try_from(footprint).unwrap_or(u32::MAX);
        let mut sizes = Vec::with_capacity(self.sizes.len());
        for text in &self.sizes {
            let size: CacheSize = parse(text)?;
            let blocks = size
                .blocks(block, footprint)
                .map_err(|error| value(&error))?;
            sizes.push(u64::from(blocks));
        }
        sizes.sort_unstable();
        sizes.dedup();
        Ok(sizes)
    }

    fn answers(&self, named: &Value, settings: &Settings, measured: &Measured) -> PyResult<Value> {
        let total = self.answer(named, settings, measured, None, &measured.total)?;
        let mut all = vec![total];
        for one in &measured.volumes {
            let volume = Some(one.volume.to_string());
            all.push(self.answer(named, settings, measured, volume, &one.curves)?);
        }
        Ok(Value::Array(all))
    }

    fn answer(
        &self,
        named: &Value,
        settings: &Settings,
        measured: &Measured,
        volume: Option<String>,
        curves: &Curves,
    ) -> PyResult<Value> {
        let curve = curves.of(if self.reads {
            Counted::Reads
        } else {
            Counted::All
        });
        let sizes = match &settings.method {
            // A miniature simulation knows the sizes that it ran at.
            Method::Miniature { sizes, .. } => sizes.clone(),
            _ if self.sizes.is_empty() => plot_sizes(curves.footprint_blocks, PER_OCTAVE),
            _ => self.in_blocks(curves.footprint_blocks)?,
        };
        let points: Vec<_> = sizes
            .into_iter()
            .map(|size| point(size, settings.block, curve.miss_ratio(size), curves))
            .collect();
        let mut answer = json!({
            "method": name(&settings.method),
            "rate": curves.rate,
            "counted": if self.reads { "reads" } else { "all" },
            "writes": self.writes,
            "block_bytes": settings.block.get(),
            "requests": measured.facts.requests,
            "accesses": curves.accesses,
            "reads": curves.reads_count,
            "footprint_blocks": curves.footprint_blocks,
            "sampled_blocks": curves.sampled_blocks,
            "memory_bytes": curves.memory_bytes,
            "duration_seconds": measured.facts.duration_seconds(),
            "miss_ratio_min": curve.floor(),
            "knee_blocks": curve.knee_blocks(),
            "points": points,
        });
        for key in ["trace", "format", "policy"] {
            answer[key] = named[key].clone();
        }
        if let Some(volume) = volume {
            answer["volume"] = json!(volume);
        }
        Ok(answer)
    }
}

fn point(size_blocks: u64, block: Bytes, miss_ratio: f64, curves: &Curves) -> Value {
    json!({
        "size_blocks": size_blocks,
        "size_bytes": size_blocks.saturating_mul(block.get()),
        "miss_ratio": miss_ratio,
        "read_miss_ratio": curves.reads.miss_ratio(size_blocks),
    })
}

const fn name(method: &Method) -> &'static str {
    match method {
        Method::Exact => "exact",
        Method::FixedRate { .. } => "fixed-rate",
        Method::FixedSize { .. } => "fixed-size",
        Method::Miniature { .. } => "miniature",
    }
}

#[allow(
    clippy::cast_precision_loss,
    reason = "counts of blocks are far below 2^53, and a sampling rate needs few digits"
)]
const fn real(count: u64) -> f64 {
    count as f64
}
