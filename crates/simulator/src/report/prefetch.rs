//! A page of what miners were worth, in the style of the report.

use super::memory::{self, Prefetched, Use};
use super::{base_name, label, page};
use crate::manifest::Manifest;
use crate::prefetch::Tally;
use std::fmt::{self, Write};
use units::Bytes;

/// The experiments with a trace.
#[derive(Clone, Debug)]
pub struct PrefetchReport {
    /// The trace, as it was given.
    pub trace: String,
    /// Whether the first half of the reads taught and was not counted.
    pub train_half: bool,
    /// Each experiment.
    pub rows: Vec<PrefetchRow>,
}

/// An experiment.
#[derive(Clone, Debug)]
pub struct PrefetchRow {
    /// The miners.
    pub miners: String,
    /// What they might waste.
    pub waste: String,
    /// The buffer.
    pub ram: Bytes,
    /// The order in which blocks leave it.
    pub policy: String,
    /// What was counted.
    pub tally: Tally,
}

/// The page.
///
/// # Errors
/// Never in practice: writing to a string does not fail.
pub fn html(reports: &[PrefetchReport], manifest: &Manifest) -> Result<String, fmt::Error> {
    let names: Vec<&str> = reports
        .iter()
        .map(|report| base_name(&report.trace))
        .collect();
    let title = names.join(", ");
    let mut out = String::new();
    page::begin(&mut out, &title, "prefetch", &title)?;
    for report in reports {
        of_trace(&mut out, report)?;
    }
    page::provenance(&mut out, manifest)?;
    out.push_str(page::END);
    Ok(out)
}

fn of_trace(out: &mut String, report: &PrefetchReport) -> fmt::Result {
    let counted = if report.train_half {
        "the second half of its reads"
    } else {
        "all of its reads"
    };
    let reads = report.rows.first().map_or(0, |row| row.tally.reads);
    write!(
        out,
        "<h2 class=\"trace\">{}</h2><p>{counted}: {reads}. A read that lacks a block is one request to the origin, and so is each \
         run of neighbours that is prefetched.</p>",
        label::escape(base_name(&report.trace))
    )?;
    let uses: Vec<Use> = report.rows.iter().map(of_row).collect();
    memory::section(out, &uses)?;
    requests(out, &report.rows)
}

fn name(row: &PrefetchRow) -> String {
    format!("{}, {} {}", row.miners, row.ram, row.policy)
}

fn of_row(row: &PrefetchRow) -> Use {
    let tally = &row.tally;
    Use {
        name: name(row),
        size_bytes: row.ram.get(),
        reads: tally.blocks,
        staged: 0,
        ahead: tally.used,
        // A block that was prefetched is in the buffer as any other once it was read.
        hot: tally.block_hits - tally.used,
        prefetched: Some(Prefetched {
            fetched: tally.fetched,
            used: tally.used,
            wasted: tally.wasted,
            precision: tally.precision(),
            memory_bytes: tally.memory.get(),
        }),
        refused: if tally.refused > 0 {
            vec![("by price", tally.refused)]
        } else {
            Vec::new()
        },
    }
}

fn requests(out: &mut String, rows: &[PrefetchRow]) -> fmt::Result {
    out.push_str(
        "<section><h3>Requests</h3><div class=\"scroll\"><table><thead><tr><th class=\"word\">run</th>\
         <th>may waste</th><th>read hits</th><th>origin requests</th></tr></thead><tbody>",
    );
    for row in rows {
        write!(
            out,
            "<tr><td class=\"word\">{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            label::escape(&name(row)),
            label::escape(&row.waste),
            label::percent_exact(row.tally.read_hit_ratio()),
            row.tally.requests
        )?;
    }
    out.push_str("</tbody></table></div></section>");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_a_section_for_each_trace_and_no_markup_from_names() {
        let row = PrefetchRow {
            miners: "vip".to_owned(),
            waste: "0.1".to_owned(),
            ram: Bytes::mib(1),
            policy: "lru".to_owned(),
            tally: Tally {
                reads: 10,
                read_hits: 4,
                blocks: 100,
                block_hits: 60,
                fetched: 40,
                used: 30,
                wasted: 6,
                refused: 3,
                requests: 17,
                ..Tally::default()
            },
        };
        let report = PrefetchReport {
            trace: "traces/<b>.csv".to_owned(),
            train_half: true,
            rows: vec![row],
        };
        let manifest = Manifest::new(Vec::new(), 0, serde_json::json!({}), Vec::new());
        let page = html(&[report.clone(), report], &manifest).unwrap();
        assert_eq!(page.matches("Memory and prefetch").count(), 2);
        assert!(page.contains("&lt;b&gt;.csv") && !page.contains("<b>"));
        // 30 were prefetched and 30 read before; 30 of 36 were used.
        assert!(
            page.contains("<td>100</td><td>0</td><td>30</td><td>30</td><td>60.00%</td>"),
            "{page}"
        );
        assert!(
            page.contains("<td>40</td><td>30</td><td>6</td><td>83.33%</td>"),
            "{page}"
        );
        assert!(page.contains("3 by price"), "{page}");
        assert!(page.contains("<td>40.00%</td><td>17</td>"), "{page}");
    }
}
