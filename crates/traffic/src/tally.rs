//! Bytes of pairs of VMs within an interval.

use crate::addresses::Addresses;
use groups::smoothing::Exchanged;
use std::collections::BTreeMap;

/// Bytes by pair of VMs, as places in the table of addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pairs: BTreeMap<(usize, usize), u64>,
    unknown_bytes: u64,
}

impl Tally {
    /// Adds bytes between two ends. Unless both are VMs, they are counted as unknown.
    pub fn add(&mut self, one: Option<usize>, other: Option<usize>, bytes: u64) {
        let count = match (one, other) {
            (Some(one), Some(other)) if one == other => return,
            (Some(one), Some(other)) => self
                .pairs
                .entry((one.min(other), one.max(other)))
                .or_default(),
            _ => &mut self.unknown_bytes,
        };
        *count = count.saturating_add(bytes);
    }

    /// The pairs, by the names of the VMs.
    pub fn exchanged<'a>(&self, addresses: &'a Addresses) -> Vec<Exchanged<'a>> {
        let vms = addresses.vms();
        let pairs = self.pairs.iter();
        pairs
            .map(|((one, other), bytes)| Exchanged {
                first: &vms[*one],
                second: &vms[*other],
                bytes: *bytes,
            })
            .collect()
    }

    /// Bytes of which an end is no VM of the table.
    pub const fn unknown_bytes(&self) -> u64 {
        self.unknown_bytes
    }
}
