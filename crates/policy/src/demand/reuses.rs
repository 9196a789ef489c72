//! The `N` of a reuse working set.

use super::limits::REUSES_MAX;
use std::fmt;

/// How often a block must have been used *again* within the window to be counted: from 0 to
/// [`REUSES_MAX`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reuses(u8);

/// Nobody keeps track of so many reuses.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("a reuse working set is of blocks used again from 0 to {REUSES_MAX} times, not {0}")]
pub struct BadReuses(pub u64);

impl Reuses {
    /// None: the classic working set.
    pub const NONE: Self = Self(0);
    /// Used again at least once: what is worth caching, as a rule.
    pub const ONE: Self = Self(1);
    /// Used again at least twice: fewer flash writes, fewer hits.
    pub const TWO: Self = Self(2);

    /// So many.
    ///
    /// # Errors
    /// If they are more than [`REUSES_MAX`].
    pub fn new(times: u64) -> Result<Self, BadReuses> {
        match u8::try_from(times) {
            Ok(number @ 0..=REUSES_MAX) => Ok(Self(number)),
            _ => Err(BadReuses(times)),
        }
    }

    /// The number.
    pub const fn get(self) -> u8 {
        self.0
    }

    /// The number as a table index.
    pub(super) const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for Reuses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_within_the_limits_is_taken_and_another_is_refused() {
        assert_eq!(Reuses::new(1), Ok(Reuses::ONE));
        assert_eq!(Reuses::new(4), Err(BadReuses(4)));
        assert_eq!(Reuses::new(256), Err(BadReuses(256)));
    }
}
