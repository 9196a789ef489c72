//! Parts by predicted reuse working set: CloudCache's allocation.
//!
//! Paper: D. Arteaga et al., *CloudCache*, FAST 2016, sections 4.1 to 4.3.

use super::demand::by_demand;
use super::{Allocator, Room, Tenant};
use crate::replacement::{About, Settings};

/// What is to be known of it.
pub const ABOUT: About = About {
    name: "rwss",
    other_names: &["cloudcache"],
    paper: "D. Arteaga et al., \"CloudCache: On-demand Flash Cache Management for Cloud Computing\", FAST 2016",
    queues: &[],
    parameters: &[],
    knows_future: false,
};

/// Parts by predicted reuse working set; no parameters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rwss;

impl Settings for Rwss {}

impl Allocator for Rwss {
    fn targets(&self, room: &Room, tenants: &[Tenant<'_>]) -> Vec<u32> {
        by_demand(room, tenants, |tenant| tenant.rwss)
    }

    fn can_idle(&self) -> bool {
        true
    }
}
