//! From dice to real numbers and back.

use units::Prng;

/// True with this probability.
pub(super) fn chance(dice: &mut Prng, probability: f64) -> bool {
    dice.unit() < probability
}

/// The nearest double.
#[allow(
    clippy::cast_precision_loss,
    reason = "beyond 2^53 blocks or microseconds the nearest is near enough"
)]
pub(super) const fn real(number: u64) -> f64 {
    number as f64
}

/// The whole part; zero for what is negative or no number, the most for what is too large.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the conversion saturates, which is what is wanted"
)]
pub(super) const fn whole(number: f64) -> u64 {
    number as u64
}
