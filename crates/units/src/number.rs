//! Between counts and the floating-point numbers that ratios are made of.

/// The nearest floating-point number. Counts beyond 2^53 lose their last digits, which no ratio shows.
#[allow(
    clippy::cast_precision_loss,
    reason = "ratios and estimates, good to fifteen digits"
)]
pub const fn real(count: u64) -> f64 {
    count as f64
}

/// The whole number at or above `value`; zero for what is below it, the largest for what is beyond.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a float cast saturates, which is what is wanted"
)]
pub const fn count_up(value: f64) -> u64 {
    value.ceil() as u64
}

/// The nearest whole number; zero for what is below it, the largest for what is beyond.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a float cast saturates, which is what is wanted"
)]
pub const fn count_near(value: f64) -> u64 {
    value.round() as u64
}
