//! libvirt's XML of a VM: read with the place of everything in it, changed so that the rest stays byte for byte as it
//! was, and compared line by line.
//!
//! ```text
//!   text ──► Document ──► elements, attributes, their places
//!                └──────► Edits ──► the changed text ──► diff, for people
//! ```

mod diff;
mod document;
mod edits;
mod escapes;

pub(crate) use diff::unified;
pub(crate) use document::{Document, Element};
pub(crate) use edits::Edits;
pub(crate) use escapes::escaped;

use crate::terminal::exit::{CliError, Exit};
use std::path::Path;

/// The text at a path, or of standard input where that is `-`.
pub(crate) fn text_at(path: &Path) -> Result<String, CliError> {
    let read = if path == Path::new("-") {
        std::io::read_to_string(std::io::stdin())
    } else {
        std::fs::read_to_string(path)
    };
    read.map_err(|error| CliError::new(Exit::Usage, format!("{}: {error}", path.display())))
}
