//! What a move found at its target, beside what its plan expected.
//!
//! A plan believes what hosts publish. A host whose estimator is wrong, or that does not tell the truth, is found out by
//! the moves that rely on it: the VM needs at the target what it needed at the source, and hits as its curve said.

use crate::load::HostLoad;
use crate::name::Name;
use crate::plan::Proposed;
use serde::{Deserialize, Serialize};
use units::number::real;
use units::{Bytes, Instant};

/// By what factor a VM's demand at the target may differ from its demand at the source. A demand that follows the
/// hours of the day changes by less in a window or two.
const DEMAND_FACTOR: f64 = 1.5;

/// By how much the hit ratio may fall short of what the curve said.
const HITS_SHORT: f64 = 0.10;

/// One move's expectation and what came of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The host that the VM went to.
    pub host: Name,
    /// The VM.
    pub vm: Name,
    /// When it was compared.
    pub at: Instant,
    /// Predicted and found.
    pub compared: Compared,
}

/// The figures that are compared.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Compared {
    /// The VM's working set as its plan had it, in bytes.
    pub demand_expected_bytes: u64,
    /// Its working set as the target publishes it, in bytes.
    pub demand_found_bytes: u64,
    /// Its hit ratio at the target by its curve.
    pub hits_expected: f64,
    /// Its hit ratio at the target as measured, where it was.
    pub hits_found: Option<f64>,
}

impl Compared {
    /// Whether what was found does not fit what the target had published.
    pub fn is_misfit(&self) -> bool {
        let expected = real(self.demand_expected_bytes).max(1.0);
        let found = real(self.demand_found_bytes).max(1.0);
        let factor = (expected / found).max(found / expected);
        let short = self
            .hits_found
            .is_some_and(|found| self.hits_expected - found > HITS_SHORT);
        factor > DEMAND_FACTOR || short
    }
}

impl Finding {
    /// Compares a move that is done with what its target publishes a window or more later. `None` while the target does
    /// not name the VM.
    pub fn of(planned: &Proposed, target: &HostLoad, now: Instant) -> Option<Self> {
        if target.host != planned.to {
            return None;
        }
        let vm = target.vm(&planned.vm)?;
        Some(Self {
            host: target.host.clone(),
            vm: planned.vm.clone(),
            at: now,
            compared: Compared {
                demand_expected_bytes: planned.demand.get(),
                demand_found_bytes: vm.rwss.get(),
                hits_expected: planned.expected.vm_hits,
                hits_found: vm.hits,
            },
        })
    }

    /// The demand that the plan had expected.
    pub const fn demand_expected(&self) -> Bytes {
        Bytes::new(self.compared.demand_expected_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compared(found: u64, hits_found: Option<f64>) -> Compared {
        Compared {
            demand_expected_bytes: 100,
            demand_found_bytes: found,
            hits_expected: 0.8,
            hits_found,
        }
    }

    #[test]
    fn a_demand_that_shrank_to_half_does_not_fit() {
        assert!(compared(50, None).is_misfit());
        assert!(compared(160, None).is_misfit());
        assert!(!compared(75, None).is_misfit());
        assert!(compared(0, None).is_misfit());
    }

    #[test]
    fn hits_that_fall_short_do_not_fit() {
        assert!(compared(100, Some(0.6)).is_misfit());
        assert!(!compared(100, Some(0.75)).is_misfit());
        assert!(!compared(100, Some(0.95)).is_misfit());
    }
}
