//! `[disk.limits]`: what the guests of a disk may ask in a second.

use super::change::change;
use super::text::Text;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;
use units::{Bytes, Duration};
use utoipa::ToSchema;

/// The word for no limit.
const NONE: &str = "none";

/// What a disk that was idle may ask at once unless configured otherwise: what QEMU allows beside a limit without a
/// burst of its own.
const BURST_DEFAULT: Duration = Duration::from_millis(100);

/// The longest burst: with more, nobody would see that there is a limit.
pub(crate) const BURST_MAX: Duration = Duration::from_secs(3600);

/// `[disk.limits]`: what the guests of a disk may ask in a second, reads and writes together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LimitsConfig {
    /// Requests a second, or `none`.
    #[schema(value_type = String, example = "500")]
    pub iops: Text<Iops>,
    /// Bytes a second, or `none`.
    #[schema(value_type = String, example = "50MiB")]
    pub bytes_per_second: Text<BytesPerSecond>,
    /// How long a disk that was idle may exceed the limits, as time at its limits.
    #[schema(value_type = String, example = "100ms")]
    pub burst: Text<Duration>,
}

impl Default for LimitsConfig {
    fn default() -> Self {
        Self {
            iops: Text(Iops(None)),
            bytes_per_second: Text(BytesPerSecond(None)),
            burst: Text(BURST_DEFAULT),
        }
    }
}

impl LimitsConfig {
    /// The shard's word for them.
    pub fn settings(&self) -> throttle::Limits {
        throttle::Limits {
            operations: self.iops.0.0,
            bytes: self.bytes_per_second.0.0,
            burst: self.burst.0,
        }
    }
}

change! {
    /// What to change of a disk's limits; what is not given stays as it is.
    LimitsChange of LimitsConfig {
        /// Requests a second, or `none`.
        #[schema(value_type = Option<String>, example = "500")]
        iops: Text<Iops>,
        /// Bytes a second, or `none`.
        #[schema(value_type = Option<String>, example = "50MiB")]
        bytes_per_second: Text<BytesPerSecond>,
        /// How long a disk that was idle may exceed the limits, as time at its limits.
        #[schema(value_type = Option<String>, example = "2s")]
        burst: Text<Duration>,
    }
}

/// Requests a second, written `500`; or none, which is no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Iops(pub Option<NonZeroU64>);

impl fmt::Display for Iops {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(count) => count.fmt(f),
            None => f.write_str(NONE),
        }
    }
}

/// Bytes a second, written `50MiB`; or none, which is no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BytesPerSecond(pub Option<NonZeroU64>);

impl fmt::Display for BytesPerSecond {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(bytes) => Bytes::new(bytes.get()).fmt(f),
            None => f.write_str(NONE),
        }
    }
}

/// Why a text is no limit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseLimitError {
    /// Of requests.
    #[error("'{0}' is not a limit of requests a second: write a number, such as 500, or none")]
    Iops(String),
    /// Of bytes.
    #[error("'{0}' is not a limit of bytes a second: write a size, such as 50MiB, or none")]
    Bytes(String),
}

impl FromStr for Iops {
    type Err = ParseLimitError;

    fn from_str(text: &str) -> Result<Self, ParseLimitError> {
        if text == NONE {
            return Ok(Self(None));
        }
        let count = text.parse().map(|count| Self(Some(count)));
        count.map_err(|_| ParseLimitError::Iops(shortened(text)))
    }
}

impl FromStr for BytesPerSecond {
    type Err = ParseLimitError;

    fn from_str(text: &str) -> Result<Self, ParseLimitError> {
        if text == NONE {
            return Ok(Self(None));
        }
        let bytes = text.parse::<Bytes>().ok();
        let bytes = bytes.and_then(|bytes| NonZeroU64::new(bytes.get()));
        let limit = bytes.map(|bytes| Self(Some(bytes)));
        limit.ok_or_else(|| ParseLimitError::Bytes(shortened(text)))
    }
}

fn shortened(text: &str) -> String {
    text.chars().take(80).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_reads_what_it_writes() {
        for text in ["none", "1", "500", "18446744073709551615"] {
            assert_eq!(text.parse::<Iops>().unwrap().to_string(), text);
        }
        for text in ["none", "1B", "50MiB"] {
            assert_eq!(text.parse::<BytesPerSecond>().unwrap().to_string(), text);
        }
        for text in ["", "0", "-1", "1.5", "off", "5MiB"] {
            let error = text.parse::<Iops>().unwrap_err().to_string();
            assert!(error.contains("such as 500, or none"), "{error}");
        }
        for text in ["", "0B", "50MiB/s", "off"] {
            let error = text.parse::<BytesPerSecond>().unwrap_err().to_string();
            assert!(error.contains("such as 50MiB, or none"), "{error}");
        }
    }
}
