//! Reads traces and splits them, in CPU seconds: `cargo run --release -p trace --example read -- FILE...`.

#![allow(
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a measurement on the terminal"
)]

use std::path::Path;

use trace::{Batch, Options, Records, Splitter, open};
use units::Bytes;

fn main() {
    for path in std::env::args().skip(1) {
        let mut best = [f64::MAX; 2];
        let mut line = String::new();
        for _ in 0..7 {
            match measure(Path::new(&path)) {
                Ok((reading, splitting, text)) => {
                    best = [best[0].min(reading), best[1].min(splitting)];
                    line = text;
                }
                Err(error) => line = error,
            }
        }
        println!(
            "{path}: {line}; best of 7: read {:.1} ms, read and split {:.1} ms of CPU",
            best[0] * 1e3,
            best[1] * 1e3
        );
    }
}

/// CPU seconds of reading alone, and of reading and splitting; and what was read.
fn measure(path: &Path) -> Result<(f64, f64, String), String> {
    let start = cpu_seconds();
    let mut opened = open(path, &Options::default()).map_err(|error| error.to_string())?;
    let mut records = Records::new();
    let mut requests = 0;
    while opened
        .reader
        .read_batch(&mut records)
        .map_err(|error| error.to_string())?
    {
        requests += records.len();
    }
    let read = cpu_seconds();
    let mut opened = open(path, &Options::default()).map_err(|error| error.to_string())?;
    let mut splitter = Splitter::new(Bytes::kib(4));
    let mut batch = Batch::default();
    let mut accesses = 0;
    while opened
        .reader
        .read_batch(&mut records)
        .map_err(|error| error.to_string())?
    {
        splitter
            .split(&records, &mut batch)
            .map_err(|error| error.to_string())?;
        accesses += batch.keys.len();
    }
    let split = cpu_seconds();
    let text = format!(
        "{} ({}, {}), {requests} requests of {} volumes, {accesses} accesses of {} blocks, {:.1} bytes a block",
        opened.format,
        opened.recognised_by.unwrap_or_default(),
        opened.packing.name(),
        opened.reader.volumes().len(),
        splitter.distinct(),
        splitter.heap_bytes() as f64 / f64::from(splitter.distinct().max(1)),
    );
    Ok((read - start, split - read, text))
}

fn cpu_seconds() -> f64 {
    let usage = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    usage.tv_sec as f64 + usage.tv_nsec as f64 / 1e9
}
