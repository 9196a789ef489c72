//! When statistics begin.

use std::fmt;
use std::str::FromStr;
use units::Duration;

/// How much of a trace only warms the cache. Statistics begin with the first request behind it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Warmup {
    /// Nothing: everything counts.
    #[default]
    None,
    /// That part of the trace's block accesses, in percent; needs a pass over the trace to count them.
    Percent(f64),
    /// That much of the trace's time.
    Time(Duration),
}

/// The text is not a warm-up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a warm-up: write a part of the trace below 100% (10%) or a time (30min)")]
pub struct ParseWarmupError(String);

impl FromStr for Warmup {
    type Err = ParseWarmupError;

    fn from_str(text: &str) -> Result<Self, ParseWarmupError> {
        let error = || ParseWarmupError(text.to_owned());
        if text == "none" {
            return Ok(Self::None);
        }
        match text.strip_suffix('%') {
            Some(percent) => {
                let percent: f64 = percent.parse().map_err(|_| error())?;
                if (0.0..100.0).contains(&percent) {
                    Ok(Self::Percent(percent))
                } else {
                    Err(error())
                }
            }
            None => text.parse().map(Self::Time).map_err(|_| error()),
        }
    }
}

impl fmt::Display for Warmup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Percent(percent) => write!(f, "{percent}%"),
            Self::Time(time) => write!(f, "{time}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warm_ups_parse_as_they_print() {
        for text in ["none", "10%", "30min"] {
            assert_eq!(
                text.parse::<Warmup>().map(|w| w.to_string()),
                Ok(text.to_owned())
            );
        }
        for text in ["100%", "-1%", "10", "nan%"] {
            assert!(text.parse::<Warmup>().is_err(), "{text}");
        }
    }
}
