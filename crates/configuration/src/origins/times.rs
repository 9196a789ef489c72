//! The times that origins of several kinds have: how long is waited for whom.

use super::keys::keys;
use crate::text::Text;
use std::fmt;
use std::str::FromStr;
use units::{Duration, ParseDurationError};

keys! {
    Times {
        connect_timeout: Text<Positive>,
        reconnect_pause_max: Text<Positive>,
        request_timeout: Text<Positive>,
        settle_time: Text<Duration>,
    }
}

impl Times {
    pub(super) fn connect_timeout(&self, default: Text<Duration>) -> Text<Duration> {
        or(self.connect_timeout.as_ref(), default)
    }

    pub(super) fn reconnect_pause_max(&self, default: Text<Duration>) -> Text<Duration> {
        or(self.reconnect_pause_max.as_ref(), default)
    }

    pub(super) fn request_timeout(&self, default: Text<Duration>) -> Text<Duration> {
        or(self.request_timeout.as_ref(), default)
    }

    pub(super) fn settle_time(&self, default: Text<Duration>) -> Text<Duration> {
        self.settle_time.unwrap_or(default)
    }
}

fn or(written: Option<&Text<Positive>>, default: Text<Duration>) -> Text<Duration> {
    written.map_or(default, |Text(Positive(time))| Text(*time))
}

/// A time that is not nothing.
pub(super) struct Positive(Duration);

impl FromStr for Positive {
    type Err = PositiveError;

    fn from_str(text: &str) -> Result<Self, PositiveError> {
        match text.parse().map_err(PositiveError::Text)? {
            Duration::ZERO => Err(PositiveError::Zero),
            time => Ok(Self(time)),
        }
    }
}

pub(super) enum PositiveError {
    Text(ParseDurationError),
    Zero,
}

impl fmt::Display for PositiveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(error) => error.fmt(f),
            Self::Zero => f.write_str("must not be zero"),
        }
    }
}
