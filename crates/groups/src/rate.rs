//! Bytes a second.

use crate::limits::RATE_BYTES_MAX;
use std::fmt;
use std::str::FromStr;
use units::Bytes;
use units::number::{count_near, real};

/// Bytes a second: finite, from zero to [`RATE_BYTES_MAX`].
///
/// Parsed from `10Gbit`, `100Mbit`, `500MiB/s` or a plain number of bytes; written with binary units: `119.20MiB/s`.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Rate(f64);

impl Rate {
    /// Nothing.
    pub const ZERO: Self = Self(0.0);

    /// That many bytes a second; more than [`RATE_BYTES_MAX`] is cut down to it. `None` for what is negative or no
    /// number.
    pub fn new(bytes_per_second: f64) -> Option<Self> {
        let is_rate = bytes_per_second >= 0.0 && bytes_per_second.is_finite();
        is_rate.then(|| Self(bytes_per_second.min(RATE_BYTES_MAX)))
    }

    /// The number.
    pub const fn bytes_per_second(self) -> f64 {
        self.0
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/s", Bytes::new(count_near(self.0)))
    }
}

/// Why a text is not a rate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is not a rate: write one such as 10Gbit, 100Mbit, 500MiB/s, or a number of bytes a second"
)]
pub struct ParseRateError(String);

impl FromStr for Rate {
    type Err = ParseRateError;

    fn from_str(text: &str) -> Result<Self, ParseRateError> {
        let wrong = || ParseRateError(text.to_owned());
        let bare = text.trim().strip_suffix("/s").unwrap_or(text.trim());
        let bits = [
            ("Tbit", 1e12),
            ("Gbit", 1e9),
            ("Mbit", 1e6),
            ("kbit", 1e3),
            ("bit", 1.0),
        ];
        let found = bits
            .iter()
            .find_map(|(unit, size)| Some((bare.strip_suffix(unit)?, size / 8.0)));
        let number = match found {
            Some((number, bytes)) => number
                .trim()
                .parse::<f64>()
                .ok()
                .map(|number| number * bytes),
            None => bare
                .parse::<f64>()
                .ok()
                .or_else(|| bare.parse::<Bytes>().ok().map(|bytes| real(bytes.get()))),
        };
        number.and_then(Self::new).ok_or_else(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_in_bits_and_in_bytes() {
        let rate = |text: &str| text.parse::<Rate>().unwrap().bytes_per_second();
        for (text, bytes) in [
            ("10Gbit", 1.25e9),
            ("100Mbit/s", 12.5e6),
            ("0.5Gbit", 62.5e6),
            ("500MiB/s", 524_288_000.0),
            ("1024", 1024.0),
            ("2.5e6", 2.5e6),
        ] {
            assert!((rate(text) - bytes).abs() < 1e-6, "{text}");
        }
    }

    #[test]
    fn what_is_no_rate_is_refused_with_an_example() {
        for text in [
            "",
            "fast",
            "-1",
            "NaN",
            "inf",
            "10 furlongs",
            "-3Mbit",
            "Gbit",
        ] {
            let error = text.parse::<Rate>().unwrap_err();
            assert!(error.to_string().contains("10Gbit"), "{text}");
        }
    }

    #[test]
    fn huge_rates_are_cut_down() {
        assert_eq!(
            Rate::new(1e300).map(Rate::bytes_per_second),
            Some(RATE_BYTES_MAX)
        );
        assert_eq!(Rate::new(f64::INFINITY), None);
    }
}
