//! Marks on rare branches: how often each was reached. A run of many seeds that never reaches one
//! tests less than it seems to.

use std::collections::BTreeMap;

/// Counts by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    names: BTreeMap<&'static str, u64>,
    /// Commands by the phase of their disk.
    tried: BTreeMap<(&'static str, &'static str), u64>,
}

impl Marks {
    /// The branch was reached.
    pub fn hit(&mut self, name: &'static str) {
        self.add(name, 1);
    }

    /// The branch was reached `count` times.
    pub fn add(&mut self, name: &'static str, count: u64) {
        if count > 0 {
            *self.names.entry(name).or_default() += count;
        }
    }

    /// Adds those of another run.
    pub fn merge(&mut self, other: &Self) {
        for (name, count) in &other.names {
            self.add(name, *count);
        }
        for (pair, count) in &other.tried {
            *self.tried.entry(*pair).or_default() += count;
        }
    }

    /// A command was given to a disk in this phase.
    pub(crate) fn tried(&mut self, command: &'static str, phase: &'static str) {
        *self.tried.entry((command, phase)).or_default() += 1;
    }

    /// How often a command was given to a disk in this phase.
    pub fn tries(&self, command: &'static str, phase: &'static str) -> u64 {
        self.tried.get(&(command, phase)).copied().unwrap_or(0)
    }

    /// How often it was reached.
    pub fn count(&self, name: &str) -> u64 {
        self.names.get(name).copied().unwrap_or(0)
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        self.names.iter().map(|(name, count)| (*name, *count))
    }
}
