//! Parts by predicted working set: CloudCache's own comparison.
//!
//! What was touched, scans included, is taken for demand; it is what `rwss` improves on.

use super::demand::by_demand;
use super::{Allocator, Room, Tenant};
use crate::replacement::{About, Settings};

/// What is to be known of it.
pub const ABOUT: About = About {
    name: "wss",
    other_names: &[],
    paper: "D. Arteaga et al., \"CloudCache: On-demand Flash Cache Management for Cloud Computing\", FAST 2016",
    queues: &[],
    parameters: &[],
    knows_future: false,
};

/// Parts by predicted working set; no parameters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wss;

impl Settings for Wss {}

impl Allocator for Wss {
    fn targets(&self, room: &Room, tenants: &[Tenant<'_>]) -> Vec<u32> {
        by_demand(room, tenants, |tenant| tenant.wss)
    }

    fn demand(&self, tenant: &Tenant<'_>) -> Option<f64> {
        tenant.wss
    }

    fn can_idle(&self) -> bool {
        true
    }
}
