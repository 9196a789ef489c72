//! How a host's flash is divided among its VMs (`CloudCache`, section 6): in proportion to what they are predicted
//! to need, whether that is more or less than there is.

use units::Bytes;

/// A VM's share of a host's flash: the capacity, by its part of the demand. Rounds down; nothing for no demand.
pub fn share(capacity: Bytes, rwss: Bytes, demand: Bytes) -> Bytes {
    if demand.is_zero() {
        return Bytes::ZERO;
    }
    let share = u128::from(capacity.get()) * u128::from(rwss.get()) / u128::from(demand.get());
    Bytes::new(u64::try_from(share).unwrap_or(u64::MAX).min(capacity.get()))
}

/// By what factor each VM's share differs from its working set, at most 1: what an overloaded host's shares scale by.
pub fn scale(capacity: Bytes, demand: Bytes) -> f64 {
    if demand <= capacity {
        return 1.0;
    }
    units::number::real(capacity.get()) / units::number::real(demand.get())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_in_proportion_to_the_demand() {
        let capacity = Bytes::gib(60);
        let demand = Bytes::gib(120);
        assert_eq!(share(capacity, Bytes::gib(40), demand), Bytes::gib(20));
        assert_eq!(
            share(capacity, Bytes::gib(10), Bytes::gib(20)),
            Bytes::gib(30)
        );
        assert_eq!(share(capacity, Bytes::gib(1), Bytes::ZERO), Bytes::ZERO);
        assert!((scale(capacity, demand) - 0.5).abs() < 1e-12);
        assert!((scale(capacity, Bytes::gib(10)) - 1.0).abs() < 1e-12);
    }
}
