//! Words that a configuration value or an API field may take.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use utoipa::ToSchema;

/// What a write does to the cache.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema, clap::ValueEnum,
)]
#[serde(rename_all = "lowercase")]
pub enum WritePolicy {
    /// Writes go to the origin and drop the block from the cache.
    Around,
    /// Writes go to the origin, and the flash copy of a cached block is replaced.
    #[default]
    Through,
    /// Writes wait on flash and go to the origin later.
    Back,
}

impl fmt::Display for WritePolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Around => "around",
            Self::Through => "through",
            Self::Back => "back",
        })
    }
}

impl From<WritePolicy> for cache::WritePolicy {
    fn from(policy: WritePolicy) -> Self {
        match policy {
            WritePolicy::Around => Self::Around,
            WritePolicy::Through => Self::Through,
            WritePolicy::Back => Self::Back,
        }
    }
}

impl From<cache::WritePolicy> for WritePolicy {
    fn from(policy: cache::WritePolicy) -> Self {
        match policy {
            cache::WritePolicy::Around => Self::Around,
            cache::WritePolicy::Through => Self::Through,
            cache::WritePolicy::Back => Self::Back,
        }
    }
}

/// What a file or device that is an origin holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum OriginFormat {
    /// The disk's bytes, unless it begins like an image of another format: then it is refused.
    #[default]
    Auto,
    /// The disk's bytes, whatever they look like.
    Raw,
}

/// In which order writes that went to flash first reach the origin.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema, clap::ValueEnum,
)]
#[serde(rename_all = "lowercase")]
pub enum DestageOrder {
    /// What came before a flush of the guest before anything that came after it: the origin is at
    /// all times a disk that the guest could have left behind.
    #[default]
    Ordered,
    /// Largest runs first: faster, and the origin alone is no disk until everything is there.
    Unordered,
}

impl fmt::Display for DestageOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Ordered => "ordered",
            Self::Unordered => "unordered",
        })
    }
}

impl From<DestageOrder> for cache::DestageOrder {
    fn from(order: DestageOrder) -> Self {
        match order {
            DestageOrder::Ordered => Self::Ordered,
            DestageOrder::Unordered => Self::Unordered,
        }
    }
}

impl From<cache::DestageOrder> for DestageOrder {
    fn from(order: cache::DestageOrder) -> Self {
        match order {
            cache::DestageOrder::Ordered => Self::Ordered,
            cache::DestageOrder::Unordered => Self::Unordered,
        }
    }
}

/// Which segment reclaim empties, and what of it is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ReclaimPolicy {
    /// Warm segments stay where they are; of others the hottest few blocks are kept.
    #[default]
    TwinClock,
    /// The oldest; the blocks that were read since they were written are kept.
    Clock,
    /// The oldest; nothing is kept.
    Fifo,
}

/// Whether NBD clients may or must encrypt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TlsMode {
    /// Encryption is not offered.
    #[default]
    Off,
    /// Encryption is offered; plain clients are served too.
    Allow,
    /// Plain clients are refused.
    Require,
}

/// How log lines are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// A line to read.
    #[default]
    Text,
    /// A JSON object to a line.
    Json,
}

/// Where log lines go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogTarget {
    /// The journal if standard error is connected to it, else standard error.
    #[default]
    Auto,
    /// Standard error.
    Stderr,
    /// The systemd journal, with fields.
    Journald,
}

/// The name of a disk, a VM or a cache: 1 to 63 of `A-Z a-z 0-9 . _ -`, not beginning with
/// a dot or a dash.
///
/// Narrow on purpose: a name is an NBD export name, a part of a URL, a label of metrics and a
/// shell word, and the flash keeps 63 bytes of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(try_from = "String", into = "String")]
#[schema(value_type = String, example = "web-1")]
pub struct Name(String);

/// Bytes in the longest name.
pub const NAME_BYTES_MAX: usize = 63;

impl Name {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Why a text is no name.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "'{0}' is not a name: use 1 to 63 letters, digits, dots, dashes and underscores, beginning with a letter, a digit or an underscore"
)]
pub struct ParseNameError(String);

impl FromStr for Name {
    type Err = ParseNameError;

    fn from_str(text: &str) -> Result<Self, ParseNameError> {
        let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
        let first = text.bytes().next().is_some_and(plain);
        let rest = text.bytes().all(|b| plain(b) || b == b'.' || b == b'-');
        if !first || !rest || text.len() > NAME_BYTES_MAX {
            return Err(ParseNameError(text.chars().take(80).collect()));
        }
        Ok(Self(text.to_owned()))
    }
}

impl TryFrom<String> for Name {
    type Error = ParseNameError;
    fn try_from(text: String) -> Result<Self, ParseNameError> {
        text.parse()
    }
}

impl From<Name> for String {
    fn from(name: Name) -> Self {
        name.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_words_of_a_url_and_a_shell() {
        for text in ["a", "web-1.root", "_x", "0", &"n".repeat(63)] {
            assert_eq!(text.parse::<Name>().unwrap().as_str(), text);
        }
        for text in ["", ".a", "-a", "a/b", "a b", "ä", "a\0", &"n".repeat(64)] {
            assert!(text.parse::<Name>().is_err(), "{text}");
        }
    }
}
