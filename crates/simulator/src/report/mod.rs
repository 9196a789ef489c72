//! The report: one page of HTML that needs nothing else, neither network nor scripts.
//!
//! | file | what |
//! |---|---|
//! | `scale` | axes: ranges, round values |
//! | `label` | numbers and texts for people |
//! | `chart` | lines and points as SVG |
//! | `heat` | the footprint as SVG |
//! | `bars` | bars of pieces as SVG |
//! | `figures` | which data a figure shows |
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
pub mod curves;
mod figures;
pub mod fleet;
mod heat;
mod label;
mod memory;
mod page;
pub mod prefetch;
mod scale;

use crate::heat::Heat;
use crate::manifest::Manifest;
use crate::number::{ratio, real};
use crate::result::RunResult;
use label::{escape, percent_exact};
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
    for report in traces {
        of_trace(&mut out, report, traces.len() > 1)?;
    }
    page::provenance(&mut out, manifest)?;
    out.push_str(page::END);
    Ok(out)
}

fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn of_trace(out: &mut String, report: &TraceReport, is_one_of_many: bool) -> fmt::Result {
    if is_one_of_many {
        write!(
            out,
            "<h2 class=\"trace\">{}</h2>",
            escape(base_name(&report.trace))
        )?;
    }
    page::ruins(out, &report.ruins)?;
    facts(out, report)?;
    out.push_str("<section class=\"figures\">");
    for figure in figures::of(report)? {
        page::figure(out, &figure.title, &figure.caption, &figure.html)?;
    }
    out.push_str("</section>");
    table_of_runs(out, report)?;
    memory::section(out, &memory::of_runs(&report.runs))?;
    table_of_volumes(out, report)
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

fn table_of_runs(out: &mut String, report: &TraceReport) -> fmt::Result {
    let has_latency = report.runs.iter().any(|run| run.latency.is_some());
    out.push_str(
        "<section><h3>Runs</h3><div class=\"scroll\"><table><thead><tr><th class=\"word\">policy</th><th>size</th>\
         <th>miss ratio</th><th>read hits</th><th>write hits</th><th>byte hits</th><th>origin reads</th>\
         <th>origin writes</th><th>flash writes, blocks</th><th>write amplification</th>",
    );
    if has_latency {
        out.push_str("<th>mean</th><th>p50</th><th>p95</th><th>p99</th><th>requests/s</th>");
    }
    out.push_str("</tr></thead><tbody>");
    for run in &report.runs {
        let counters = &run.counters;
        write!(
            out,
            "<tr><td class=\"word\">{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>\
             <td>{}</td><td>{}</td><td>{}</td><td>{:.2}</td>",
            escape(&run.method()),
            label::bytes(real(run.size_bytes())),
            percent_exact(counters.miss_ratio()),
            percent_exact(ratio(counters.read_hits, counters.reads)),
            percent_exact(ratio(counters.write_hits, counters.writes)),
            percent_exact(ratio(counters.hit_bytes, counters.bytes)),
            counters.origin_reads,
            counters.origin_writes,
            counters.flash_writes_blocks(),
            counters.write_amplification(),
        )?;
        if let Some(latency) = &run.latency {
            for micros in [
                latency.all.mean_us,
                latency.all.p50_us,
                latency.all.p95_us,
                latency.all.p99_us,
            ] {
                write!(out, "<td>{}</td>", label::time_us(micros))?;
            }
            write!(out, "<td>{}</td>", label::count(latency.requests_per_s))?;
        }
        out.push_str("</tr>");
    }
    out.push_str("</tbody></table></div></section>");
    Ok(())
}

/// Volumes that a table lists: the busiest, for a page that a person reads.
const VOLUMES_LISTED: usize = 20;

fn table_of_volumes(out: &mut String, report: &TraceReport) -> fmt::Result {
    let Some(run) = report.runs.last().filter(|run| run.volumes.len() > 1) else {
        return Ok(());
    };
    let mut volumes: Vec<_> = run.volumes.iter().collect();
    volumes.sort_by_key(|volume| std::cmp::Reverse(volume.counters.accesses()));
    write!(
        out,
        "<section><h3>Volumes</h3><p>The {} busiest of {}, with {} at {}.</p><div class=\"scroll\"><table><thead><tr>\
         <th class=\"word\">volume</th><th>accesses</th><th>reads</th><th>hit ratio</th><th>read hits</th>\
         <th>origin reads</th><th>origin writes</th></tr></thead><tbody>",
        volumes.len().min(VOLUMES_LISTED),
        volumes.len(),
        escape(&run.method()),
        label::bytes(real(run.size_bytes())),
    )?;
    for volume in volumes.into_iter().take(VOLUMES_LISTED) {
        let counters = &volume.counters;
        write!(
            out,
            "<tr><td class=\"word\">{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            escape(&volume.volume.to_string()),
            counters.accesses(),
            label::percent(ratio(counters.reads, counters.accesses())),
            percent_exact(ratio(counters.hits(), counters.accesses())),
            percent_exact(ratio(counters.read_hits, counters.reads)),
            counters.origin_reads,
            counters.origin_writes,
        )?;
    }
    out.push_str("</tbody></table></div></section>");
    Ok(())
}
