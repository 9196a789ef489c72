//! Steps by rECS, the ratio of effective cache space: S-CAVE.
//!
//! Paper: T. Luo, S. Ma, R. Lee, X. Zhang, D. Liu and L. Zhou, *S-CAVE: Effective SSD Caching to Improve
//! Virtual Machine Storage Performance*, PACT 2013. The score is the part of a tenant's blocks that was
//! accessed again; how shares move is in `step.rs`.

use super::step::{STEP, STEP_DEFAULT, parse_step, ratio, step};
use super::{Allocator, Cached, Room, Tenant};
use crate::replacement::{About, BadValue, Fraction, Settings};

/// What is to be known of it.
pub const ABOUT: About = About {
    name: "recs",
    other_names: &["s-cave"],
    paper: "T. Luo et al., \"S-CAVE: Effective SSD Caching to Improve Virtual Machine Storage Performance\", PACT 2013",
    queues: &[],
    parameters: &[STEP],
    knows_future: false,
};

/// Steps by [`score`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recs {
    /// Part of the cache that moves in an interval.
    pub step: Fraction,
}

impl Default for Recs {
    fn default() -> Self {
        Self { step: STEP_DEFAULT }
    }
}

impl Settings for Recs {
    fn set(&mut self, _name: &str, value: &str) -> Result<(), BadValue> {
        self.step = parse_step(value)?;
        Ok(())
    }

    fn get(&self, _name: &str) -> String {
        self.step.to_string()
    }
}

/// Re-accessed blocks by allocated ones.
pub fn score(cached: Cached) -> f64 {
    ratio(cached.reaccessed, cached.allocated)
}

impl Allocator for Recs {
    fn targets(&self, room: &Room, tenants: &[Tenant<'_>]) -> Vec<u32> {
        step(room, tenants, self.step, score)
    }

    fn is_steadied(&self) -> bool {
        false
    }
}
