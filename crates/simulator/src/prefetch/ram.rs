//! Memory as an experiment sees it.

use super::buffer::Buffer;
use super::pool::Pool;
use policy::memory;
use policy::replacement::{self, BadCapacity, Capacity, SpecError};
use prefetch::{Key, Label};
use std::fmt;
use std::str::FromStr;
use units::TenantSlot;

/// Whose a block is that was fetched ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ahead {
    pub(super) vm: u32,
    /// Without one nobody counts what becomes of it but the tally.
    pub(super) label: Option<Label>,
}

/// Blocks of memory that a VM's guesses are made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OfVm {
    /// As miners see it.
    pub(super) seen_by_miners: u64,
    /// As the price sees it, which lets half of it be outstanding.
    pub(super) at_a_price: u64,
}

/// Memory, some blocks of which were fetched ahead and not yet read. What leaves unread is appended to `wasted`.
pub(super) trait Ram {
    fn of_vm(&self) -> OfVm;

    fn contains(&self, key: Key) -> bool;

    /// A VM reads a block: whether it was here, and whose guess it was if this is its first use.
    fn read(&mut self, vm: u32, key: Key, wasted: &mut Vec<Ahead>) -> (bool, Option<Ahead>);

    /// A block that is not here is fetched ahead.
    fn fetch(&mut self, key: Key, ahead: Ahead, wasted: &mut Vec<Ahead>);

    /// A block changes at the origin, and leaves.
    fn change(&mut self, key: Key, wasted: &mut Vec<Ahead>);

    /// Blocks that were fetched and not yet read.
    fn outstanding(&self) -> u64;
}

/// What keeps the blocks.
#[derive(Clone, Debug, PartialEq)]
pub enum RamPolicy {
    /// One buffer under a replacement policy, as in the papers.
    Buffer(replacement::Spec),
    /// The daemon's pool of frames: a quarter for what was fetched ahead, all in equal parts for the VMs, and a policy
    /// that says which blocks that were read are kept.
    Pool(memory::Spec),
}

const POOL: &str = "pool";

impl fmt::Display for RamPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Buffer(policy) => policy.fmt(f),
            Self::Pool(policy) => write!(f, "{POOL}:{policy}"),
        }
    }
}

impl FromStr for RamPolicy {
    type Err = SpecError;

    /// `pool`, `pool:` and a policy of the daemon's memory, or a replacement policy.
    fn from_str(text: &str) -> Result<Self, SpecError> {
        match text.strip_prefix(POOL) {
            Some("") => Ok(Self::Pool(memory::Spec::default())),
            Some(policy) if policy.starts_with(':') => policy[1..].parse().map(Self::Pool),
            _ => text.parse().map(Self::Buffer),
        }
    }
}

/// Why there cannot be such memory.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum RamError {
    /// It has no block, or too many.
    #[error(transparent)]
    Capacity(#[from] BadCapacity),
    /// The pool has a part for each VM.
    #[error(
        "the daemon's pool is for {most} VMs at most, and the trace has {vms}: choose fifo or lru",
        most = TenantSlot::COUNT
    )]
    TooManyVms {
        /// Those of the trace.
        vms: usize,
    },
}

impl RamPolicy {
    /// Memory for so many blocks of so many VMs.
    pub(super) fn build(&self, blocks: u64, vms: usize) -> Result<Box<dyn Ram>, RamError> {
        let capacity = Capacity::new(blocks)?;
        Ok(match self {
            Self::Buffer(policy) => Box::new(Buffer::new(policy, capacity)),
            Self::Pool(policy) => Box::new(Pool::new(policy, capacity, vms)?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_is_told_from_a_policy() {
        let parse = |text: &str| text.parse::<RamPolicy>();
        assert_eq!(parse("pool").unwrap().to_string(), "pool:s3-fifo");
        assert_eq!(
            parse("pool:w-tinylfu").unwrap().to_string(),
            "pool:w-tinylfu"
        );
        assert_eq!(
            parse("fifo").unwrap(),
            RamPolicy::Buffer("fifo".parse().unwrap())
        );
        assert!(parse("pool:fif").is_err());
        assert!(parse("pools").is_err());
    }
}
