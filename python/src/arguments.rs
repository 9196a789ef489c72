//! Arguments of Python calls as the crates below take them.

use crate::error::{open, value};
use crate::guard::Fault;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::error::Error;
use std::path::Path;
use std::str::FromStr;
use trace::{Format, Opened, Options, Reader};
use units::Bytes;

/// Text as a value of any type that parses.
pub(crate) fn parse<T: FromStr<Err: Error>>(text: &str) -> PyResult<T> {
    text.parse().map_err(|error: T::Err| value(&error))
}

/// The size of a block.
pub(crate) fn block(text: &str) -> PyResult<Bytes> {
    let block: Bytes = parse(text)?;
    let range = Bytes::new(units::SECTOR_BYTES)..=trace::limits::REQUEST_BYTES_MAX;
    if block.get().is_power_of_two() && range.contains(&block) {
        return Ok(block);
    }
    Err(PyValueError::new_err(format!(
        "block={text:?}: a block is a power of two from {} to {}",
        range.start(),
        range.end()
    )))
}

/// How traces are opened.
pub(crate) fn options(
    format: Option<&str>,
    columns: Option<&str>,
    block: Bytes,
) -> PyResult<Options> {
    Ok(Options {
        format: format.map(parse::<Format>).transpose()?,
        csv: columns.map(parse).transpose()?,
        key: block,
        ..Options::default()
    })
}

/// A trace that can be opened as often as it must be read, and what the first opening found.
pub(crate) struct Source<'a> {
    pub(crate) path: &'a Path,
    pub(crate) options: &'a Options,
    pub(crate) fault: &'a Fault,
}

impl Source<'_> {
    pub(crate) fn opened(&self) -> Result<Opened, trace::OpenError> {
        trace::open(self.path, self.options)
    }

    /// # Errors
    /// If it cannot be opened.
    pub(crate) fn reader(&self) -> PyResult<(Box<dyn Reader>, Format)> {
        let opened = self.opened().map_err(|error| open(&error))?;
        Ok((self.fault.around(opened.reader), opened.format))
    }
}

/// Whether what lies there can be read from its beginning again: a file or a generator, not a pipe.
pub(crate) fn can_be_read_again(path: &Path) -> bool {
    path != Path::new("-") && std::fs::metadata(path).map_or(true, |facts| facts.is_file())
}

/// # Errors
/// If the trace comes through a pipe.
pub(crate) fn must_be_read_again(path: &Path, why: &str) -> PyResult<()> {
    if can_be_read_again(path) {
        return Ok(());
    }
    Err(PyValueError::new_err(format!(
        "{} can be read only once, but {why} needs it twice; save it as a file",
        path.display()
    )))
}
