//! Ranks by Zipf's law: rank `k` of `n` is drawn with a probability proportional to `k^-theta`.
//!
//! Rejection-inversion after W. Hörmann and G. Derflinger, "Rejection-inversion to generate variates from
//! monotone discrete distributions", ACM TOMACS 6 (1996): the same time for any number of ranks, no table,
//! exact. With `H` the integral of `h(x) = x^-theta`,
//!
//! ```text
//!   u uniform in (H(1.5) - h(1), H(n + 0.5)]     x = H^-1(u)     k = x rounded
//!   taken if k - x <= s, or u >= H(k + 0.5) - h(k);   else drawn again (1.1 draws on average)
//! ```
//!
//! The functions come from `libm`, not from the system: a seed gives the same trace on every machine.

use super::dice;
use units::Prng;

/// The law for a number of ranks.
#[derive(Clone, Debug)]
pub(super) struct Zipf {
    ranks: u64,
    theta: f64,
    /// `H(1.5) - h(1)`.
    low: f64,
    /// `H(n + 0.5)`.
    high: f64,
    /// What is nearer to its rank than this needs no second look.
    squeeze: f64,
}

impl Zipf {
    /// The law for ranks `0..ranks`, the first the most frequent.
    ///
    /// # Panics
    /// If there is no rank, or `theta` is negative or no number.
    pub(super) fn new(ranks: u64, theta: f64) -> Self {
        assert!(ranks > 0, "a law has a rank");
        assert!(theta >= 0.0, "theta is a number from zero");
        let mut law = Self {
            ranks,
            theta,
            low: 0.0,
            high: 0.0,
            squeeze: 0.0,
        };
        law.low = law.integral(1.5) - 1.0;
        law.high = law.integral(dice::real(ranks) + 0.5);
        law.squeeze = 2.0 - law.inverse(law.integral(2.5) - law.density(2.0));
        law
    }

    /// A rank from zero.
    pub(super) fn draw(&self, dice: &mut Prng) -> u64 {
        loop {
            let u = self.high + dice::unit(dice) * (self.low - self.high);
            let x = self.inverse(u);
            let rank = dice::whole(x + 0.5).clamp(1, self.ranks);
            let at = dice::real(rank);
            if at - x <= self.squeeze || u >= self.integral(at + 0.5) - self.density(at) {
                return rank - 1;
            }
        }
    }

    fn density(&self, x: f64) -> f64 {
        libm::exp(-self.theta * libm::log(x))
    }

    /// `(x^(1 - theta) - 1) / (1 - theta)`, and its limit `ln x` at `theta` = 1.
    fn integral(&self, x: f64) -> f64 {
        let log = libm::log(x);
        let power = (1.0 - self.theta) * log;
        if power.abs() < 1e-8 {
            return log * (1.0 + power / 2.0);
        }
        log * libm::expm1(power) / power
    }

    fn inverse(&self, x: f64) -> f64 {
        // Rounding may bring it below the pole at -1.
        let power = (x * (1.0 - self.theta)).max(-1.0);
        if power.abs() < 1e-8 {
            return libm::exp(x * (1.0 - power / 2.0));
        }
        libm::exp(x * libm::log1p(power) / power)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts of each rank beside the law's own probabilities.
    fn compare(ranks: u64, theta: f64) {
        const DRAWS: u32 = 400_000;
        let law = Zipf::new(ranks, theta);
        let mut dice = Prng::new(11);
        let mut counts = vec![0_u32; usize::try_from(ranks).unwrap()];
        for _ in 0..DRAWS {
            counts[usize::try_from(law.draw(&mut dice)).unwrap()] += 1;
        }
        let weight = |rank: usize| libm::pow(f64::from(u32::try_from(rank + 1).unwrap()), -theta);
        let total: f64 = (0..counts.len()).map(weight).sum();
        for (rank, &count) in counts.iter().enumerate() {
            let expected = f64::from(DRAWS) * weight(rank) / total;
            let deviation = (f64::from(count) - expected).abs() / expected.sqrt();
            assert!(deviation < 5.0, "{theta} {rank}: {count} for {expected}");
        }
    }

    #[test]
    fn ranks_are_as_frequent_as_the_law_says() {
        for theta in [0.0, 0.5, 0.99, 1.0, 1.2, 2.5] {
            compare(50, theta);
        }
    }

    #[test]
    fn one_rank_is_always_drawn() {
        let law = Zipf::new(1, 0.99);
        let mut dice = Prng::new(3);
        assert!((0..100).all(|_| law.draw(&mut dice) == 0));
    }

    #[test]
    fn many_ranks_stay_below_their_number() {
        let law = Zipf::new(1 << 40, 0.3);
        let mut dice = Prng::new(3);
        assert!((0..10_000).all(|_| law.draw(&mut dice) < 1 << 40));
    }
}
