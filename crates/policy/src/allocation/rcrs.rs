//! Steps by rCrS, exactly as printed.
//!
//! Paper: D.-H. Song, Y. Lee and J.-S. Kim, *Improving Flash Cache Management for Virtualized System*,
//! poster. The score is the product of two ratios: re-accessed blocks by allocated ones, and shared blocks
//! by re-accessed ones.
//!
//! **Pitfall.** The re-accessed blocks cancel: what is left is shared by allocated blocks, which says nothing of
//! reuse and is 0 for every tenant that shares nothing, whatever it hits. Such tenants neither rise nor
//! fall, so between them nothing ever moves. [`super::rcrs_plus`] is the form that keeps the intent.

use super::step::{STEP, STEP_DEFAULT, parse_step, ratio, step};
use super::{Allocator, Cached, Room, Tenant};
use crate::replacement::{About, BadValue, Fraction, Settings};

/// What is to be known of it.
pub const ABOUT: About = About {
    name: "rcrs",
    other_names: &[],
    paper: "D.-H. Song, Y. Lee and J.-S. Kim, \"Improving Flash Cache Management for Virtualized System\", poster",
    queues: &[],
    parameters: &[STEP],
    knows_future: false,
};

/// Steps by [`score`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rcrs {
    /// Part of the cache that moves in an interval.
    pub step: Fraction,
}

impl Default for Rcrs {
    fn default() -> Self {
        Self { step: STEP_DEFAULT }
    }
}

impl Settings for Rcrs {
    fn set(&mut self, _name: &str, value: &str) -> Result<(), BadValue> {
        self.step = parse_step(value)?;
        Ok(())
    }

    fn get(&self, _name: &str) -> String {
        self.step.to_string()
    }
}

/// Re-accessed by allocated, times shared by re-accessed; 0 if nothing was re-accessed.
pub fn score(cached: Cached) -> f64 {
    ratio(cached.reaccessed, cached.allocated) * ratio(cached.shared, cached.reaccessed)
}

impl Allocator for Rcrs {
    fn targets(&self, room: &Room, tenants: &[Tenant<'_>]) -> Vec<u32> {
        step(room, tenants, self.step, score)
    }

    fn is_steadied(&self) -> bool {
        false
    }
}
