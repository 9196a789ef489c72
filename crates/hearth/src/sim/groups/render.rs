//! The tables of `hearth sim groups`, for people and for programs.

use crate::terminal::{Side, Table, quantity};
use groups::study::Found;
use serde::Serialize;
use std::fmt::Write as _;

/// A row of JSON: parts, not percent.
#[derive(Serialize)]
pub(super) struct Row<'a> {
    table: &'a str,
    traffic: &'a str,
    group: usize,
    method: &'a str,
    seeds: usize,
    mean: f64,
    standard_deviation: f64,
    least: f64,
    most: f64,
    paper: Option<f64>,
}

impl<'a> Row<'a> {
    fn of(found: &'a Found) -> Self {
        Self {
            table: found.table,
            traffic: &found.source,
            group: found.group,
            method: found.method,
            seeds: found.values.len(),
            mean: found.mean(),
            standard_deviation: found.deviation(),
            least: found.least(),
            most: found.most(),
            paper: found.paper,
        }
    }
}

/// All rows, as JSON has them.
pub(super) fn rows(all: &[Found]) -> Vec<Row<'_>> {
    all.iter().map(Row::of).collect()
}

/// A line for each seed.
pub(super) fn csv(first_seed: u64, all: &[Found]) -> String {
    let mut out = "table,traffic,group,method,seed,part\n".to_owned();
    for found in all {
        for (seed, value) in (first_seed..).zip(&found.values) {
            // Writing to a string does not fail. The names of tables and of generated traffic have commas.
            let _ = writeln!(
                out,
                "\"{}\",\"{}\",{},\"{}\",{seed},{value}",
                found.table,
                found.source.replace('"', "\"\""),
                found.group,
                found.method
            );
        }
    }
    out
}

/// A table for each experiment of each matrix.
pub(super) fn text(all: &[Found]) -> String {
    let mut out = String::new();
    let blocks = all.chunk_by(|one, other| one.table == other.table && one.source == other.source);
    for block in blocks {
        let mut table = Table::new(&[
            (heading(block[0].table), Side::Right),
            ("method", Side::Left),
            ("mean", Side::Right),
            ("deviation", Side::Right),
            ("least", Side::Right),
            ("most", Side::Right),
            ("paper", Side::Right),
        ]);
        for found in block {
            table.row(vec![
                found.group.to_string(),
                found.method.to_owned(),
                share(found.mean()),
                share(found.deviation()),
                share(found.least()),
                share(found.most()),
                found.paper.map_or_else(|| "-".to_owned(), quantity::share),
            ]);
        }
        let separator = if out.is_empty() { "" } else { "\n" };
        let _ = write!(
            out,
            "{separator}{}, {} ({})\n\n{table}",
            block[0].table,
            block[0].source,
            quantity::counted(block[0].values.len() as u64, "seed")
        );
    }
    out
}

/// A part in percent; what rounds to nothing has no sign.
fn share(part: f64) -> String {
    let is_nothing = part.abs() < 5e-4;
    quantity::share(if is_nothing { 0.0 } else { part })
}

fn heading(table: &str) -> &'static str {
    if table.contains("k-means") {
        "clusters"
    } else {
        "size"
    }
}
