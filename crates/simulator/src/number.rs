//! Between counts and real numbers, in one place, so that the casts are looked at once.

pub(crate) use units::number::{count_near as count, real};

/// `part / whole`, or zero where there is no whole.
pub(crate) fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        return 0.0;
    }
    real(part) / real(whole)
}

/// A count of things in memory.
///
/// # Panics
/// Never: an address space has at most 64 bits.
pub(crate) fn length(count: usize) -> u64 {
    u64::try_from(count).expect("an address space has at most 64 bits")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_round_and_never_wrap() {
        assert_eq!(count(2.5), 3);
        assert_eq!(count(-1.0), 0);
        assert_eq!(count(f64::NAN), 0);
        assert_eq!(count(1e30), u64::MAX);
    }

    #[test]
    fn a_part_of_nothing_is_nothing() {
        assert_eq!(ratio(0, 0).to_bits(), 0.0_f64.to_bits());
        assert!((ratio(1, 4) - 0.25).abs() < f64::EPSILON);
    }
}
