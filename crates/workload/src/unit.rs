//! From real numbers back to whole ones.

/// The whole part; zero for what is negative or no number, the most for what is too large.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the conversion saturates, which is what is wanted"
)]
pub(crate) const fn whole(number: f64) -> u64 {
    number as u64
}
