//! How much memory a cache under simulation takes, estimated from its kind, its size and the trace.
//!
//! ```text
//!   FIXED + key bytes * distinct blocks of the trace + held bytes * blocks of the cache      (by kind, below)
//!         + demand that is measured exactly: 88 a distinct block, 16 an access of the longest window
//! ```
//!
//! The bytes were measured on real traces of 270,000 to 900,000 distinct blocks: resident memory of one run less that
//! of the reading alone. An estimate is within a factor of two of the peak, which an end-to-end test asserts.

use units::Duration;

/// What is known of a trace before it is simulated.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Facts {
    /// Distinct blocks.
    pub(crate) footprint: u64,
    /// Accesses of blocks.
    pub(crate) accesses: u64,
    /// Volumes, base images too.
    pub(crate) volumes: u64,
    /// VMs that they belong to.
    pub(crate) vms: u64,
    /// Microseconds from the first request to the last; zero without times.
    pub(crate) duration_us: u64,
}

/// Bytes that a cache takes for each block of the trace and for each of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PerBlock {
    /// For each distinct block of the trace.
    pub(crate) key: u64,
    /// For each block that the cache holds.
    pub(crate) held: u64,
}

/// Policies over blocks in place: an index of all keys, and entries, ghosts among them.
pub(crate) const IN_PLACE: PerBlock = PerBlock { key: 5, held: 34 };
/// The same behind admission: an index of its own, and addresses.
pub(crate) const ADMITTED: PerBlock = PerBlock { key: 10, held: 44 };
/// The daemon's log, and which blocks lie beside each other.
pub(crate) const LOG: PerBlock = PerBlock { key: 14, held: 16 };
/// The daemon's log with its tenancy in front, and lists of VMs.
pub(crate) const DIVIDED: PerBlock = PerBlock { key: 16, held: 24 };

/// What each cache takes whatever its size: buffers, and the tables of an empty policy.
const FIXED: u64 = 256 << 10;
/// What a VM takes of a cache that is divided, beside its blocks: its curve and its sampled demand.
const VM: u64 = 512 << 10;
/// Rows and index of demand that is measured exactly, for each distinct block.
const DEMAND_KEY: u64 = 88;
/// An event of that, for each access within the longest window.
const DEMAND_ACCESS: u64 = 16;
/// Accesses come in bursts: a window has at most so many times its even part of them, as a rule.
const BURST: u64 = 24;

/// What demand that is measured exactly takes, over that window.
pub(crate) fn exact_demand(window: Duration, facts: &Facts) -> u64 {
    let window_us = window.as_nanos() / 1000;
    let within = match facts.duration_us {
        0 => facts.accesses,
        duration => {
            let even = u128::from(facts.accesses) * u128::from(window_us) / u128::from(duration);
            u64::try_from(even.saturating_mul(u128::from(BURST)))
                .unwrap_or(u64::MAX)
                .min(facts.accesses)
        }
    };
    DEMAND_KEY * facts.footprint + DEMAND_ACCESS * within
}

/// What VMs take of a cache that is divided among them.
pub(crate) const fn of_vms(facts: &Facts) -> u64 {
    VM * facts.vms
}

impl PerBlock {
    /// Bytes of a cache of `blocks` over that trace.
    pub(crate) const fn of(self, blocks: u64, facts: &Facts) -> u64 {
        FIXED + self.key * facts.footprint + self.held * blocks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_has_its_accesses_and_bursts_and_never_more_than_all() {
        let facts = Facts {
            footprint: 100,
            accesses: 1_000_000,
            duration_us: 1000 * 60_000_000,
            ..Facts::default()
        };
        let minute = exact_demand(Duration::from_secs(60), &facts);
        assert_eq!(minute, 8800 + 16 * 1000 * BURST);
        let day = exact_demand(Duration::from_secs(86_400), &facts);
        assert_eq!(day, 8800 + 16 * 1_000_000);
        let timeless = Facts {
            duration_us: 0,
            ..facts
        };
        assert_eq!(exact_demand(Duration::from_secs(60), &timeless), day);
    }
}
