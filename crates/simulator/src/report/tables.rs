//! The tables of a report: the best at each size, all runs, volumes. Counts are short, with all their digits where
//! the reader points; the first column and the heads stay in sight when a table is scrolled.

use super::figures::{Study, knows_the_future};
use super::label::{self, escape, percent_exact};
use crate::number::{ratio, real};
use crate::result::RunResult;
use std::fmt::{self, Write};

/// What is counted of a run, and which of two is better.
struct Column {
    head: &'static str,
    value: fn(&RunResult) -> Option<f64>,
    text: fn(f64) -> String,
    /// What is better, if anything is.
    better: Option<Better>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Better {
    More,
    Less,
}

const COLUMNS: [Column; 14] = [
    Column::less(
        "miss ratio",
        |run| Some(run.counters.miss_ratio()),
        percent_exact,
    ),
    Column::more(
        "read hits",
        |run| part(run.counters.read_hits, run.counters.reads),
        percent_exact,
    ),
    Column::more(
        "write hits",
        |run| part(run.counters.write_hits, run.counters.writes),
        percent_exact,
    ),
    Column::more(
        "byte hits",
        |run| part(run.counters.hit_bytes, run.counters.bytes),
        percent_exact,
    ),
    Column::less(
        "origin reads",
        |run| Some(real(run.counters.origin_reads)),
        label::count,
    ),
    Column::less(
        "origin writes",
        |run| Some(real(run.counters.origin_writes)),
        label::count,
    ),
    Column::less(
        "flash blocks written",
        |run| Some(real(run.counters.flash_writes_blocks())),
        label::count,
    ),
    Column::less(
        "flash writes an access",
        |run| Some(run.flash_writes_per_access()),
        three,
    ),
    Column::any(
        "write amplifi\u{ad}cation",
        |run| Some(run.counters.write_amplification()),
        three,
    ),
    Column::less(
        "mean latency",
        |run| Some(run.latency.as_ref()?.all.mean_us),
        label::time_us,
    ),
    Column::less(
        "p50",
        |run| Some(run.latency.as_ref()?.all.p50_us),
        label::time_us,
    ),
    Column::less(
        "p95",
        |run| Some(run.latency.as_ref()?.all.p95_us),
        label::time_us,
    ),
    Column::less(
        "p99",
        |run| Some(run.latency.as_ref()?.all.p99_us),
        label::time_us,
    ),
    Column::any(
        "requests a second",
        |run| Some(run.latency.as_ref()?.requests_per_s),
        label::count,
    ),
];

impl Column {
    const fn new(
        head: &'static str,
        value: fn(&RunResult) -> Option<f64>,
        text: fn(f64) -> String,
        better: Option<Better>,
    ) -> Self {
        Self {
            head,
            value,
            text,
            better,
        }
    }

    const fn less(
        head: &'static str,
        value: fn(&RunResult) -> Option<f64>,
        text: fn(f64) -> String,
    ) -> Self {
        Self::new(head, value, text, Some(Better::Less))
    }

    const fn more(
        head: &'static str,
        value: fn(&RunResult) -> Option<f64>,
        text: fn(f64) -> String,
    ) -> Self {
        Self::new(head, value, text, Some(Better::More))
    }

    const fn any(
        head: &'static str,
        value: fn(&RunResult) -> Option<f64>,
        text: fn(f64) -> String,
    ) -> Self {
        Self::new(head, value, text, None)
    }

    /// The best value of runs that are to be compared; `None` if there are fewer than two, or all are equal.
    fn best(&self, runs: &[&RunResult]) -> Option<f64> {
        let better = self.better?;
        let real = runs.iter().filter(|run| !knows_the_future(run));
        let mut values = real.filter_map(|run| (self.value)(run));
        let first = values.next()?;
        let (mut best, mut differs) = (first, false);
        for value in values {
            differs |= value.total_cmp(&first).is_ne();
            let wins = match better {
                Better::More => value > best,
                Better::Less => value < best,
            };
            if wins {
                best = value;
            }
        }
        differs.then_some(best)
    }

    /// A cell: its text, in bold if it is the best, and all digits of a count that was shortened.
    fn cell(&self, out: &mut String, run: &RunResult, best: Option<f64>) -> fmt::Result {
        let Some(value) = (self.value)(run) else {
            return write!(out, "<td>-</td>");
        };
        let text = (self.text)(value);
        let class = if best == Some(value) && !knows_the_future(run) {
            " class=\"best\""
        } else {
            ""
        };
        if value.fract() == 0.0 && value.to_string() != text && value >= 1000.0 {
            return write!(out, "<td{class} title=\"{value}\">{text}</td>");
        }
        write!(out, "<td{class}>{text}</td>")
    }
}

fn part(some: u64, all: u64) -> Option<f64> {
    (all > 0).then(|| ratio(some, all))
}

fn three(value: f64) -> String {
    format!("{value:.3}")
}

/// Which method is the best at each size, by each measure by which methods differ: what a reader wants first.
pub(super) fn best(out: &mut String, runs: &[RunResult]) -> fmt::Result {
    let study = Study::of(runs);
    if study.methods.len() < 2 {
        return Ok(());
    }
    let measures: Vec<(&str, &Column)> = [
        ("fewest misses", "miss ratio"),
        ("most read hits", "read hits"),
        ("least flash written", "flash writes an access"),
        ("shortest mean latency", "mean latency"),
        ("shortest p99", "p99"),
    ]
    .into_iter()
    .filter_map(|(name, head)| Some((name, COLUMNS.iter().find(|column| column.head == head)?)))
    .filter(|(_, column)| {
        study
            .sizes
            .iter()
            .any(|size| column.best(&at(&study, *size)).is_some())
    })
    .collect();
    if measures.is_empty() {
        return Ok(());
    }
    out.push_str("<section><h3>Best at each size</h3><div class=\"scroll\"><table id=\"best\"><thead><tr><th class=\"word\">size</th>");
    for (name, _) in &measures {
        write!(out, "<th class=\"word\">{name}</th>")?;
    }
    out.push_str("</tr></thead><tbody>");
    for size in &study.sizes {
        let runs = at(&study, *size);
        write!(out, "<tr><td class=\"word\">{}</td>", study.name_of(*size))?;
        for (_, column) in &measures {
            let best = column.best(&runs);
            let winner = runs.iter().find(|run| {
                best.is_some() && (column.value)(run) == best && !knows_the_future(run)
            });
            match (winner, best) {
                (Some(run), Some(value)) => write!(
                    out,
                    "<td class=\"word\">{} <span>{}</span></td>",
                    escape(&run.method()),
                    (column.text)(value)
                )?,
                _ => out.push_str("<td class=\"word\">all alike</td>"),
            }
        }
        out.push_str("</tr>");
    }
    out.push_str("</tbody></table></div></section>");
    Ok(())
}

fn at<'a>(study: &Study<'a>, size: u32) -> Vec<&'a RunResult> {
    let runs = study.runs.iter();
    runs.filter(|run| run.size_blocks == size).collect()
}

/// All runs, size by size, the best of each size in bold.
pub(super) fn runs(out: &mut String, runs: &[RunResult]) -> fmt::Result {
    let study = Study::of(runs);
    let has_values = |column: &&Column| runs.iter().any(|run| (column.value)(run).is_some());
    let columns: Vec<&Column> = COLUMNS.iter().filter(has_values).collect();
    out.push_str(
        "<section><h3>Runs</h3><p>The best of each size is bold; a policy that knows the future does not take part.</p><div class=\"scroll\"><table id=\"runs\"><thead><tr>\
         <th class=\"word\">policy</th><th>size</th>",
    );
    for column in &columns {
        write!(out, "<th>{}</th>", column.head)?;
    }
    out.push_str("</tr></thead>");
    for size in &study.sizes {
        let runs = at(&study, *size);
        let bests: Vec<Option<f64>> = columns.iter().map(|column| column.best(&runs)).collect();
        out.push_str("<tbody>");
        for run in runs {
            write!(
                out,
                "<tr><td class=\"word\">{}</td><td>{}</td>",
                escape(&run.method()),
                label::bytes(real(run.size_bytes()))
            )?;
            for (column, best) in columns.iter().zip(&bests) {
                column.cell(out, run, *best)?;
            }
            out.push_str("</tr>");
        }
        out.push_str("</tbody>");
    }
    out.push_str("</table></div></section>");
    Ok(())
}

/// Volumes that a table lists: the busiest, for a page that a person reads.
const VOLUMES_LISTED: usize = 20;

/// The busiest volumes, under the last run.
pub(super) fn volumes(out: &mut String, runs: &[RunResult]) -> fmt::Result {
    let Some(run) = runs.last().filter(|run| run.volumes.len() > 1) else {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::tests::some_run;

    fn written(write: fn(&mut String, &[RunResult]) -> fmt::Result, runs: &[RunResult]) -> String {
        let mut out = String::new();
        write(&mut out, runs).unwrap();
        out
    }

    #[test]
    fn the_best_of_a_size_is_bold_and_named_first() {
        let mut all = vec![
            some_run("lru", 100),
            some_run("fifo", 100),
            some_run("lru", 200),
        ];
        all[1].counters.read_hits = 60;
        let table = written(runs, &all);
        assert!(table.contains("<td class=\"best\">25.00%</td>"), "{table}");
        assert_eq!(
            table.matches("class=\"best\"").count(),
            2,
            "misses and read hits: {table}"
        );
        let table = written(best, &all);
        assert!(table.contains("fifo <span>25.00%</span>"), "{table}");
        assert!(!table.contains("shortest p99"), "all are alike: {table}");
        assert_eq!(written(best, &all[..1]), "", "nothing is compared");
        all.push(some_run("belady", 100));
        all[3].counters.read_hits = 70;
        let table = written(best, &all);
        assert!(table.contains("fifo <span>25.00%</span>"), "{table}");
    }

    #[test]
    fn a_table_has_the_columns_that_have_values_and_all_digits_of_its_counts() {
        let mut run = some_run("lru", 100);
        run.latency = None;
        run.counters.origin_reads = 1_234_567;
        let table = written(runs, &[run]);
        assert!(!table.contains("p99") && !table.contains("requests a second"));
        assert!(
            table.contains("<td title=\"1234567\">1.23M</td>"),
            "{table}"
        );
        let head = table.split("</thead>").next().unwrap();
        assert_eq!(
            head.matches("<th").count() - 1,
            table.matches("<td").count()
        );
    }
}
