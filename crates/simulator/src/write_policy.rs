//! What writes do, and what that means for each count.
//!
//! | | block in the cache | block not in the cache | the guest waits for |
//! |---|---|---|---|
//! | around | it is dropped from the cache | nothing | the origin |
//! | through | flash gets the new copy | flash gets it, unless write misses bypass | the origin |
//! | back | flash gets it, dirty | flash gets it, dirty, unless write misses bypass | flash, and room there |
//!
//! A write *hits* if its block was in the cache when it came, whatever is done with it then. In place a dirty
//! block is written to the origin when the policy evicts it; in the daemon's log when the daemon would. What is
//! dirty at the end stays so and is reported. A write of a part of a block counts as a write of the block.
//! Discards and write-zeroes go to the origin and drop the block, dirty or not; they are no accesses. A flush makes durable what was
//! answered: at the origin under around and through, on flash under back.

use std::fmt;
use std::str::FromStr;

/// Where a write goes before the guest gets its answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum WritePolicy {
    /// To the origin; a cached copy is dropped.
    Around,
    /// To the origin, then to flash.
    #[default]
    Through,
    /// To flash; to the origin later.
    Back,
}

/// What a write does to a block that is not in the cache, under `through` and `back`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum WriteMiss {
    /// It brings it in.
    #[default]
    Allocate,
    /// It goes to the origin and leaves the cache as it is.
    Bypass,
}

impl WritePolicy {
    /// Every policy.
    pub const ALL: [Self; 3] = [Self::Around, Self::Through, Self::Back];

    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Around => "around",
            Self::Through => "through",
            Self::Back => "back",
        }
    }
}

impl WriteMiss {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Allocate, Self::Bypass];

    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Allocate => "allocate",
            Self::Bypass => "bypass",
        }
    }
}

impl fmt::Display for WritePolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for WriteMiss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A word that is none of those known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnknownWord {
    /// No write policy has this name.
    #[error("a write policy is around, through or back")]
    WritePolicy,
    /// Nothing that a write miss does has this name.
    #[error("a write miss does allocate or bypass")]
    WriteMiss,
}

impl FromStr for WritePolicy {
    type Err = UnknownWord;

    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        let found = Self::ALL.into_iter().find(|policy| policy.name() == text);
        found.ok_or(UnknownWord::WritePolicy)
    }
}

impl FromStr for WriteMiss {
    type Err = UnknownWord;

    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        let found = Self::ALL.into_iter().find(|miss| miss.name() == text);
        found.ok_or(UnknownWord::WriteMiss)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_parse_as_they_print() {
        for policy in WritePolicy::ALL {
            assert_eq!(policy.to_string().parse(), Ok(policy));
        }
        for miss in WriteMiss::ALL {
            assert_eq!(miss.to_string().parse(), Ok(miss));
        }
        assert!("writeback".parse::<WritePolicy>().is_err());
        assert!("no".parse::<WriteMiss>().is_err());
    }
}
