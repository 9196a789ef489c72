//! Numbers as fio writes them.

use crate::limits;
use units::Duration;

/// Why a text is no description of a load.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum ParseError {
    /// It is no number of bytes.
    #[error("'{0}' is not a size: write 512, 4k, 4KiB, 1m, 2g or 1t (powers of 1024)")]
    Size(String),
    /// It is no span of time.
    #[error(
        "'{0}' is not a time: write seconds, or a number with a unit as in 500ms, 30s, 10m, 1h"
    )]
    Time(String),
    /// It is no pattern of reads and writes.
    #[error(
        "'{0}' is no pattern: there are read, write, trim, randread, randwrite, randtrim, rw (readwrite) and randrw"
    )]
    Shape(String),
    /// A block size is not possible.
    #[error("a block size of {0} bytes is not possible: take a multiple of 512 up to 32m")]
    BlockSize(u64),
    /// It is no split of block sizes.
    #[error(
        "'{0}' is no split of block sizes: write SIZE/PERCENT for each, as in 4k/70:64k/30 (at most 64, together 100)"
    )]
    Split(String),
    /// It is no distribution.
    #[error(
        "'{0}' is no distribution: there are random, zipf:THETA (0 to 10), pareto:H (between 0 and 1), and zoned:ACCESSES/SIZE:.. in percent, as in zoned:60/10:40/90"
    )]
    Spread(String),
}

/// A number of bytes: digits, and k, m, g or t for powers of 1024, with or without `iB` or `b`.
///
/// # Errors
/// If it is none, or does not fit.
pub fn bytes(text: &str) -> Result<u64, ParseError> {
    let error = || ParseError::Size(text.to_owned());
    let trimmed = text.trim();
    let split = trimmed
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(split);
    let number: u64 = number.parse().map_err(|_| error())?;
    let shift = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return Err(error()),
    };
    number.checked_mul(1 << shift).ok_or_else(error)
}

/// A span of time: seconds, or a number with a unit.
///
/// # Errors
/// If it is none, or does not fit.
pub fn span(text: &str) -> Result<Duration, ParseError> {
    let error = || ParseError::Time(text.to_owned());
    let trimmed = text.trim();
    let split = trimmed
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(split);
    let number: u64 = number.parse().map_err(|_| error())?;
    let nanos = match unit {
        "us" => 1_000,
        "ms" => 1_000_000,
        "" | "s" => 1_000_000_000,
        "m" | "min" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        "d" => 86_400_000_000_000,
        _ => return Err(error()),
    };
    let nanos = number.checked_mul(nanos).ok_or_else(error)?;
    Ok(Duration::from_nanos(nanos))
}

/// A block size that a request can have.
pub(crate) fn block_size(text: &str) -> Result<u64, ParseError> {
    let size = bytes(text)?;
    let fits = size > 0 && size <= limits::REQUEST_BYTES_MAX;
    if fits && size.is_multiple_of(limits::UNIT_BYTES_MIN) {
        Ok(size)
    } else {
        Err(ParseError::BlockSize(size))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_in_powers_of_1024() {
        for (text, size) in [
            ("512", 512),
            ("4k", 4096),
            ("4KiB", 4096),
            ("1M", 1 << 20),
            ("2g", 2 << 30),
            ("1tib", 1 << 40),
        ] {
            assert_eq!(bytes(text), Ok(size), "{text}");
        }
        for text in ["", "k", "4x", "-1", "1.5g", "99999999999t"] {
            assert!(bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_bare_time_is_in_seconds() {
        assert_eq!(span("10"), Ok(Duration::from_secs(10)));
        assert_eq!(span("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(span("2m"), Ok(Duration::from_secs(120)));
        assert!(span("soon").is_err());
        assert!(span("999999999999h").is_err());
    }
}
