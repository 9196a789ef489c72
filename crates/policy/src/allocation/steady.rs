//! Hysteresis: small moves wait.
//!
//! A tenant **moves** if its target differs from its share by at least the set part of the greater of the
//! two, and by a segment, or if its share is outside its limits, or if it has just come. Who moves gets its
//! target. Who does not keeps its share, but for what the sum needs, which comes from those whose
//! targets lie that way, in proportion, and never beyond their targets:
//!
//! ```text
//!   before   A 100   B 100   C 100     a tenth of itself
//!   target   A  80   B 105   C 115     A and C move, B stays: 80 + 100 + 115 = 295,
//!   after    A  80   B 105   C 115     and B takes the 5 that are left, as its target lies that way
//! ```
//!
//! So each share after lies between the share before and the target, and limits that held for both hold
//! for it; and with constant targets the second time nobody moves: it converges at once. Where spare
//! flash idles, the sum needs nothing as long as it fits.

use super::fill::{Claim, fill};
use super::{Room, Tenant};

/// The shares: targets with small moves held back.
pub(super) fn steady(
    room: &Room,
    tenants: &[Tenant<'_>],
    targets: &[u32],
    idles: bool,
) -> Vec<u32> {
    let pairs = tenants.iter().zip(targets);
    let moves: Vec<bool> = pairs
        .clone()
        .map(|(tenant, target)| moves(room, tenant, *target))
        .collect();
    let held: Vec<u32> = pairs
        .zip(&moves)
        .map(|((tenant, target), moves)| match tenant.before {
            Some(before) if !moves => before,
            _ => *target,
        })
        .collect();
    let promised: u64 = held.iter().copied().map(u64::from).sum();
    let wanted: u32 = targets.iter().sum();
    // Where flash may idle, a sum between nothing and the capacity is as good as another, unless there is
    // demand for all of it.
    let (least, most) = if idles && wanted < room.capacity {
        (0, room.capacity)
    } else {
        (wanted, wanted)
    };
    let total = promised.clamp(u64::from(least), u64::from(most));
    let total = u32::try_from(total).expect("no more than the capacity");
    let shrinks = promised > u64::from(total);
    let claims: Vec<Claim> = (tenants.iter().zip(targets))
        .zip(&held)
        .map(|((tenant, &target), &held)| {
            let (floor, ceiling) = if shrinks {
                (target.min(held), held)
            } else {
                (held, target.max(held))
            };
            Claim {
                slot: tenant.slot,
                floor,
                ceiling,
                want: f64::from(held.max(1)),
            }
        })
        .collect();
    fill(total, &claims)
}

fn moves(room: &Room, tenant: &Tenant<'_>, target: u32) -> bool {
    let Some(before) = tenant.before else {
        return true;
    };
    let limits = tenant.limits.floor..=tenant.limits.most(room.capacity);
    let least = room.hysteresis.of_rounded_up(before.max(target)).max(1);
    !limits.contains(&before) || before.abs_diff(target) >= least
}
