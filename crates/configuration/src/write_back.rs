//! `[disk.write_back]`: how writes reach the origin later.

use super::change::change;
use super::text::{Auto, Switch, Text};
use super::words::DestageOrder;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use units::{Bytes, Duration};
use utoipa::ToSchema;

/// `[disk.write_back]`: how writes reach the origin if `write_policy` is `back`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct WriteBackConfig {
    /// In which order.
    pub order: DestageOrder,
    /// The longest that the dirty log may be, or `auto`.
    #[schema(value_type = String, example = "1GiB")]
    pub dirty_max: Text<Auto<Bytes>>,
    /// The longest that bytes may wait for the origin.
    #[schema(value_type = String, example = "30s")]
    pub age_max: Text<Duration>,
    /// How long no guest must have asked for anything before bytes go to the origin.
    #[schema(value_type = String, example = "2s")]
    pub idle_after: Text<Duration>,
    /// The most that goes to the origin.
    #[schema(value_type = String, example = "off")]
    pub rate: Text<Switch<PerSecond>>,
    /// The longest that a write may wait for room.
    #[schema(value_type = String, example = "1min")]
    pub stall_max: Text<Duration>,
}

impl Default for WriteBackConfig {
    fn default() -> Self {
        let cache::WriteBack {
            order,
            dirty_max: _,
            age_max,
            idle_after,
            rate,
            stall_max,
        } = cache::WriteBack::default();
        Self {
            order: order.into(),
            dirty_max: Text(Auto::Auto),
            age_max: Text(age_max),
            idle_after: Text(idle_after),
            rate: Text(rate.map_or(Switch::Off, |rate| Switch::On(PerSecond(rate)))),
            stall_max: Text(stall_max),
        }
    }
}

impl WriteBackConfig {
    /// The cache's word for it, with so much for the dirty log.
    pub fn settings(&self, dirty_max: Bytes) -> cache::WriteBack {
        cache::WriteBack {
            order: self.order.into(),
            dirty_max,
            age_max: self.age_max.0,
            idle_after: self.idle_after.0,
            rate: self.rate.0.as_ref().map(|rate| rate.0),
            stall_max: self.stall_max.0,
        }
    }
}

change! {
    /// What to change of how a disk's writes reach its origin; what is not given stays as it is.
    WriteBackChange of WriteBackConfig {
        /// In which order.
        order: DestageOrder,
        /// The longest that the dirty log may be, or `auto`.
        #[schema(value_type = Option<String>, example = "4GiB")]
        dirty_max: Text<Auto<Bytes>>,
        /// The longest that bytes may wait for the origin.
        #[schema(value_type = Option<String>, example = "30s")]
        age_max: Text<Duration>,
        /// How long no guest must have asked for anything before bytes go to the origin.
        #[schema(value_type = Option<String>, example = "2s")]
        idle_after: Text<Duration>,
        /// The most that goes to the origin, or `off`.
        #[schema(value_type = Option<String>, example = "50MiB/s")]
        rate: Text<Switch<PerSecond>>,
        /// The longest that a write may wait for room.
        #[schema(value_type = Option<String>, example = "1min")]
        stall_max: Text<Duration>,
    }
}

/// Bytes a second, written `50MiB/s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PerSecond(pub Bytes);

impl fmt::Display for PerSecond {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/s", self.0)
    }
}

/// Why a text is no rate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a rate: write bytes a second, such as 50MiB/s, or off")]
pub struct ParseRateError(String);

impl FromStr for PerSecond {
    type Err = ParseRateError;

    fn from_str(text: &str) -> Result<Self, ParseRateError> {
        let error = || ParseRateError(text.chars().take(80).collect());
        let bytes: Bytes = text
            .strip_suffix("/s")
            .and_then(|bytes| bytes.parse().ok())
            .ok_or_else(error)?;
        if bytes.is_zero() {
            return Err(error());
        }
        Ok(Self(bytes))
    }
}
