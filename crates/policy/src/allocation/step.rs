//! Shares that move in steps between two tenants an interval: what `recs`, `rcrs` and `rcrs-plus` have
//! in common.
//!
//! ```text
//!   score      now   before
//!   A          .80    .60    rising, the highest of those     ◄── gets a step
//!   B          .70    .75                                      ▲
//!   C          .20    .30    falling, the lowest of those     ─┘ gives it
//! ```
//!
//! Papers: T. Luo et al., *S-CAVE*, PACT 2013; D.-H. Song et al., *Improving Flash Cache Management for
//! Virtualized System* (poster). They name the two tenants and not how much moves; a step is a part of
//! the capacity, a parameter. All of the capacity is always shared out, in equal parts at first. A newcomer
//! gets an equal part, for which the others' shares shrink in proportion.

use super::fill::{Claim, fill};
use super::{Cached, Room, Tenant};
use crate::replacement::{BadValue, Fraction, Parameter};

/// How much moves.
pub(super) const STEP: Parameter = Parameter {
    name: "step",
    meaning: "part of the cache that moves in an interval",
    takes: "a number from 0.0001 to 1",
};

/// A fiftieth.
pub(super) const STEP_DEFAULT: Fraction = Fraction::millionths(20_000);

/// Reads a step.
pub(super) fn parse_step(value: &str) -> Result<Fraction, BadValue> {
    Fraction::parse(value, Fraction::millionths(100), Fraction::ONE)
}

/// Of the score's two forms: a part of what, 0 if there is nothing.
pub(super) fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        return 0.0;
    }
    units::number::real(part) / units::number::real(whole)
}

/// The shares after this interval's step.
pub(super) fn step(
    room: &Room,
    tenants: &[Tenant<'_>],
    step: Fraction,
    score: impl Fn(Cached) -> f64,
) -> Vec<u32> {
    let claims = claims(room, tenants);
    let mut shares = fill(room.capacity, &claims);
    let scores = tenants
        .iter()
        .map(|tenant| (score(tenant.cached), score(tenant.cached_before)));
    let scores: Vec<(f64, f64)> = scores.collect();
    let slot = |at: &usize| tenants[*at].slot;
    let taker = (0..tenants.len())
        .filter(|&at| scores[at].0 > scores[at].1 && shares[at] < claims[at].ceiling)
        .min_by(|one, other| {
            let highest = scores[*other].0.total_cmp(&scores[*one].0);
            highest.then(slot(one).cmp(&slot(other)))
        });
    let giver = (0..tenants.len())
        .filter(|&at| scores[at].0 < scores[at].1 && shares[at] > claims[at].floor)
        .min_by(|one, other| {
            let lowest = scores[*one].0.total_cmp(&scores[*other].0);
            lowest.then(slot(one).cmp(&slot(other)))
        });
    if let (Some(taker), Some(giver)) = (taker, giver) {
        let moved = step
            .of_rounded_up(room.capacity)
            .min(shares[giver] - claims[giver].floor)
            .min(claims[taker].ceiling - shares[taker]);
        shares[taker] += moved;
        shares[giver] -= moved;
    }
    shares
}

/// The shares before, within limits that may have changed and among tenants that may have.
fn claims(room: &Room, tenants: &[Tenant<'_>]) -> Vec<Claim> {
    let count = u32::try_from(tenants.len().max(1)).expect("tenants are counted in 16 bits");
    let equal = f64::from(room.capacity) / f64::from(count);
    tenants
        .iter()
        .map(|tenant| Claim {
            slot: tenant.slot,
            floor: tenant.limits.floor,
            ceiling: tenant.limits.most(room.capacity),
            want: tenant.before.map_or(equal, f64::from),
        })
        .collect()
}
