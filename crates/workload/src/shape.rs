//! What is done, and whether in order: fio's `rw`.

use crate::ParseError;
use std::fmt;
use std::str::FromStr;

/// What a request does to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// Reads.
    Read,
    /// Writes.
    Write,
    /// Says that the range is no longer needed.
    Trim,
}

impl Direction {
    /// All of them, in the order of reports.
    pub const ALL: [Self; 3] = [Self::Read, Self::Write, Self::Trim];

    /// Its place in [`Direction::ALL`].
    pub const fn index(self) -> usize {
        match self {
            Self::Read => 0,
            Self::Write => 1,
            Self::Trim => 2,
        }
    }
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Trim => "trim",
        })
    }
}

/// Directions and order of a load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shape {
    /// Reads in order.
    #[default]
    Read,
    /// Writes in order.
    Write,
    /// Trims in order.
    Trim,
    /// Reads at random places.
    RandRead,
    /// Writes at random places.
    RandWrite,
    /// Trims at random places.
    RandTrim,
    /// Reads and writes mixed, each in order.
    Rw,
    /// Reads and writes mixed, at random places.
    RandRw,
}

const NAMES: [(&str, Shape); 8] = [
    ("read", Shape::Read),
    ("write", Shape::Write),
    ("trim", Shape::Trim),
    ("randread", Shape::RandRead),
    ("randwrite", Shape::RandWrite),
    ("randtrim", Shape::RandTrim),
    ("rw", Shape::Rw),
    ("randrw", Shape::RandRw),
];

impl Shape {
    /// Whether places are drawn rather than in order.
    pub const fn is_random(self) -> bool {
        matches!(
            self,
            Self::RandRead | Self::RandWrite | Self::RandTrim | Self::RandRw
        )
    }

    /// Whether reads are among it.
    pub const fn reads(self) -> bool {
        matches!(self, Self::Read | Self::RandRead | Self::Rw | Self::RandRw)
    }

    /// Whether writes are among it.
    pub const fn writes(self) -> bool {
        matches!(
            self,
            Self::Write | Self::RandWrite | Self::Rw | Self::RandRw
        )
    }

    /// Whether trims are.
    pub const fn trims(self) -> bool {
        matches!(self, Self::Trim | Self::RandTrim)
    }
}

impl FromStr for Shape {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let text = if text == "readwrite" { "rw" } else { text };
        let found = NAMES.iter().find(|(name, _)| *name == text);
        let error = || ParseError::Shape(text.to_owned());
        found.map(|(_, shape)| *shape).ok_or_else(error)
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = NAMES.iter().find(|(_, shape)| shape == self);
        f.write_str(found.map_or("", |(name, _)| name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_has_its_name_and_does_something() {
        for (name, shape) in NAMES {
            assert_eq!(name.parse(), Ok(shape));
            assert_eq!(shape.to_string(), name);
            assert!(shape.reads() || shape.writes() || shape.trims());
        }
        assert_eq!("readwrite".parse(), Ok(Shape::Rw));
        assert!("randreadd".parse::<Shape>().is_err());
    }
}
