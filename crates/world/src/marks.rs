//! Marks on rare branches: how often each was reached. A run of many seeds that never reaches one
//! tests less than it seems to.

use std::collections::BTreeMap;

/// Counts by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marks(BTreeMap<&'static str, u64>);

impl Marks {
    /// The branch was reached.
    pub fn hit(&mut self, name: &'static str) {
        self.add(name, 1);
    }

    /// The branch was reached `count` times.
    pub fn add(&mut self, name: &'static str, count: u64) {
        if count > 0 {
            *self.0.entry(name).or_default() += count;
        }
    }

    /// Adds those of another run.
    pub fn merge(&mut self, other: &Self) {
        for (name, count) in &other.0 {
            self.add(name, *count);
        }
    }

    /// How often it was reached.
    pub fn count(&self, name: &str) -> u64 {
        self.0.get(name).copied().unwrap_or(0)
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        self.0.iter().map(|(name, count)| (*name, *count))
    }
}
