//! The formats: one file each, one line each in [`ALL`].
//!
//! A format's file has its columns and units in its header, a `Line`, `Fixed` or `Decode` that turns bytes
//! into records, and an [`Entry`] that says how to recognise and open it; two where only a width or unit differs.

use std::fmt;
use std::str::FromStr;

use crate::input::Input;
use crate::open::{OpenError, Options};
use crate::recognise::{Guess, Sample};
use crate::records::Reader;

mod alibaba;
mod blkparse;
mod blkreplay;
mod blkreplay_csv;
mod blktrace;
mod csv;
mod disksim;
mod fio;
mod fiu;
mod generated;
mod lis;
mod mqsim;
mod msr;
mod oracle_general;
mod parquet;
mod raw;
mod recorded;
mod spc;
mod srt;
mod ssdsim;
mod systor;
mod tectonic;
mod tencent;
mod text;
mod vscsi;

/// A reader, or why the options do not suffice for one.
pub(crate) type OpenedReader = Result<Box<dyn Reader>, OpenError>;

/// What the registry knows of a format.
pub(crate) struct Entry {
    /// What it is called on the command line and in errors.
    pub(crate) name: &'static str,
    /// What it is, in a line.
    pub(crate) about: &'static str,
    /// Parts of file names that speak for it.
    pub(crate) hints: &'static [&'static str],
    /// How sure it is that a sample is its own.
    pub(crate) recognise: fn(&Sample<'_>) -> Option<Guess>,
    /// A reader of an input.
    pub(crate) open: fn(Input, &Options) -> OpenedReader,
}

/// New ones stand at the end: inputs of the fuzzer name formats by their place.
static ALL: [&Entry; 26] = [
    &recorded::ENTRY,
    &parquet::ENTRY,
    &msr::ENTRY,
    &spc::ENTRY,
    &vscsi::ENTRY,
    &alibaba::ENTRY,
    &tencent::ENTRY,
    &systor::ENTRY,
    &fiu::ENTRY,
    &tectonic::ENTRY,
    &blktrace::ENTRY,
    &blkparse::ENTRY,
    &fio::ENTRY,
    &blkreplay::ENTRY,
    &blkreplay_csv::ENTRY,
    &srt::ENTRY,
    &oracle_general::ENTRY,
    &csv::ENTRY,
    &lis::ENTRY,
    &text::ENTRY,
    &disksim::ENTRY,
    &disksim::SECONDS,
    &ssdsim::ENTRY,
    &mqsim::ENTRY,
    &raw::NARROW,
    &raw::WIDE,
];

/// A trace's format.
#[derive(Clone, Copy)]
pub struct Format(&'static Entry);

impl Format {
    /// No file's format: a generator's.
    pub(crate) fn generated() -> Self {
        Self(&generated::ENTRY)
    }

    /// Every format, in the order of the book's table.
    pub fn all() -> impl ExactSizeIterator<Item = Self> {
        ALL.iter().map(|entry| Self(entry))
    }

    /// What it is called on the command line and in errors.
    pub fn name(self) -> &'static str {
        self.0.name
    }

    /// What it is, in a line.
    pub fn about(self) -> &'static str {
        self.0.about
    }

    pub(crate) fn csv() -> Self {
        Self(&csv::ENTRY)
    }

    pub(crate) fn entry(self) -> &'static Entry {
        self.0
    }
}

impl PartialEq for Format {
    fn eq(&self, other: &Self) -> bool {
        self.0.name == other.0.name
    }
}

impl Eq for Format {}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name)
    }
}

impl fmt::Debug for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name)
    }
}

/// A name that no format has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{name}' is not a trace format; there are {}", names())]
pub struct UnknownFormat {
    name: String,
}

/// The formats' names, with commas.
pub(crate) fn names() -> String {
    Format::all()
        .map(Format::name)
        .collect::<Vec<_>>()
        .join(", ")
}

impl FromStr for Format {
    type Err = UnknownFormat;

    /// By name, whatever its case; `oracleGeneral` and `oracle_general` are `oracle-general`.
    fn from_str(text: &str) -> Result<Self, UnknownFormat> {
        let plain = |name: &str| -> String {
            name.chars()
                .filter(char::is_ascii_alphanumeric)
                .map(|letter| letter.to_ascii_lowercase())
                .collect()
        };
        let wanted = plain(text);
        Self::all()
            .find(|format| plain(format.name()) == wanted)
            .ok_or_else(|| UnknownFormat {
                name: text.to_owned(),
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_parse_what_they_print() {
        for format in Format::all() {
            assert_eq!(format.name().parse(), Ok(format));
            assert_eq!(format.name().to_uppercase().parse(), Ok(format));
        }
        let unknown = "nonsense".parse::<Format>().unwrap_err().to_string();
        assert!(unknown.contains("msr"), "{unknown}");
    }
}
