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
