//! Dice that a seed decides.

use crate::number::real;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// A deterministic pseudo-random generator (xoshiro256++, Blackman and Vigna 2021).
///
/// The same seed gives the same sequence on every machine and in every release.
#[derive(Clone, Debug)]
pub struct Prng(Xoshiro256PlusPlus);

impl Prng {
    /// The generator of this seed.
    pub fn new(seed: u64) -> Self {
        Self(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// A generator of its own for a part of the system, so that one part's use of dice does
    /// not change another's.
    pub fn fork(&mut self) -> Self {
        Self::new(self.u64())
    }

    /// 64 uniform bits.
    pub fn u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A uniform number in `[0, bound)`.
    ///
    /// # Panics
    /// If `bound` is zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "there is no number below zero");
        // Lemire's multiply-shift; its bias at these bounds (< 2^-20) does not matter to a test.
        u64::try_from((u128::from(self.u64()) * u128::from(bound)) >> 64)
            .expect("the high half fits")
    }

    /// A uniform number in `[0, 1)`, a multiple of 2^-53.
    pub fn unit(&mut self) -> f64 {
        real(self.u64() >> 11) / real(1 << 53)
    }

    /// A number with mean 0 and standard deviation 1 (Box and Muller 1958), one of the pair.
    pub fn normal(&mut self) -> f64 {
        // The logarithm needs a number above zero.
        let radius = libm::sqrt(-2.0 * libm::log(1.0 - self.unit()));
        radius * libm::cos(std::f64::consts::TAU * self.unit())
    }

    /// True once in `n` on average; never for `n` = 0.
    pub fn one_in(&mut self, n: u64) -> bool {
        n > 0 && self.below(n) == 0
    }

    /// Fills `bytes` with uniform bytes.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        self.0.fill_bytes(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_decides_the_sequence() {
        let draw = |seed| {
            let mut dice = Prng::new(seed);
            (dice.u64(), dice.below(10), dice.u64())
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }

    #[test]
    fn numbers_stay_below_their_bound() {
        let mut dice = Prng::new(1);
        let mut seen = [false; 6];
        for _ in 0..200 {
            seen[usize::try_from(dice.below(6)).unwrap()] = true;
        }
        assert_eq!(seen, [true; 6]);
    }
}
