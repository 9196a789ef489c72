//! Results as csv: a header with units, a row for each run.

use crate::columns::{COLUMNS, Value};
use crate::result::RunResult;
use std::io::{self, Write};

/// Writes `runs` as csv (RFC 4180). What was not asked for is empty.
///
/// # Errors
/// If `out` cannot be written to.
pub fn write(out: &mut impl Write, runs: &[&RunResult]) -> io::Result<()> {
    let names: Vec<&str> = COLUMNS.iter().map(|column| column.name).collect();
    writeln!(out, "{}", names.join(","))?;
    for run in runs {
        let cells: Vec<String> = COLUMNS
            .iter()
            .map(|column| match (column.value)(run) {
                Value::Text(text) => quoted(&text),
                Value::Count(count) => count.to_string(),
                Value::Real(real) => real.to_string(),
                Value::Absent => String::new(),
            })
            .collect();
        writeln!(out, "{}", cells.join(","))?;
    }
    Ok(())
}

fn quoted(text: &str) -> String {
    if text.contains(['"', ',', '\n', '\r']) {
        return format!("\"{}\"", text.replace('"', "\"\""));
    }
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_a_cell_for_every_column() {
        let mut runs = vec![crate::result::tests::some_run("lru", 7); 2];
        runs[1].latency = None;
        let mut text = Vec::new();
        write(&mut text, &runs.iter().collect::<Vec<_>>()).unwrap();
        let text = String::from_utf8(text).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3);
        assert!(lines[0].starts_with("trace,policy,size,size_blocks,size_bytes,"));
        assert!(lines[1].starts_with("\"some, trace\",lru,7blk,7,28672,"));
        assert!(lines[2].ends_with(",,,"), "no latency is no number");
        for line in &lines[1..] {
            // The comma in the trace's name is quoted.
            assert_eq!(line.matches(',').count(), COLUMNS.len());
        }
    }

    #[test]
    fn a_cell_with_a_comma_stays_one_cell() {
        assert_eq!(
            quoted("s3fifo:small=0.1,ghosts=0.9"),
            "\"s3fifo:small=0.1,ghosts=0.9\""
        );
        assert_eq!(quoted("say \"hi\""), "\"say \"\"hi\"\"\"");
        assert_eq!(quoted("lru"), "lru");
    }
}
