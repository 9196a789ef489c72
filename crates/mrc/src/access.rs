//! What a curve counts, and what a write does to the blocks in the cache.

use units::number::real;

/// What an access does with its blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Reads them.
    Read,
    /// Writes them.
    Write,
}

impl Kind {
    pub(crate) const fn index(self) -> usize {
        match self {
            Self::Read => 0,
            Self::Write => 1,
        }
    }
}

/// Which accesses a curve's ratio is over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Counted {
    /// Reads and writes.
    #[default]
    All,
    /// Reads alone. What writes do to the cache is a question of its own: see [`Writes`].
    Reads,
}

/// What a write does to the stack of cached blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Writes {
    /// A written block is in the cache, newest (write-through and write-back with allocation).
    #[default]
    Allocate,
    /// A written block leaves the cache (write-around). A write never hits.
    Invalidate,
    /// Writes do not happen: the curve of the reads by themselves. A write never hits.
    Exclude,
}

/// Accesses by [`Kind`], as counts or as estimates.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct ByKind<T>(pub(crate) [T; 2]);

impl ByKind<u64> {
    pub(crate) fn add(&mut self, kind: Kind, count: u64) {
        self.0[kind.index()] += count;
    }

    pub(crate) fn of(self, counted: Counted) -> f64 {
        match counted {
            Counted::All => real(self.0[0]) + real(self.0[1]),
            Counted::Reads => real(self.0[0]),
        }
    }
}

impl ByKind<f64> {
    pub(crate) fn add(&mut self, kind: Kind, weight: f64) {
        self.0[kind.index()] += weight;
    }

    pub(crate) fn of(self, counted: Counted) -> f64 {
        match counted {
            Counted::All => self.0[0] + self.0[1],
            Counted::Reads => self.0[0],
        }
    }
}
