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
//! The functions come from `libm`, not from the system: a seed gives the same draws on every machine.

use crate::unit::whole;
use units::Prng;
use units::number::real;

/// The law for a number of ranks.
#[derive(Clone, Debug)]
pub struct Zipf {
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
    pub fn new(ranks: u64, theta: f64) -> Self {
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
        law.high = law.integral(real(ranks) + 0.5);
        law.squeeze = 2.0 - law.inverse(law.integral(2.5) - law.density(2.0));
        law
    }

    /// A rank from zero.
    pub fn draw(&self, dice: &mut Prng) -> u64 {
        loop {
            let u = self.high + dice.unit() * (self.low - self.high);
            let x = self.inverse(u);
            let rank = whole(x + 0.5).clamp(1, self.ranks);
            let at = real(rank);
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

/// Ranks scattered over places, since hot blocks are not neighbours on a disk: each rank has a
/// place of its own.
#[derive(Clone, Debug)]
pub struct Scatter {
    places: u64,
    /// Without a common divisor with the number of places.
    factor: u64,
}

impl Scatter {
    /// As many ranks as places.
    ///
    /// # Panics
    /// If there is none.
    pub fn new(places: u64) -> Self {
        assert!(places > 0, "a rank has a place");
        // The golden section spreads the first ranks the most evenly.
        let mut factor = whole(real(places) * 0.618_033_988_749_895).max(1);
        while divisor(factor, places) != 1 {
            factor += 1;
        }
        Self { places, factor }
    }

    /// Each rank where its number says: frequent places are neighbours, the most frequent first.
    ///
    /// # Panics
    /// If there is none.
    pub fn clustered(places: u64) -> Self {
        assert!(places > 0, "a rank has a place");
        Self { places, factor: 1 }
    }

    /// The place of a rank.
    ///
    /// # Panics
    /// Never: a remainder is below its divisor.
    pub fn place(&self, rank: u64) -> u64 {
        let place = u128::from(rank) * u128::from(self.factor) % u128::from(self.places);
        u64::try_from(place).expect("a remainder is below its divisor")
    }
}

fn divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { divisor(b, a % b) }
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

    #[test]
    fn every_rank_has_a_place_of_its_own() {
        for places in [1_u64, 2, 3, 10, 720, 1024, 9973] {
            let scatter = Scatter::new(places);
            let mut seen: Vec<u64> = (0..places).map(|rank| scatter.place(rank)).collect();
            seen.sort_unstable();
            assert!(seen.into_iter().eq(0..places), "{places}");
        }
    }
}
