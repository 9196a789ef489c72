//! What can be wrong with a trace while it is read, split by what the caller does next.

use std::fmt;
use std::io;

use crate::open::OpenError;

/// Where in a trace: the line of a text, the byte of anything else. Both count what is unpacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// The line, from 1.
    Line(u64),
    /// The byte, from 0.
    Byte(u64),
    /// The row of a table.
    Row {
        /// The row in the whole table, from 1.
        row: u64,
        /// Its row group, from 1.
        group: u64,
    },
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(line) => write!(f, "line {line}"),
            Self::Byte(byte) => write!(f, "byte {byte}"),
            Self::Row { row, group } => write!(f, "row {row} (row group {group})"),
        }
    }
}

/// Why a trace cannot be read on.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The system does not give the file, or it ends too early: try again, or get a whole copy.
    #[error("{file}: cannot be read{}; {remedy}", after(*.unpacked_bytes))]
    Input {
        /// The trace's file.
        file: String,
        /// How many unpacked bytes came before.
        unpacked_bytes: u64,
        /// What to do about it.
        remedy: &'static str,
        /// What the system or the unpacker said.
        source: io::Error,
    },
    /// A checksum or the structure of the file or of its packing is broken: get a whole copy.
    #[error("{file}: the {what} is damaged or cut short{}; get a whole copy", near(*.position))]
    Damaged {
        /// The trace's file.
        file: String,
        /// What is damaged: `file`, `zstd archive`, `Parquet file`.
        what: &'static str,
        /// Where it is, as far as that is known: before a byte of the archive as it is packed, or in a row of
        /// a table or behind it.
        position: Option<Position>,
        /// What does not fit.
        source: io::Error,
    },
    /// The trace ends in the middle of a record: get a whole copy.
    #[error(
        "{file}: the trace ends within the record that begins at {position} ({found}, {expected}); \
         get a whole copy of the file, or cut the incomplete record off"
    )]
    Truncated {
        /// The trace's file.
        file: String,
        /// Where the record begins that is not whole.
        position: Position,
        /// What is left of it.
        found: String,
        /// What a record needs.
        expected: String,
    },
    /// A record is not what the format says: choose another format, or mend the line.
    #[error(transparent)]
    Malformed(Box<Malformed>),
    /// A later one of several files cannot be opened.
    #[error(transparent)]
    Part(Box<OpenError>),
}

/// A field that is not what its format has there.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}: {position}: {column} is {found}, but {format} has {expected} there; {remedy}")]
pub struct Malformed {
    /// The trace's file.
    pub file: String,
    /// Where the record begins.
    pub position: Position,
    /// The format that is being read.
    pub format: &'static str,
    /// The column or field.
    pub column: &'static str,
    /// What stands there, shortened.
    pub found: String,
    /// What should.
    pub expected: &'static str,
    /// What to do about it.
    pub remedy: &'static str,
}

/// Says where damage is, as far as that is known.
fn near(position: Option<Position>) -> String {
    match position {
        None => String::new(),
        Some(Position::Byte(count)) => format!(" within its first {count} bytes"),
        Some(position) => format!(" near its {position}"),
    }
}

/// Says how far reading came, if it came anywhere.
fn after(unpacked_bytes: u64) -> String {
    match unpacked_bytes {
        0 => String::new(),
        bytes => format!(" after {bytes} unpacked bytes"),
    }
}
