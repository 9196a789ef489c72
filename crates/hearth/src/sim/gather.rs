//! `hearth sim gather`: what gathering writes in memory saves.

use crate::terminal::exit::{CliError, Exit};
use crate::terminal::{Progress, Side, Table, quantity, to_json};
use crate::traces::args::Reading;
use crate::traces::ruins;
use clap::{Args, ValueHint};
use serde::Serialize;
use simulator::gather::{Gathered, Gathering, gather};
use std::fmt::Write as _;
use std::path::PathBuf;
use units::{Bytes, Duration};

/// Arguments of `sim gather`.
#[derive(Debug, Args)]
pub struct Gather {
    /// The traces, packed or not
    #[arg(value_name = "TRACE", required = true, value_hint = ValueHint::FilePath)]
    pub traces: Vec<PathBuf>,
    /// The sizes of a chunk, separated by commas
    #[arg(
        long,
        value_name = "SIZE,...",
        value_delimiter = ',',
        default_value = "64KiB,256KiB,1MiB,4MiB"
    )]
    pub chunk: Vec<Bytes>,
    /// How long a chunk's first write waits at most, separated by commas
    #[arg(
        long,
        value_name = "TIME,...",
        value_delimiter = ',',
        default_value = "1s,5s,30s"
    )]
    pub wait: Vec<Duration>,
    /// How the traces are read.
    #[command(flatten, next_help_heading = "Reading traces")]
    pub reading: Reading,
}

/// A row of the answer.
#[derive(Serialize)]
struct Row {
    trace: String,
    chunk_bytes: u64,
    wait_seconds: f64,
    flushes: &'static str,
    written_blocks: u64,
    absorbed_blocks: u64,
    chunks: u64,
    partial_chunks: u64,
}

impl Row {
    fn of(trace: &str, (way, found): (Gathering, Gathered)) -> Self {
        Self {
            trace: trace.to_owned(),
            chunk_bytes: way.chunk.get(),
            wait_seconds: way.interval.to_std().as_secs_f64(),
            flushes: if way.honours_flushes {
                "honoured"
            } else {
                "ignored"
            },
            written_blocks: found.written,
            absorbed_blocks: found.absorbed,
            chunks: found.chunks,
            partial_chunks: found.partial,
        }
    }

    fn cells(&self) -> Vec<String> {
        vec![
            quantity::bytes(self.chunk_bytes),
            quantity::time(self.wait_seconds),
            self.flushes.to_owned(),
            self.written_blocks.to_string(),
            self.absorbed_blocks.to_string(),
            quantity::percent(self.absorbed_blocks, self.written_blocks),
            self.chunks.to_string(),
            quantity::percent(self.partial_chunks, self.chunks),
        ]
    }
}

const COLUMNS: [(&str, Side); 8] = [
    ("chunk", Side::Right),
    ("wait", Side::Right),
    ("flushes", Side::Left),
    ("written", Side::Right),
    ("absorbed", Side::Right),
    ("part", Side::Right),
    ("chunks", Side::Right),
    ("not full", Side::Right),
];

/// Counts what was asked for and returns what to print.
pub(super) fn run(asked: &Gather, json: bool) -> Result<Vec<u8>, CliError> {
    let ways = ways(asked);
    let mut all = Vec::new();
    let mut text = String::new();
    let mut progress = Progress::new("gathering");
    for path in &asked.traces {
        let name = path.display().to_string();
        let opened = trace::open(path, &asked.reading.options());
        let opened = opened.map_err(|error| CliError::of(Exit::Usage, &error))?;
        let (mut reader, watch) = asked.reading.watch(opened.reader, opened.format);
        let found = gather(&mut *reader, asked.reading.block, &ways);
        let found = found.map_err(|error| super::explain(&error, &name))?;
        drop(reader);
        ruins::tell(&name, &watch.ruins());
        let rows: Vec<Row> = found.into_iter().map(|one| Row::of(&name, one)).collect();
        let mut table = Table::new(&COLUMNS);
        for row in &rows {
            table.row(row.cells());
        }
        // Writing to a string does not fail.
        let _ = writeln!(text, "{name}\n\n{table}");
        all.extend(rows);
        progress.count(all.len() as u64);
    }
    drop(progress);
    if json {
        return to_json(&all);
    }
    Ok(text.into_bytes())
}

/// Each chunk with each wait, flushes honoured and ignored.
fn ways(asked: &Gather) -> Vec<Gathering> {
    let mut ways = Vec::new();
    for honours_flushes in [true, false] {
        for &chunk in &asked.chunk {
            for &interval in &asked.wait {
                ways.push(Gathering {
                    chunk,
                    interval,
                    honours_flushes,
                });
            }
        }
    }
    ways
}
