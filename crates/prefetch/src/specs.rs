//! The miners that work side by side for a disk.

use crate::miner::Spec;
use policy::replacement::{SpecError, split_list};
use std::fmt;
use std::str::FromStr;

/// Miners that share the price of a VM, most useful first: as text `readahead,vip:length=4,sup=2`, or `none`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Specs(Vec<Spec>);

impl Specs {
    /// Most of them: what a label in eight bits can tell apart, with room for how sure each is.
    pub const COUNT_MAX: usize = 4;

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = &Spec> {
        self.0.iter()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether nobody guesses.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Why a text names no miners.
#[derive(Debug, PartialEq, Eq)]
pub enum SpecsError {
    /// One of them is none.
    Spec(SpecError),
    /// There are more than [`Specs::COUNT_MAX`].
    TooMany,
    /// `none` stands beside others.
    NoneBesideOthers,
}

impl std::error::Error for SpecsError {}

impl fmt::Display for SpecsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Spec(error) => error.fmt(f),
            Self::TooMany => write!(f, "name {} miners at most", Specs::COUNT_MAX),
            Self::NoneBesideOthers => f.write_str("write 'none', or the miners without it"),
        }
    }
}

impl FromStr for Specs {
    type Err = SpecsError;

    fn from_str(text: &str) -> Result<Self, SpecsError> {
        if text == "none" {
            return Ok(Self::default());
        }
        let parse = |one: &String| one.parse().map_err(SpecsError::Spec);
        let specs: Vec<Spec> = split_list(text)
            .iter()
            .map(parse)
            .collect::<Result<_, _>>()?;
        if specs.len() > Self::COUNT_MAX {
            return Err(SpecsError::TooMany);
        }
        if specs.iter().any(|spec| spec.about().name == "none") {
            return Err(SpecsError::NoneBesideOthers);
        }
        Ok(Self(specs))
    }
}

impl fmt::Display for Specs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("none");
        }
        for (number, spec) in self.0.iter().enumerate() {
            let comma = if number > 0 { "," } else { "" };
            write!(f, "{comma}{spec}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn miners_are_read_as_they_are_written() {
        for text in ["none", "readahead", "readahead,vip:length=8,sup=3,mithril"] {
            assert_eq!(text.parse::<Specs>().unwrap().to_string(), text);
        }
        assert!("none".parse::<Specs>().unwrap().is_empty());
        for wrong in ["", "readahed", "none,readahead", "vip,vip,vip,vip,vip"] {
            assert!(wrong.parse::<Specs>().is_err(), "{wrong}");
        }
    }
}
