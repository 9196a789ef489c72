//! `hearth trace convert` and `hearth trace generate`.

use super::args::{Convert, Generate, Writing};
use super::{unopened, unwritten};
use crate::terminal::exit::{CliError, Exit};
use crate::terminal::progress::Progress;
use crate::terminal::quantity;
use serde::Serialize;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use trace::generate::PREFIX;
use trace::write::{Conversion, Target, Written};
use trace::{Opened, Options, Reader};
use units::Bytes;
use xxhash_rust::xxh3::Xxh3;

/// What was written, for `--json`.
#[derive(Serialize)]
pub(super) struct Report {
    trace: String,
    format: &'static str,
    output: String,
    to: &'static str,
    records: u64,
    rows: u64,
    left_out_records: u64,
    size_bytes: u64,
}

pub(super) fn convert(convert: &Convert, json: bool) -> Result<Vec<u8>, CliError> {
    let options = convert.reading.options();
    write(
        &convert.trace,
        &options,
        &convert.writing,
        convert.reading.block,
        json,
    )
}

pub(super) fn generate(generate: &Generate, json: bool) -> Result<Vec<u8>, CliError> {
    let kind = &generate.kind;
    let text = kind.strip_prefix(PREFIX).unwrap_or(kind);
    let trace = PathBuf::from(format!("{PREFIX}{text}"));
    let block = Bytes::new(units::BLOCK_BYTES);
    write(&trace, &Options::default(), &generate.writing, block, json)
}

fn write(
    trace: &Path,
    options: &Options,
    writing: &Writing,
    block: Bytes,
    json: bool,
) -> Result<Vec<u8>, CliError> {
    let target = target(writing)?;
    let Opened {
        mut reader, format, ..
    } = trace::open(trace, options).map_err(|error| unopened(&error))?;
    let facts = facts(trace, format.name())?;
    let conversion = Conversion {
        path: &writing.output,
        target,
        force: writing.force,
        block,
        facts: &facts,
    };
    let written = written(&mut *reader, &conversion)?;
    let report = Report::new(trace, format.name(), &conversion, &written);
    if json {
        return crate::terminal::to_json(&report);
    }
    Ok(report.told(target, &written).into_bytes())
}

/// Writes a trace and shows how far it has come.
pub(super) fn written(
    reader: &mut dyn Reader,
    conversion: &Conversion<'_>,
) -> Result<Written, CliError> {
    let mut progress = Progress::new("writing");
    let written = trace::write::convert(reader, conversion, &mut |records| {
        progress.count_of(records, "requests");
    });
    drop(progress);
    written.map_err(|error| unwritten(&error))
}

pub(super) fn target(writing: &Writing) -> Result<Target, CliError> {
    let target = writing.to.or_else(|| Target::of_name(&writing.output));
    target.ok_or_else(|| {
        CliError::new(
            Exit::Usage,
            format!("{}: the name tells no format", writing.output.display()),
        )
        .with_remedy("--to csv, --to parquet or --to oraclegeneral")
    })
}

impl Report {
    /// What was written of a trace of this format.
    pub(super) fn new(
        trace: &Path,
        format: &'static str,
        conversion: &Conversion<'_>,
        written: &Written,
    ) -> Self {
        Self {
            trace: trace.display().to_string(),
            format,
            output: conversion.path.display().to_string(),
            to: conversion.target.name(),
            records: written.read,
            rows: written.rows,
            left_out_records: written.left_out,
            size_bytes: written.bytes,
        }
    }

    /// The same in words.
    pub(super) fn told(&self, target: Target, written: &Written) -> String {
        let without_operation = target == Target::OracleGeneral;
        let rows = if without_operation {
            "accesses"
        } else {
            "requests"
        };
        let mut lines = vec![format!(
            "{}: {} {rows} ({}) of {} records ({})",
            self.output,
            written.rows,
            quantity::bytes(written.bytes),
            written.read,
            self.format
        )];
        if without_operation {
            lines.push("the format has no operation: reads and writes look alike".to_owned());
        }
        if written.left_out > 0 {
            let count = written.left_out;
            lines.push(format!(
                "{count} flushes, discards and write-zeroes are left out"
            ));
        }
        lines.join("\n") + "\n"
    }
}

/// What is said beside the records.
fn facts(trace: &Path, format: &str) -> Result<Vec<(&'static str, String)>, CliError> {
    let mut facts = vec![
        (
            "written_by",
            format!("hearth {}", env!("CARGO_PKG_VERSION")),
        ),
        ("source", trace.display().to_string()),
        ("source_format", format.to_owned()),
    ];
    // A pipe or a generator cannot be read twice; the generator's text says all anyway.
    let file = File::open(trace).ok();
    let regular = file.filter(|file| file.metadata().is_ok_and(|facts| facts.is_file()));
    if let Some(file) = regular {
        let sum = checksum(file).map_err(|error| {
            CliError::new(
                Exit::Failed,
                format!("cannot read {}: {error}", trace.display()),
            )
        })?;
        facts.push(("source_xxh3_128", sum));
    }
    Ok(facts)
}

fn checksum(mut file: File) -> io::Result<String> {
    let (mut hash, mut buffer) = (Xxh3::new(), vec![0; 1 << 20]);
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            return Ok(format!("{:032x}", hash.digest128()));
        }
        hash.update(&buffer[..read]);
    }
}
