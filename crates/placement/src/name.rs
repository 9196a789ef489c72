//! Names of hosts, VMs, origins and groups.

use crate::limits::NAME_BYTES_MAX;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

/// The name of a host, a VM, an origin or a group: 1 to 253 bytes without control characters, slashes, or blanks at
/// its ends. Cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Name(Arc<str>);

/// Why a text is not a name.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum NameError {
    /// There is nothing.
    #[error("a name is empty: give it at least one letter")]
    Empty,
    /// It is too long.
    #[error("a name of {0} bytes is too long: at most {NAME_BYTES_MAX}")]
    TooLong(usize),
    /// A character that would break a key or a terminal.
    #[error(
        "the name {0:?} has a control character, a slash, or a blank at an end: leave these out"
    )]
    Character(String),
}

impl Name {
    /// The name that this text is.
    ///
    /// # Errors
    /// If the text is empty, too long, or has a control character, a slash, or a blank at an end.
    pub fn new(text: &str) -> Result<Self, NameError> {
        if text.is_empty() {
            return Err(NameError::Empty);
        }
        if text.len() > NAME_BYTES_MAX {
            return Err(NameError::TooLong(text.len()));
        }
        // A name is a part of a store's key, and is printed on terminals.
        if text.contains(|c: char| c.is_control() || c == '/') || text.trim() != text {
            return Err(NameError::Character(text.to_owned()));
        }
        Ok(Self(text.into()))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Name {
    type Error = NameError;
    fn try_from(text: String) -> Result<Self, NameError> {
        Self::new(&text)
    }
}

impl From<Name> for String {
    fn from(name: Name) -> Self {
        name.as_str().to_owned()
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_would_break_a_key_or_a_terminal_is_refused() {
        assert_eq!(Name::new(""), Err(NameError::Empty));
        assert_eq!(Name::new(&"a".repeat(254)), Err(NameError::TooLong(254)));
        for text in ["a/b", "a\nb", "\u{1b}[2J", " a", "a "] {
            let error = Name::new(text).unwrap_err();
            assert_eq!(error, NameError::Character(text.to_owned()));
        }
        assert_eq!(Name::new("web <1>").unwrap().as_str(), "web <1>");
    }
}
