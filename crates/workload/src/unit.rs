//! From dice to real numbers and back.

use units::Prng;
use units::number::real;

/// A uniform number in `[0, 1)`, a multiple of 2^-53.
pub(crate) fn unit(dice: &mut Prng) -> f64 {
    real(dice.u64() >> 11) / real(1 << 53)
}

/// The whole part; zero for what is negative or no number, the most for what is too large.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the conversion saturates, which is what is wanted"
)]
pub(crate) const fn whole(number: f64) -> u64 {
    number as u64
}
