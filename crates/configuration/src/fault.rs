//! What is wrong with a configuration.

use std::path::Path;

/// One thing that is wrong with a configuration, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The key it is about, such as `disk[2].origin.nbd`; empty for the whole file.
    pub key: String,
    /// Its line in the text of all sources, from 1, where known.
    pub line: Option<usize>,
    /// What is wrong and what to write instead.
    pub message: String,
}

impl Fault {
    /// A fault of this key.
    pub fn new(key: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            key: key.into(),
            line: None,
            message: message.into(),
        }
    }
}

/// A path that is to be absolute.
pub(super) fn absolute(path: &Path, key: &str, faults: &mut Vec<Fault>) {
    if !path.is_absolute() {
        faults.push(Fault::new(
            key,
            format!("'{}' is not an absolute path", path.display()),
        ));
    }
}
