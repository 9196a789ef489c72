//! Steps by rCrS in the form that keeps its intent.
//!
//! Paper: as [`super::rcrs`]; the form is ours. The poster wants a tenant with more shared blocks to be chosen as a
//! victim less often. So sharing raises the score instead of scaling it from nothing:
//! re-accessed by allocated, times (1 + shared by re-accessed). Without shared blocks it is rECS.

use super::step::{STEP, STEP_DEFAULT, parse_step, ratio, step};
use super::{Allocator, Cached, Room, Tenant};
use crate::replacement::{About, BadValue, Fraction, Settings};

/// What is to be known of it.
pub const ABOUT: About = About {
    name: "rcrs-plus",
    other_names: &[],
    paper: "after D.-H. Song, Y. Lee and J.-S. Kim, \"Improving Flash Cache Management for Virtualized System\", poster",
    queues: &[],
    parameters: &[STEP],
    knows_future: false,
};

/// Steps by [`score`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RcrsPlus {
    /// Part of the cache that moves in an interval.
    pub step: Fraction,
}

impl Default for RcrsPlus {
    fn default() -> Self {
        Self { step: STEP_DEFAULT }
    }
}

impl Settings for RcrsPlus {
    fn set(&mut self, _name: &str, value: &str) -> Result<(), BadValue> {
        self.step = parse_step(value)?;
        Ok(())
    }

    fn get(&self, _name: &str) -> String {
        self.step.to_string()
    }
}

/// Re-accessed by allocated, times one and shared by re-accessed; 0 if nothing was re-accessed.
pub fn score(cached: Cached) -> f64 {
    let shared = ratio(cached.shared, cached.reaccessed);
    ratio(cached.reaccessed, cached.allocated) * (1.0 + shared)
}

impl Allocator for RcrsPlus {
    fn targets(&self, room: &Room, tenants: &[Tenant<'_>]) -> Vec<u32> {
        step(room, tenants, self.step, score)
    }

    fn is_steadied(&self) -> bool {
        false
    }
}
