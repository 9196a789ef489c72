//! Equal parts, whatever the weights, between floors and ceilings.
//!
//! The paper's first window, and the yardstick of fairness.

use super::demand::by_weight;
use super::fill::{Claim, fill};
use super::{Allocator, Room, Tenant};
use crate::replacement::{About, Settings};

/// What is to be known of it.
pub const ABOUT: About = About {
    name: "equal",
    other_names: &[],
    paper: "none: the obvious",
    queues: &[],
    parameters: &[],
    knows_future: false,
};

/// Equal parts; no parameters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Equal;

impl Settings for Equal {}

impl Allocator for Equal {
    fn targets(&self, room: &Room, tenants: &[Tenant<'_>]) -> Vec<u32> {
        let claims = by_weight(room, tenants);
        let equal: Vec<Claim> = claims
            .into_iter()
            .map(|claim| Claim { want: 1.0, ..claim })
            .collect();
        fill(room.capacity, &equal)
    }
}
