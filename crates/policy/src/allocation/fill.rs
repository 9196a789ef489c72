//! Filling to a common level: the arithmetic that most allocators share.
//!
//! ```text
//!   share of each = its want x level, but not below its floor nor above its ceiling
//!
//!        ┌──┐ ceiling           the level is the one at which the shares sum to the total
//!   ─────│~~│────────── level
//!   │~~│ │~~│ ┌──┐ floor
//!   │~~│ │~~│ │~~│
//! ```
//!
//! The sum grows with the level, linearly between the levels at which somebody leaves its floor or meets
//! its ceiling; so the level is found by looking among those and on the line between two of them.
//! Whole segments by largest remainders; of equal remainders the lower slot's goes first, so that the
//! order of the tenants does not matter.

use units::TenantSlot;

/// What one tenant wants of a total.
#[derive(Clone, Copy, Debug)]
pub(super) struct Claim {
    pub(super) slot: TenantSlot,
    pub(super) floor: u32,
    pub(super) ceiling: u32,
    /// Zero or more, finite.
    pub(super) want: f64,
}

impl Claim {
    fn at(&self, level: f64) -> f64 {
        (self.want * level).clamp(f64::from(self.floor), f64::from(self.ceiling))
    }
}

/// Shares that sum to the total, or to all ceilings if they come to less. Tenants that want nothing get
/// their floors, and of what the others cannot take equal parts.
///
/// # Panics
/// If the floors come to more than the total.
pub(super) fn fill(total: u32, claims: &[Claim]) -> Vec<u32> {
    // By slot, because sums of floating-point numbers depend on the order a little, and a segment on them.
    let mut order: Vec<usize> = (0..claims.len()).collect();
    order.sort_by_key(|&at| claims[at].slot);
    let sorted: Vec<Claim> = order.iter().map(|&at| claims[at]).collect();
    let mut shares = vec![0; claims.len()];
    for (&at, share) in order.iter().zip(fill_by_slot(total, &sorted)) {
        shares[at] = share;
    }
    shares
}

fn fill_by_slot(total: u32, claims: &[Claim]) -> Vec<u32> {
    let ceilings: u64 = claims.iter().map(|claim| u64::from(claim.ceiling)).sum();
    let floors: u64 = claims.iter().map(|claim| u64::from(claim.floor)).sum();
    assert!(floors <= u64::from(total), "floors fit the total");
    let total = u32::try_from(ceilings.min(u64::from(total))).expect("at most a u32");
    let wanting: u64 = claims
        .iter()
        .map(|claim| {
            u64::from(if claim.want > 0.0 {
                claim.ceiling
            } else {
                claim.floor
            })
        })
        .sum();
    if wanting < u64::from(total) {
        let rest: Vec<Claim> = claims.iter().map(Claim::without_want).collect();
        return fill_by_slot(total, &rest);
    }
    let level = level(f64::from(total), claims);
    let exact: Vec<f64> = claims.iter().map(|claim| claim.at(level)).collect();
    whole(total, claims, &exact)
}

impl Claim {
    /// Who wants something gets all it can, the others equal parts of the rest.
    fn without_want(&self) -> Self {
        if self.want > 0.0 {
            Self {
                floor: self.ceiling,
                ..*self
            }
        } else {
            Self { want: 1.0, ..*self }
        }
    }
}

/// The level at which the claims sum to the total, which lies between their floors and their ceilings.
fn level(total: f64, claims: &[Claim]) -> f64 {
    let sum = |level: f64| claims.iter().map(|claim| claim.at(level)).sum::<f64>();
    let wanting = claims.iter().filter(|claim| claim.want > 0.0);
    let mut levels: Vec<f64> = wanting
        .flat_map(|claim| [claim.floor, claim.ceiling].map(|limit| f64::from(limit) / claim.want))
        .collect();
    levels.push(0.0);
    levels.sort_by(f64::total_cmp);
    let above = levels.partition_point(|level| sum(*level) < total);
    let (Some(&high), Some(&low)) = (levels.get(above), levels.get(above.saturating_sub(1))) else {
        return levels[levels.len() - 1];
    };
    let (from, to) = (sum(low), sum(high));
    if to > from {
        low + (high - low) * ((total - from) / (to - from))
    } else {
        high
    }
}

/// Whole shares that sum to the total, each within one of the exact one and within its limits.
fn whole(total: u32, claims: &[Claim], exact: &[f64]) -> Vec<u32> {
    let mut shares: Vec<u32> = claims
        .iter()
        .zip(exact)
        .map(|(claim, exact)| down(*exact).clamp(claim.floor, claim.ceiling))
        .collect();
    let mut order: Vec<usize> = (0..claims.len()).collect();
    let rest = |at: usize| exact[at] - f64::from(down(exact[at]));
    order.sort_by(|&one, &other| {
        let by_rest = rest(other).total_cmp(&rest(one));
        by_rest.then(claims[one].slot.cmp(&claims[other].slot))
    });
    let given: u64 = shares.iter().copied().map(u64::from).sum();
    let mut left = i64::from(total) - i64::try_from(given).expect("a few u32");
    // Once around, but for what rounding of the level has left.
    while left != 0 {
        let before = left;
        for &at in &order {
            if left > 0 && shares[at] < claims[at].ceiling {
                shares[at] += 1;
                left -= 1;
            }
        }
        for &at in order.iter().rev() {
            if left < 0 && shares[at] > claims[at].floor {
                shares[at] -= 1;
                left += 1;
            }
        }
        assert!(left != before, "the total is between floors and ceilings");
    }
    shares
}

/// Down to a whole number, but for what floating point has lost of one.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share is between 0 and the capacity"
)]
fn down(exact: f64) -> u32 {
    (exact * (1.0 + 1e-12)).floor() as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn claims(list: &[(u32, u32, f64)]) -> Vec<Claim> {
        (0..)
            .zip(list)
            .map(|(slot, &(floor, ceiling, want))| Claim {
                slot: TenantSlot::new(slot),
                floor,
                ceiling,
                want,
            })
            .collect()
    }

    #[test]
    fn parts_are_in_proportion_to_wants_within_limits() {
        // 100 in proportion 1:2:2.
        assert_eq!(
            fill(100, &claims(&[(0, 100, 1.0), (0, 100, 2.0), (0, 100, 2.0)])),
            [20, 40, 40]
        );
        // The first has a floor of 40, so the others share 60.
        assert_eq!(
            fill(
                100,
                &claims(&[(40, 100, 1.0), (0, 100, 2.0), (0, 100, 2.0)])
            ),
            [40, 30, 30]
        );
        // The second has a ceiling of 10, so the others share 90 as 1:2.
        assert_eq!(
            fill(100, &claims(&[(0, 100, 1.0), (0, 10, 2.0), (0, 100, 2.0)])),
            [30, 10, 60]
        );
    }

    #[test]
    fn what_is_left_of_whole_segments_goes_by_remainder_then_by_slot() {
        // 3.33 each: the first one gets the tenth.
        assert_eq!(
            fill(10, &claims(&[(0, 10, 1.0), (0, 10, 1.0), (0, 10, 1.0)])),
            [4, 3, 3]
        );
        // 1.25, 3.75, 5.
        assert_eq!(
            fill(10, &claims(&[(0, 10, 1.0), (0, 10, 3.0), (0, 10, 4.0)])),
            [1, 4, 5]
        );
    }

    #[test]
    fn who_wants_nothing_gets_what_nobody_else_can_take() {
        assert_eq!(
            fill(100, &claims(&[(0, 30, 1.0), (0, 100, 0.0), (5, 100, 0.0)])),
            [30, 35, 35]
        );
        assert_eq!(fill(100, &claims(&[(0, 30, 1.0), (0, 30, 1.0)])), [30, 30]);
        assert_eq!(fill(7, &[]), Vec::<u32>::new());
    }

    proptest! {
        #[test]
        fn shares_sum_to_the_total_within_the_limits(
            list in prop::collection::vec((0u32..50, 0u32..500, 0.0..1e6_f64), 1..40), more in 0u32..5000,
        ) {
            let list: Vec<_> = list
                .into_iter()
                .map(|(floor, width, want)| (floor, floor + width, want))
                .collect();
            let claims = claims(&list);
            let floors: u32 = list.iter().map(|one| one.0).sum();
            let ceilings: u32 = list.iter().map(|one| one.1).sum();
            let shares = fill(floors + more, &claims);
            prop_assert_eq!(shares.iter().sum::<u32>(), (floors + more).min(ceilings));
            for (share, one) in shares.iter().zip(&list) {
                prop_assert!((one.0..=one.1).contains(share));
            }
        }
    }
}
