//! Parts by weight, between floors and ceilings: what the operator says and nothing else.

use super::demand::fair_parts;
use super::{Allocator, Room, Tenant};
use crate::replacement::{About, Settings};

/// What is to be known of it.
pub const ABOUT: About = About {
    name: "static",
    other_names: &[],
    paper: "none: the operator's floors, ceilings and weights",
    queues: &[],
    parameters: &[],
    knows_future: false,
};

/// Parts by weight; no parameters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Static;

impl Settings for Static {}

impl Allocator for Static {
    fn targets(&self, room: &Room, tenants: &[Tenant<'_>]) -> Vec<u32> {
        fair_parts(room, tenants)
    }
}
