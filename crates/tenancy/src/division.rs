//! How flash and staging memory are divided for the next window.
//!
//! ```text
//!   every tenant: demand of its own window ─► filter ─► prediction ┐
//!                 live curve, cached blocks ───────────────────────┼─► allocation ─► hysteresis ─► shares
//!                 floor, ceiling, weight ──────────────────────────┘                                 │
//!                                                        staging memory in proportion to shares ◄────┘
//! ```

use crate::settings::{Capacity, Settings, Spare};
use crate::shares::{Share, Shares};
use crate::tenants::Tenants;
use policy::allocation::{self, Room};
use policy::replacement::Key;
use units::{BLOCK_BYTES, Bytes, Instant};

/// Divides the flash by what is known now.
pub(crate) fn divide<K: Key + Into<u64>>(
    tenants: &Tenants<K>,
    settings: &Settings,
    capacity: Capacity,
    before: &Shares,
    now: Instant,
) -> Shares {
    let segments = |slot| before.get(slot).map(|share| share.segments);
    let claims: Vec<_> = tenants
        .each()
        .map(|(slot, tenant)| tenant.claim(slot, capacity, segments(slot)))
        .collect();
    let room = Room {
        capacity: capacity.segments,
        segment_blocks: capacity.segment_blocks,
        spare: match settings.spare {
            Spare::Lent => allocation::Spare::Spread,
            Spare::Idle | Spare::Strict => allocation::Spare::Idle,
        },
        hysteresis: settings.hysteresis,
    };
    let divided = settings.allocation.divide(&room, &claims);
    let division = divided.expect("limits were checked when they were set");
    let shares = division.shares.iter().zip(&division.targets);
    let of = claims.iter().zip(shares);
    let of = of.map(|(claim, (&segments, &target_segments))| Share {
        tenant: claim.slot,
        segments,
        target_segments,
    });
    Shares {
        since: now,
        window: before.window,
        overloaded: division.is_overloaded(),
        idle_segments: division.idle,
        load: division.load,
        of: of.collect(),
    }
}

/// The part of the staging memory that goes with so many segments of `total`, which is not zero.
pub(crate) fn staging_of(segments: u32, total: u64, staging: Bytes) -> Bytes {
    let part = u128::from(staging.get()) * u128::from(segments) / u128::from(total);
    let part = u64::try_from(part).expect("a part of 64 bits");
    Bytes::new(part / BLOCK_BYTES * BLOCK_BYTES)
}
