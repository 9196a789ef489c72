//! How a cache's flash is divided among its tenants.
//!
//! ```text
//!   tenants: limits, demand, curve, counts ─► check ─► an Allocator (a file each) ─► targets
//!                                               │                                       │
//!                 contradictions, with the arithmetic             steady: small moves wait
//!                                                                                       ▼
//!                                                                                    Division
//! ```
//!
//! All of it is a function of its arguments: no state, no clock. Who calls it (at the start of each
//! window) keeps what has to be kept and hands it in: the shares before, the counts before.
//!
//! A share is a promise about room, not a place: nothing is moved when shares change. The log gives a
//! tenant below its share room from those above theirs when room is needed.
//!
//! Held by every allocator, and tested: shares never exceed the capacity; floors and ceilings hold; the
//! order of the tenants does not matter; a greater weight never means a smaller share, where weights
//! count. Shares sum to the capacity unless spare flash is left idle or every tenant is at its ceiling.
//!
//! Units: shares in segments, demands in blocks, latencies in microseconds.

pub mod equal;
pub mod rcrs;
pub mod rcrs_plus;
pub mod recs;
pub mod rwss;
pub mod static_shares;
pub mod utility;
pub mod wss;

mod demand;
mod fill;
mod limits;
mod registry;
mod steady;
mod step;

pub use limits::{BadLimits, Limits, check};
pub use registry::Spec;

use crate::replacement::Fraction;
use units::TenantSlot;

/// What is to be divided, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Segments of the cache that tenants can have.
    pub capacity: u32,
    /// Blocks that a segment holds.
    pub segment_blocks: u32,
    /// What happens to flash that nobody has demand for.
    pub spare: Spare,
    /// A share moves only if it does by this part of itself, before or after, whichever is more.
    pub hysteresis: Fraction,
}

/// Flash that nobody has demand for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Spare {
    /// Goes to the tenants in proportion to their demands.
    #[default]
    Spread,
    /// Stays idle, which saves wear: under `wss`, `rwss` and `utility`. The others know of no demand that
    /// could be met, and share out everything.
    Idle,
}

/// A tenant, as an allocator sees it. Each allocator looks at what it needs: see its file.
#[derive(Clone, Copy, Debug)]
pub struct Tenant<'a> {
    /// Which; no two are the same.
    pub slot: TenantSlot,
    /// What the operator said.
    pub limits: Limits,
    /// Its share until now; `None` for one that has just come.
    pub before: Option<u32>,
    /// Predicted `WSS` in blocks; `None` while there is no prediction.
    pub wss: Option<f64>,
    /// Predicted `RWSS_N` in blocks; `None` while there is no prediction.
    pub rwss: Option<f64>,
    /// Its cached blocks now.
    pub cached: Cached,
    /// Its cached blocks when shares were decided last.
    pub cached_before: Cached,
    /// Its hit ratio by size, rising sizes: its live curve, over what is counted as an access in
    /// `accesses_a_second`. Empty while there is none. A base image's curve is over the accesses of all
    /// VMs that read it, and theirs are without them, so that a shared block counts once.
    pub curve: &'a [Size],
    /// Accesses a second that the curve is over.
    pub accesses_a_second: f64,
    /// Time that a hit saves: the origin's latency less the flash's.
    pub saved_us: f64,
}

/// A size and what it would hit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Size {
    /// Blocks of cache.
    pub blocks: u64,
    /// Hits by accesses, 0 to 1.
    pub hit_ratio: f64,
}

/// Counts of a tenant's cached blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cached {
    /// Blocks of flash that are its own.
    pub allocated: u64,
    /// Of those, accessed again since they were admitted ("effective").
    pub reaccessed: u64,
    /// Cached blocks that it and another tenant have accessed.
    pub shared: u64,
}

/// Shares, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Division {
    /// By tenant, in the order in which they were given.
    pub shares: Vec<u32>,
    /// What the allocator wanted before small moves were held back.
    pub targets: Vec<u32>,
    /// Segments promised to nobody.
    pub idle: u32,
    /// Demand of all tenants, in blocks: predicted `WSS` for `wss`, `RWSS_N` for all others.
    pub demand_blocks: f64,
    /// That demand by the capacity: above 1 the cache is overloaded. 0 if there is no capacity.
    pub load: f64,
}

impl Division {
    /// True if the tenants' demand exceeds the cache.
    pub fn is_overloaded(&self) -> bool {
        self.load > 1.0
    }
}

/// A way to divide. Every method is a function of its arguments.
pub trait Allocator {
    /// What each tenant should have, in the order of the tenants, whose limits were checked.
    fn targets(&self, room: &Room, tenants: &[Tenant<'_>]) -> Vec<u32>;

    /// Whether [`Room::hysteresis`] applies. It does not where shares move in steps anyway.
    fn is_steadied(&self) -> bool {
        true
    }

    /// Whether flash without demand is left to nobody where [`Room::spare`] says so.
    fn can_idle(&self) -> bool {
        false
    }

    /// The tenant's demand in blocks, for the report.
    fn demand(&self, tenant: &Tenant<'_>) -> Option<f64> {
        tenant.rwss
    }
}

impl Spec {
    /// Divides the room.
    ///
    /// # Errors
    /// If the tenants' limits contradict each other or the capacity.
    ///
    /// # Panics
    /// If two tenants have one slot, or a prediction is negative or not finite.
    pub fn divide(&self, room: &Room, tenants: &[Tenant<'_>]) -> Result<Division, BadLimits> {
        let limits: Vec<_> = tenants.iter().map(|one| (one.slot, one.limits)).collect();
        check(room.capacity, &limits)?;
        assert_well_formed(tenants);
        let allocator = self.allocator();
        let targets = allocator.targets(room, tenants);
        let shares = if allocator.is_steadied() {
            let idles = allocator.can_idle() && room.spare == Spare::Idle;
            steady::steady(room, tenants, &targets, idles)
        } else {
            targets.clone()
        };
        let promised: u32 = shares.iter().sum();
        assert!(
            promised <= room.capacity,
            "no more is promised than there is"
        );
        let demands = tenants.iter().filter_map(|tenant| allocator.demand(tenant));
        let demand_blocks: f64 = demands.sum();
        let blocks = f64::from(room.capacity) * f64::from(room.segment_blocks);
        Ok(Division {
            shares,
            targets,
            idle: room.capacity - promised,
            demand_blocks,
            load: if blocks > 0.0 {
                demand_blocks / blocks
            } else {
                0.0
            },
        })
    }
}

fn assert_well_formed(tenants: &[Tenant<'_>]) {
    let mut slots: Vec<_> = tenants.iter().map(|tenant| tenant.slot).collect();
    slots.sort_unstable();
    assert!(
        slots.windows(2).all(|pair| pair[0] != pair[1]),
        "each tenant has a slot of its own"
    );
    for tenant in tenants {
        for demand in [tenant.wss, tenant.rwss].into_iter().flatten() {
            assert!(
                demand >= 0.0 && demand.is_finite(),
                "a demand is a finite number, zero or more"
            );
        }
    }
}
