//! Each window of each rule as csv.

use super::outcome::{Outcome, Sample};
use std::io::{self, Write};

/// A column: its name with its unit, and its cell of a window.
type Column = (&'static str, fn(&Sample) -> String);

const COLUMNS: [Column; 12] = [
    ("window", |of| of.window.to_string()),
    ("hosts", |of| of.hosts.to_string()),
    ("hosts_overloaded", |of| of.overloaded.to_string()),
    ("load_mean", |of| of.load_mean.to_string()),
    ("load_stddev", |of| of.load_stddev.to_string()),
    ("hit_ratio", |of| optional(of.hits)),
    ("p90_ms", |of| optional(of.p90_ms)),
    ("moves_done", |of| of.done.to_string()),
    ("moves_rolled_back", |of| of.rolled_back.to_string()),
    ("moves_failed", |of| of.failed.to_string()),
    ("moved_bytes", |of| of.moved_bytes.to_string()),
    ("missing_bytes", |of| of.missing_bytes.to_string()),
];

/// An empty cell if there is nothing.
fn optional(value: Option<f64>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

/// Writes a row for each window of each rule (RFC 4180).
///
/// # Errors
/// If `out` cannot be written to.
pub fn csv(out: &mut impl Write, all: &[Outcome]) -> io::Result<()> {
    let names: Vec<&str> = COLUMNS.iter().map(|(name, _)| *name).collect();
    writeln!(out, "rule,{}", names.join(","))?;
    for one in all {
        for sample in &one.samples {
            let cells = COLUMNS.iter().map(|(_, cell)| cell(sample));
            let cells: Vec<String> = cells.collect();
            writeln!(out, "{},{}", one.rule, cells.join(","))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::{Rule, Settings, run};

    #[test]
    fn every_window_of_every_rule_is_a_row() {
        let settings = Settings {
            hosts: 3,
            vms: 3,
            windows: 4,
            ..Settings::new(Rule::Paper, 1)
        };
        let outcome = run(&settings, &mut |_| {}).unwrap();
        let mut text = Vec::new();
        csv(&mut text, &[outcome.clone(), outcome]).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert_eq!(text.lines().count(), 9);
        let cells = |line: &str| line.split(',').count();
        assert!(text.lines().all(|line| cells(line) == 13), "{text}");
    }
}
