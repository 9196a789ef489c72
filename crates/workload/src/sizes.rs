//! How long requests are: fio's `bs` and `bssplit`.

use crate::limits::SIZES_MAX;
use crate::{ParseError, parse};
use std::fmt;
use std::str::FromStr;
use units::Prng;

/// Sizes of requests with their shares, at least one; every size is a multiple of the smallest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockSizes {
    /// Size in bytes, and the shares of this one and those before it, in percent.
    until: Vec<(u64, u64)>,
}

impl BlockSizes {
    /// Requests that are all alike.
    ///
    /// # Errors
    /// If no request can have this size.
    pub fn single(text: &str) -> Result<Self, ParseError> {
        let size = parse::block_size(text)?;
        Ok(Self {
            until: vec![(size, 100)],
        })
    }

    /// The smallest, in bytes: the unit of every address and length.
    pub fn smallest(&self) -> u64 {
        let sizes = self.until.iter().map(|(size, _)| *size);
        sizes.min().unwrap_or(crate::limits::UNIT_BYTES_MIN)
    }

    /// The largest, in bytes.
    pub fn largest(&self) -> u64 {
        let sizes = self.until.iter().map(|(size, _)| *size);
        sizes.max().unwrap_or(crate::limits::UNIT_BYTES_MIN)
    }

    /// One of them by its share, in bytes.
    pub(crate) fn draw(&self, dice: &mut Prng) -> u64 {
        if let [(size, _)] = self.until[..] {
            return size;
        }
        let at = dice.below(100);
        let found = self.until.iter().find(|(_, until)| at < *until);
        found.map_or(self.smallest(), |(size, _)| *size)
    }
}

impl FromStr for BlockSizes {
    type Err = ParseError;

    /// `4k/70:64k/30`, and `4k` alone.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        if !text.contains(['/', ':']) {
            return Self::single(text);
        }
        let error = || ParseError::Split(text.to_owned());
        let mut until = Vec::new();
        let mut sum: u64 = 0;
        for entry in text.split(':') {
            let (size, share) = entry.split_once('/').ok_or_else(error)?;
            let share: u64 = share.parse().map_err(|_| error())?;
            sum = sum.checked_add(share).ok_or_else(error)?;
            until.push((parse::block_size(size)?, sum));
        }
        let sizes = Self { until };
        let unit = sizes.smallest();
        let is_grid = sizes
            .until
            .iter()
            .all(|(size, _)| size.is_multiple_of(unit));
        if sum != 100 || sizes.until.len() > SIZES_MAX || !is_grid {
            return Err(error());
        }
        Ok(sizes)
    }
}

impl fmt::Display for BlockSizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [(size, _)] = self.until[..] {
            return write!(f, "{size}");
        }
        let mut before = 0;
        for (place, (size, until)) in self.until.iter().enumerate() {
            let colon = if place == 0 { "" } else { ":" };
            write!(f, "{colon}{size}/{}", until - before)?;
            before = *until;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_come_by_their_shares() {
        let sizes: BlockSizes = "4k/70:64k/30".parse().unwrap();
        assert_eq!((sizes.smallest(), sizes.largest()), (4096, 65536));
        let mut dice = Prng::new(1);
        let small = (0..100_000).filter(|_| sizes.draw(&mut dice) == 4096);
        let small = small.count();
        // Five standard deviations of a binomial are 725.
        assert!((69_275..70_725).contains(&small), "{small}");
        assert_eq!(sizes.to_string(), "4096/70:65536/30");
    }

    #[test]
    fn splits_that_make_no_sense_are_refused() {
        for text in [
            "4k/70:64k/31",
            "4k/100:",
            "4k:8k",
            "3k/50:4k/50",
            "4k/x:8k/1",
            "1000",
            "0",
        ] {
            assert!(text.parse::<BlockSizes>().is_err(), "{text}");
        }
    }
}
