//! Where a value is.

use std::fmt;
use thiserror::Error;

/// Bytes of a key at most.
const KEY_BYTES_MAX: usize = 512;

/// Parts between slashes, below the prefix of the cluster: `hosts/node-a.example`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(String);

/// Why a text is no key.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "{0:?} is no key: parts of letters, digits, dots, hyphens and underscores stand between single slashes, \
     {KEY_BYTES_MAX} bytes together at most"
)]
pub struct InvalidKey(String);

impl Key {
    /// The key with this text.
    ///
    /// # Errors
    /// [`InvalidKey`].
    pub fn new(text: &str) -> Result<Self, InvalidKey> {
        let is_part = |part: &str| {
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
            !part.is_empty() && part.bytes().all(is_plain)
        };
        if text.len() > KEY_BYTES_MAX || !text.split('/').all(is_part) {
            return Err(InvalidKey(text.chars().take(KEY_BYTES_MAX).collect()));
        }
        Ok(Self(text.to_owned()))
    }

    /// Its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What is behind a prefix.
    pub fn below(&self, prefix: &Prefix) -> Option<&str> {
        self.0.strip_prefix(&prefix.0)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The beginning of keys: whole parts, each with its slash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prefix(String);

impl Prefix {
    /// All keys.
    pub const ALL: Self = Self(String::new());

    /// The keys below this one.
    pub fn below(key: &Key) -> Self {
        Self(format!("{key}/"))
    }

    /// Its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The key with this rest.
    ///
    /// # Errors
    /// [`InvalidKey`].
    pub fn key(&self, rest: &str) -> Result<Key, InvalidKey> {
        Key::new(&format!("{}{rest}", self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_plain_parts() {
        for right in ["a", "hosts/node-a.example", "disks/00ff/owner", "a/B_2.c-d"] {
            assert_eq!(Key::new(right).unwrap().as_str(), right);
        }
        let long = "a".repeat(KEY_BYTES_MAX + 1);
        for wrong in ["", "/a", "a/", "a//b", "a b", "a\0", "ä", &long] {
            assert!(Key::new(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_prefix_ends_at_a_slash() {
        let hosts = Prefix::below(&Key::new("hosts").unwrap());
        let key = hosts.key("node-a").unwrap();
        assert_eq!(key.as_str(), "hosts/node-a");
        assert_eq!(key.below(&hosts), Some("node-a"));
        assert_eq!(Key::new("hosts2/x").unwrap().below(&hosts), None);
        assert!(hosts.key("").is_err());
    }
}
