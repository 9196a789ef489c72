//! Between counts and real numbers, in one place, so that the casts are looked at once.

/// The nearest real number to a count. Exact below 2^53, which no trace's counts exceed.
#[allow(
    clippy::cast_precision_loss,
    reason = "exact below 2^53; above it the nearest is what is wanted"
)]
pub(crate) const fn real(count: u64) -> f64 {
    count as f64
}

/// The nearest count to a real number; zero for what is negative or no number.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the cast saturates, which is what is wanted"
)]
pub(crate) fn count(value: f64) -> u64 {
    value.round() as u64
}

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
