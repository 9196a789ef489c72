//! Writing traces: Hearth's csv, Parquet, oracleGeneral.
//!
//! ```text
//!  Reader ─► records ─┬─► csv             requests as they are; what the daemon records, too
//!                     ├─► parquet         the same with response times and content hashes
//!                     └─► splitter ─► oracleGeneral   an access of a block each, next access known
//!  all of them into a temporary file beside the target, which takes its name when it is whole
//! ```

mod csv;
mod oracle_general;
mod output;
mod parquet;

pub use csv::{CSV_HEADER, CsvWriter};
pub use output::Output;

use crate::error::ReadError;
use crate::records::{Reader, Records};
use crate::splitter::SplitError;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use units::Bytes;

/// What a trace can be written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Hearth's csv.
    Csv,
    /// Apache Parquet.
    Parquet,
    /// libCacheSim's oracleGeneral.
    OracleGeneral,
}

impl Target {
    /// Every target.
    pub const ALL: [Self; 3] = [Self::Csv, Self::Parquet, Self::OracleGeneral];

    /// What it is called on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::Parquet => "parquet",
            Self::OracleGeneral => "oraclegeneral",
        }
    }

    /// The target that a file's name speaks for.
    pub fn of_name(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_string_lossy().to_lowercase();
        let bare = name.strip_suffix(".zst").unwrap_or(&name);
        let ending = |word: &str| bare.ends_with(word);
        if ending(".csv") {
            Some(Self::Csv)
        } else if ending(".parquet") {
            Some(Self::Parquet)
        } else if ending(".bin") || bare.replace('_', "").contains("oraclegeneral") {
            Some(Self::OracleGeneral)
        } else {
            None
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wanted = text.to_lowercase().replace(['-', '_'], "");
        let found = Self::ALL.into_iter().find(|target| target.name() == wanted);
        found.ok_or_else(|| format!("'{text}' is no target: csv, parquet or oraclegeneral"))
    }
}

/// How to write.
#[derive(Clone, Debug)]
pub struct Conversion<'a> {
    /// Where to.
    pub path: &'a Path,
    /// As what.
    pub target: Target,
    /// Replace a file that is there.
    pub force: bool,
    /// Size of the blocks of targets that know nothing else.
    pub block: Bytes,
    /// What is written beside the records, as far as the target has a place for it.
    pub facts: &'a [(&'static str, String)],
}

/// What was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Records that were read.
    pub read: u64,
    /// Rows that were written: requests, or accesses of blocks.
    pub rows: u64,
    /// Records that the target has no place for: flushes, discards.
    pub left_out: u64,
    /// Size of the file.
    pub bytes: u64,
}

/// Why a trace was not written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// There is a file already: choose another name, or replace it.
    #[error("{} exists already", .0.display())]
    Exists(PathBuf),
    /// The source fails: mend it.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The source cannot be split into blocks.
    #[error(transparent)]
    Split(#[from] SplitError),
    /// The target cannot hold the trace: choose another.
    #[error("record {record}: {why}; csv and parquet hold any trace")]
    Unfit {
        /// The record, from 1.
        record: u64,
        /// Why.
        why: &'static str,
    },
    /// The file cannot be written.
    #[error("cannot write {}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// Writes a whole trace. `progress` is told how many records were read, now and then.
///
/// # Errors
/// See [`WriteError`]. The file is then as it was before: it takes its name only when it is whole.
pub fn convert(
    reader: &mut dyn Reader,
    conversion: &Conversion<'_>,
    progress: &mut dyn FnMut(u64),
) -> Result<Written, WriteError> {
    let output = Output::create(conversion.path, conversion.force)?;
    let source = Source { reader, progress };
    match conversion.target {
        Target::Csv => csv::convert(source, output, conversion),
        Target::Parquet => parquet::convert(source, output, conversion),
        Target::OracleGeneral => oracle_general::convert(source, output, conversion),
    }
}

/// Whether a file's name asks for zstd.
fn is_packed(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "zst")
}

/// A reader that tells how far it has come.
struct Source<'a> {
    reader: &'a mut dyn Reader,
    progress: &'a mut dyn FnMut(u64),
}

impl Source<'_> {
    /// Hands out all records, batch by batch.
    fn each(
        self,
        mut take: impl FnMut(&Records, &dyn Reader) -> Result<(), WriteError>,
    ) -> Result<u64, WriteError> {
        let (mut batch, mut read) = (Records::new(), 0);
        while self.reader.read_batch(&mut batch)? {
            take(&batch, self.reader)?;
            read += batch.len() as u64;
            (self.progress)(read);
        }
        Ok(read)
    }
}
