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
    /// By what factor the demand that was found differs from the one that was expected, as a natural logarithm: 0 for none,
    /// below 0 for less.
    pub fn drift(&self) -> f64 {
        let expected = real(self.demand_expected_bytes).max(1.0);
        let found = real(self.demand_found_bytes).max(1.0);
        (found / expected).ln()
    }

    /// By how much the hit ratio falls short of what the curve said, where it was measured.
    pub fn short(&self) -> Option<f64> {
        self.hits_found.map(|found| self.hits_expected - found)
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

    #[test]
    fn half_the_demand_is_as_far_off_as_twice() {
        let compared = |found| Compared {
            demand_expected_bytes: 100,
            demand_found_bytes: found,
            hits_expected: 0.8,
            hits_found: (found > 0).then_some(0.6),
        };
        assert!((compared(50).drift() + compared(200).drift()).abs() < 1e-12);
        assert!((compared(100).drift()).abs() < 1e-12);
        assert!(compared(0).drift() < -4.0);
        assert!((compared(50).short().unwrap() - 0.2).abs() < 1e-12);
        assert_eq!(compared(0).short(), None);
    }
}
