//! Counts as real numbers and back, where rounding is harmless.

/// The nearest 64-bit float.
#[allow(
    clippy::cast_precision_loss,
    reason = "estimates and ratios need no more than 53 bits"
)]
pub(crate) const fn real(count: u64) -> f64 {
    count as f64
}

/// The nearest whole number; zero for what is below.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the cast saturates, which is meant"
)]
pub(crate) fn count_near(value: f64) -> u64 {
    value.round() as u64
}
