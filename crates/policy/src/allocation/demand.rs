//! Shares by predicted demand: what `wss` and `rwss` have in common.
//!
//! ```text
//!   demands fit    each its demand; the spare in proportion to weight x demand, or idle
//!   they do not    in proportion to weight x demand, nobody beyond its demand
//! ```
//!
//! Paper: CloudCache (see [`crate::demand`]), sections 4.3 and 6. Weights, floors and ceilings are ours;
//! with equal weights and no limits it is the paper's. A tenant without a prediction counts with a fair
//! part of the capacity, as all of the paper's do in their first window.

use super::fill::{Claim, fill};
use super::{Room, Spare, Tenant};
use units::number::count_up;

/// The claims of tenants that all want in proportion to their weights.
pub(super) fn by_weight(room: &Room, tenants: &[Tenant<'_>]) -> Vec<Claim> {
    tenants
        .iter()
        .map(|tenant| Claim {
            slot: tenant.slot,
            floor: tenant.limits.floor,
            ceiling: tenant.limits.most(room.capacity),
            want: f64::from(tenant.limits.weight),
        })
        .collect()
}

/// What each would have by weight alone.
pub(super) fn fair_parts(room: &Room, tenants: &[Tenant<'_>]) -> Vec<u32> {
    fill(room.capacity, &by_weight(room, tenants))
}

/// Shares by these demands in blocks, `None` while there is no prediction.
pub(super) fn by_demand(
    room: &Room,
    tenants: &[Tenant<'_>],
    demand: impl Fn(&Tenant<'_>) -> Option<f64>,
) -> Vec<u32> {
    let segment = f64::from(room.segment_blocks);
    let fair = fair_parts(room, tenants);
    let wants = tenants.iter().zip(&fair).map(|(tenant, fair)| {
        // In segments; an unknown demand is a fair part.
        demand(tenant).map_or(f64::from(*fair), |blocks| blocks / segment)
    });
    let wants: Vec<f64> = wants.collect();
    let claims = by_weight(room, tenants);
    let needs: Vec<u32> = claims
        .iter()
        .zip(&wants)
        .map(|(claim, want)| segments_up(*want).clamp(claim.floor, claim.ceiling))
        .collect();
    let sum: u64 = needs.iter().copied().map(u64::from).sum();
    let fits = sum <= u64::from(room.capacity);
    if fits && room.spare == Spare::Idle {
        return needs;
    }
    let claims: Vec<Claim> = claims
        .into_iter()
        .zip(wants.iter().zip(&needs))
        .map(|(claim, (want, need))| Claim {
            want: want * claim.want,
            floor: if fits { *need } else { claim.floor },
            ceiling: if fits { claim.ceiling } else { *need },
            ..claim
        })
        .collect();
    fill(room.capacity, &claims)
}

/// Up to a whole number; beyond 32 bits the largest.
fn segments_up(segments: f64) -> u32 {
    u32::try_from(count_up(segments)).unwrap_or(u32::MAX)
}
