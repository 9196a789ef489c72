//! Between counts and the floating-point numbers that ratios are made of.

/// The nearest floating-point number. Counts beyond 2^53 lose their last digits, which no ratio shows.
#[allow(
    clippy::cast_precision_loss,
    reason = "ratios and means, good to fifteen digits"
)]
pub(crate) const fn real(count: u64) -> f64 {
    count as f64
}
