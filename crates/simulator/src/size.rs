//! How large a simulated cache is: in bytes, in blocks, or as a part of the trace's footprint.
//!
//! The *footprint* is the number of distinct blocks that the trace reads or writes, at the run's block
//! size. A size that is a part of it needs a pass over the trace before the first run.

use crate::number::{count, real};
use std::fmt;
use std::str::FromStr;
use units::Bytes;

/// A cache size as a user writes it: `4MiB`, `27000blk`, `10%` or `0.1` of the footprint.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CacheSize {
    /// That many bytes, rounded down to whole blocks.
    Bytes(Bytes),
    /// That many blocks.
    Blocks(u32),
    /// That part of the footprint, in percent, rounded to the nearest block.
    Footprint(f64),
}

/// Why a size cannot be used.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SizeError {
    /// It is not written as a size.
    #[error(
        "'{0}' is not a cache size: write bytes with a unit (4MiB), blocks (27000blk) or a part of the \
         trace's distinct blocks (10%)"
    )]
    Text(String),
    /// It is less than a block.
    #[error("a cache of {size} holds no block of {block}: give at least one block, such as 1blk")]
    Empty {
        /// The size as it was written.
        size: CacheSize,
        /// The run's block size.
        block: Bytes,
    },
    /// It has more blocks than the simulator numbers.
    #[error("a cache of {size} has more than {} blocks of {block}", u32::MAX)]
    Huge {
        /// The size as it was written.
        size: CacheSize,
        /// The run's block size.
        block: Bytes,
    },
}

impl CacheSize {
    /// Whether the footprint must be known before its blocks are.
    pub const fn needs_footprint(self) -> bool {
        matches!(self, Self::Footprint(_))
    }

    /// The size in blocks of `block` bytes, for a trace of `footprint` distinct blocks.
    ///
    /// # Errors
    /// If that is no block at all, or more than can be numbered.
    pub fn blocks(self, block: Bytes, footprint: u32) -> Result<u32, SizeError> {
        let blocks = match self {
            Self::Bytes(bytes) => bytes.get() / block.get(),
            Self::Blocks(blocks) => u64::from(blocks),
            Self::Footprint(percent) => count(f64::from(footprint) * percent / 100.0),
        };
        match u32::try_from(blocks) {
            Ok(0) => Err(SizeError::Empty { size: self, block }),
            Ok(blocks) => Ok(blocks),
            Err(_) => Err(SizeError::Huge { size: self, block }),
        }
    }
}

impl FromStr for CacheSize {
    type Err = SizeError;

    fn from_str(text: &str) -> Result<Self, SizeError> {
        let text = text.trim();
        let error = || SizeError::Text(text.to_owned());
        if let Some(blocks) = text.strip_suffix("blk") {
            return blocks.trim().parse().map(Self::Blocks).map_err(|_| error());
        }
        if let Some(percent) = text.strip_suffix('%') {
            let percent: f64 = percent.trim().parse().map_err(|_| error())?;
            let sensible = percent.is_finite() && percent > 0.0 && percent <= real(100_000);
            return if sensible {
                Ok(Self::Footprint(percent))
            } else {
                Err(error())
            };
        }
        // A bare number would be bytes to one reader and blocks to another.
        if text.chars().all(|c| c.is_ascii_digit()) {
            return Err(error());
        }
        text.parse().map(Self::Bytes).map_err(|_| error())
    }
}

impl fmt::Display for CacheSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => write!(f, "{bytes}"),
            Self::Blocks(blocks) => write!(f, "{blocks}blk"),
            Self::Footprint(percent) => write!(f, "{percent}%"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: Bytes = Bytes::new(4096);

    fn blocks(text: &str, footprint: u32) -> Result<u32, SizeError> {
        text.parse::<CacheSize>()?.blocks(BLOCK, footprint)
    }

    #[test]
    fn sizes_are_bytes_blocks_or_a_part_of_the_footprint() {
        assert_eq!(blocks("4MiB", 0), Ok(1024));
        assert_eq!(blocks("27000blk", 0), Ok(27_000));
        assert_eq!(blocks("10%", 1005), Ok(101));
        assert_eq!(blocks("0.1%", 269_210), Ok(269));
        assert_eq!(blocks("9000B", 0), Ok(2), "part of a block is no block");
    }

    #[test]
    fn sizes_print_as_they_are_written() {
        for text in ["4MiB", "27000blk", "10%", "0.1%"] {
            assert_eq!(
                text.parse::<CacheSize>().map(|size| size.to_string()),
                Ok(text.to_owned())
            );
        }
    }

    #[test]
    fn what_is_no_size_or_holds_no_block_is_refused() {
        for text in [
            "", "4096", "ten", "-1%", "0%", "nan%", "inf%", "1.5blk", "4MB",
        ] {
            assert!(
                matches!(text.parse::<CacheSize>(), Err(SizeError::Text(_))),
                "{text}"
            );
        }
        assert!(matches!(blocks("4095B", 0), Err(SizeError::Empty { .. })));
        assert!(matches!(blocks("0blk", 0), Err(SizeError::Empty { .. })));
        assert!(matches!(blocks("1%", 3), Err(SizeError::Empty { .. })));
        assert!(matches!(
            blocks("99999999GiB", 0),
            Err(SizeError::Huge { .. })
        ));
    }
}
