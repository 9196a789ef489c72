//! The report: one page of HTML that needs nothing else, neither network nor scripts.
//!
//! | file | what |
//! |---|---|
//! | `scale` | axes: ranges, round values |
//! | `label` | numbers and texts for people |
//! | `look` | hue, mark and dash of each series |
//! | `frame` | two axes with their ticks |
//! | `chart` | lines and points as SVG, and a legend that shows and hides them |
//! | `closeup` | what lies together, where a few points stretch the axes |
//! | `multiples` | many lines as many small pictures |
//! | `heat` | the footprint as SVG |
//! | `bars` | bars of pieces as SVG |
//! | `figures` | which data a figure shows |
//! | `courses` | figures with a line for each method at one size |
//! | `tables` | the best at each size, all runs, volumes |
//! | `memory` | hits in memory by kind, prefetch, refusals |
//! | `page` | what every page begins and ends with |
//! | [`curves`] | a page of miss-ratio curves |
//! | [`mod@prefetch`] | a page of what miners were worth |
//! | `style.css` | how it looks, in light and in dark |
//!
//! The pictures are drawn here and not by a library in the page: the page then opens anywhere, prints,
//! weighs some hundred KiB, and a test can look at it.

mod bars;
mod chart;
mod closeup;
mod courses;
pub mod curves;
mod figures;
pub mod fleet;
mod frame;
mod heat;
mod label;
mod look;
mod memory;
mod multiples;
mod page;
pub mod prefetch;
mod scale;
mod tables;

use crate::heat::Heat;
use crate::manifest::Manifest;
use crate::number::{ratio, real};
use crate::result::RunResult;
use label::escape;
use std::fmt::{self, Write};
use trace::Volume;

const STYLE: &str = include_str!("style.css");

/// What a report says of one trace.
#[derive(Clone, Debug)]
pub struct TraceReport {
    /// The trace, as it was given.
    pub trace: String,
    /// Why what is said of it is wrong.
    pub ruins: Vec<String>,
    /// The runs over it.
    pub runs: Vec<RunResult>,
    /// Where its accesses lie.
    pub heat: Option<Heat>,
    /// Its volumes, by their places.
    pub volumes: Vec<Volume>,
    /// Time from the first request to the last, in microseconds; zero without times.
    pub duration_us: u64,
}

/// The page.
///
/// # Errors
/// Never in practice: writing to a string does not fail.
pub fn html(traces: &[TraceReport], manifest: &Manifest) -> Result<String, fmt::Error> {
    let mut out = String::new();
    let names: Vec<&str> = traces
        .iter()
        .map(|report| base_name(&report.trace))
        .collect();
    let title = names.join(", ");
    page::begin(&mut out, &title, "cache simulation", &title)?;
    for (place, report) in traces.iter().enumerate() {
        of_trace(&mut out, report, place, traces.len() > 1)?;
    }
    page::provenance(&mut out, manifest)?;
    out.push_str(page::END);
    Ok(out)
}

fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn of_trace(
    out: &mut String,
    report: &TraceReport,
    place: usize,
    is_one_of_many: bool,
) -> fmt::Result {
    if is_one_of_many {
        write!(
            out,
            "<h2 class=\"trace\">{}</h2>",
            escape(base_name(&report.trace))
        )?;
    }
    page::ruins(out, &report.ruins)?;
    facts(out, report)?;
    tables::best(out, &report.runs)?;
    out.push_str("<section class=\"figures\">");
    let mut figures = figures::of_runs(&report.runs, place)?;
    if let Some(heat) = &report.heat {
        figures.extend(figures::of_heat(heat, &report.volumes)?);
    }
    for figure in figures {
        page::figure(
            out,
            &figure.title,
            &figure.caption,
            &figure.html,
            figure.is_wide,
        )?;
    }
    out.push_str("</section>");
    tables::runs(out, &report.runs)?;
    memory::section(out, &memory::of_runs(&report.runs))?;
    tables::volumes(out, &report.runs)
}

fn facts(out: &mut String, report: &TraceReport) -> fmt::Result {
    let Some(run) = report.runs.first() else {
        return Ok(());
    };
    let counters = &run.counters;
    let mut facts = vec![
        ("requests", label::count(real(counters.requests()))),
        ("block accesses", label::count(real(counters.accesses()))),
        (
            "reads",
            label::percent(ratio(counters.reads, counters.accesses())),
        ),
        (
            "footprint",
            label::bytes(f64::from(run.footprint_blocks) * real(run.block_bytes)),
        ),
        ("volumes", report.volumes.len().to_string()),
    ];
    if report.duration_us > 0 {
        facts.push(("duration", label::time_us(real(report.duration_us))));
    }
    facts.push(("writes go", run.write_policy.to_owned()));
    out.push_str("<dl class=\"facts\">");
    for (name, value) in facts {
        write!(out, "<div><dt>{name}</dt><dd>{}</dd></div>", escape(&value))?;
    }
    out.push_str("</dl>");
    Ok(())
}
