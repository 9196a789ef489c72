//! What the operator says of a tenant's share, and whether it can be.

use units::TenantSlot;

/// The weights there are: a hundred is usual.
const WEIGHT_MAX: u32 = 10_000;

/// A tenant's floor, ceiling and weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Segments that it has in any case.
    pub floor: u32,
    /// Segments that it never has more than; `None` for no ceiling.
    pub ceiling: Option<u32>,
    /// What its demand, or a hit of its, counts beside another's, from 1 to 10,000.
    pub weight: u32,
}

impl Default for Limits {
    /// No floor, no ceiling, weight 100.
    fn default() -> Self {
        Self {
            floor: 0,
            ceiling: None,
            weight: 100,
        }
    }
}

impl Limits {
    /// The ceiling, or what there is.
    pub(super) fn most(&self, capacity: u32) -> u32 {
        self.ceiling
            .map_or(capacity, |ceiling| ceiling.min(capacity))
    }
}

/// Limits that cannot all hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadLimits {
    /// More is promised than there is.
    #[error(
        "the floors of {tenants} tenants come to {floors} segments, {} more than the {capacity} there are: lower floors by {} segments, or add flash",
        floors - u64::from(*capacity),
        floors - u64::from(*capacity)
    )]
    Floors {
        /// Tenants that have a floor.
        tenants: usize,
        /// The sum.
        floors: u64,
        /// What there is.
        capacity: u32,
    },
    /// One tenant is promised more than it may have.
    #[error(
        "a floor of {floor} segments is {} above a ceiling of {ceiling}: lower the floor or raise the ceiling",
        floor - ceiling
    )]
    FloorAboveCeiling {
        /// Which tenant.
        tenant: TenantSlot,
        /// Its floor.
        floor: u32,
        /// Its ceiling.
        ceiling: u32,
    },
    /// Weights count from 1.
    #[error("a weight of {weight}: give a number from 1 to {WEIGHT_MAX}")]
    Weight {
        /// Which tenant.
        tenant: TenantSlot,
        /// Its weight.
        weight: u32,
    },
}

/// Whether the tenants' limits can all hold in a cache of so many segments.
///
/// # Errors
/// If they cannot; the first reason, tenants before sums.
pub fn check(capacity: u32, tenants: &[(TenantSlot, Limits)]) -> Result<(), BadLimits> {
    for &(tenant, limits) in tenants {
        if !(1..=WEIGHT_MAX).contains(&limits.weight) {
            let weight = limits.weight;
            return Err(BadLimits::Weight { tenant, weight });
        }
        let floor = limits.floor;
        if let Some(ceiling) = limits.ceiling.filter(|ceiling| *ceiling < floor) {
            return Err(BadLimits::FloorAboveCeiling {
                tenant,
                floor,
                ceiling,
            });
        }
    }
    let floors = tenants.iter().map(|(_, limits)| u64::from(limits.floor));
    let floors: u64 = floors.sum();
    if floors > u64::from(capacity) {
        let with = tenants.iter().filter(|(_, limits)| limits.floor > 0);
        return Err(BadLimits::Floors {
            tenants: with.count(),
            floors,
            capacity,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(floor: u32, ceiling: Option<u32>, weight: u32) -> Limits {
        Limits {
            floor,
            ceiling,
            weight,
        }
    }

    fn refused(capacity: u32, list: &[Limits]) -> String {
        let tenants: Vec<_> = (0..)
            .zip(list)
            .map(|(slot, limits)| (TenantSlot::new(slot), *limits))
            .collect();
        check(capacity, &tenants).unwrap_err().to_string()
    }

    #[test]
    fn floors_above_the_capacity_are_refused_with_the_sum() {
        let list = [
            limits(300, None, 100),
            limits(400, None, 100),
            Limits::default(),
        ];
        let message = refused(512, &list);
        assert!(
            message
                .starts_with("the floors of 2 tenants come to 700 segments, 188 more than the 512"),
            "{message}"
        );
        assert!(message.contains("lower floors by 188"));
    }

    #[test]
    fn a_floor_above_its_ceiling_and_no_weight_are_refused() {
        assert!(
            refused(512, &[limits(9, Some(4), 100)])
                .contains("9 segments is 5 above a ceiling of 4")
        );
        assert!(refused(512, &[limits(0, None, 0)]).contains("a weight of 0"));
        assert!(refused(512, &[limits(0, None, 10_001)]).contains("from 1 to 10000"));
        assert_eq!(check(0, &[]), Ok(()));
    }
}
