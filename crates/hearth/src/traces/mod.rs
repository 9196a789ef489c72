//! `hearth trace`: arguments into the crate `trace`, or to the daemon, and what came of it to the user.

mod anonymize;
pub mod args;
mod info;
mod record;
pub(crate) mod ruins;
mod write;

pub(super) use record::{record, render as render_recording};

use crate::terminal::exit::{CliError, Exit, chain};
use crate::terminal::{Side, Table};
use args::Trace;
use serde::Serialize;
use std::fs::File;
use std::path::Path;
use trace::write::{Target, WriteError};
use trace::{Format, OpenError};

/// Does what needs no daemon; `None` for what does.
pub(super) fn offline(command: &Trace, json: bool) -> Option<Result<Vec<u8>, CliError>> {
    Some(match command {
        Trace::Info(info) => info::info(info, json),
        Trace::Anonymize(asked) => anonymize::anonymize(asked, json),
        Trace::Convert(convert) => write::convert(convert, json),
        Trace::Generate(generate) => write::generate(generate, json),
        Trace::Formats => formats(json),
        Trace::Record(_) => return None,
    })
}

/// A format of `hearth trace formats`.
#[derive(Serialize)]
struct FormatRow {
    name: &'static str,
    about: &'static str,
    is_written: bool,
}

fn formats(json: bool) -> Result<Vec<u8>, CliError> {
    let is_written = |format: Format| {
        let targets = [Target::Csv, Target::Parquet, Target::OracleGeneral];
        let names = ["hearth", "parquet", "oracle-general"];
        debug_assert_eq!(targets, Target::ALL);
        names.contains(&format.name())
    };
    let rows: Vec<FormatRow> = Format::all()
        .map(|format| FormatRow {
            name: format.name(),
            about: format.about(),
            is_written: is_written(format),
        })
        .collect();
    if json {
        return crate::terminal::to_json(&rows);
    }
    let mut table = Table::new(&[
        ("format", Side::Left),
        ("written", Side::Left),
        ("what it is", Side::Left),
    ]);
    for row in rows {
        let written = if row.is_written { "yes" } else { "" };
        table.row(vec![row.name.into(), written.into(), row.about.into()]);
    }
    Ok(table.to_string().into_bytes())
}

pub(crate) fn unopened(error: &OpenError) -> CliError {
    let cli = |exit| CliError::new(exit, chain(error));
    match error {
        OpenError::Read(_) | OpenError::Empty { .. } => cli(Exit::Failed),
        OpenError::Unknown { .. } | OpenError::Ambiguous { .. } => {
            cli(Exit::Usage).with_remedy("hearth trace formats")
        }
        _ => cli(Exit::Usage),
    }
}

fn unwritten(error: &WriteError) -> CliError {
    let cli = |exit| CliError::new(exit, chain(error));
    match error {
        WriteError::Exists(_) => {
            cli(Exit::Refused).with_remedy("another name, or --force, which loses it")
        }
        WriteError::Unfit { .. } => cli(Exit::Usage),
        WriteError::Read(_) | WriteError::Split(_) | WriteError::Io { .. } => cli(Exit::Failed),
    }
}

/// What is not there is for the reader to say.
pub(crate) fn is_regular(path: &Path) -> bool {
    File::open(path)
        .and_then(|file| file.metadata())
        .map_or(path != Path::new("-"), |facts| facts.is_file())
}

/// The error of a trace that comes through a pipe where it is needed more than once. `instead` is another way than a
/// file, if there is one.
pub(crate) fn needs_a_file(path: &Path, needs: &str, instead: Option<&str>) -> CliError {
    let message = format!("{} can be read only once, but {needs}", path.display());
    let other = instead.map_or(String::new(), |instead| format!(", or {instead}"));
    CliError::new(Exit::Usage, message).with_remedy(format!("save it as a file{other}"))
}
