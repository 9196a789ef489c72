//! Random numbers as the methods need them, from a generator that the caller seeds.

use units::Prng;

/// A uniform index below `bound`.
///
/// # Panics
/// If `bound` is zero.
pub(crate) fn below(dice: &mut Prng, bound: usize) -> usize {
    usize::try_from(dice.below(bound as u64)).expect("a number below a length is a length")
}

/// A number with median 1 whose logarithm has the standard deviation `sigma`.
pub(crate) fn lognormal(dice: &mut Prng, sigma: f64) -> f64 {
    libm::exp(sigma * dice.normal())
}

/// The numbers below `count` in random order (Fisher and Yates).
pub(crate) fn permutation(dice: &mut Prng, count: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    for last in (1..count).rev() {
        order.swap(last, below(dice, last + 1));
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::number::real;

    #[test]
    fn logarithms_of_lognormal_numbers_have_the_given_deviation() {
        let mut dice = Prng::new(5);
        let logs: Vec<f64> = (0..20_000)
            .map(|_| libm::log(lognormal(&mut dice, 0.7)))
            .collect();
        let count = real(logs.len() as u64);
        let mean = logs.iter().sum::<f64>() / count;
        let square = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / count;
        assert!(mean.abs() < 0.02, "{mean}");
        assert!((square.sqrt() - 0.7).abs() < 0.02, "{square}");
    }

    #[test]
    fn each_place_of_a_permutation_is_as_likely_as_the_others() {
        let mut dice = Prng::new(1);
        let mut first = [0_u32; 5];
        for _ in 0..10_000 {
            first[permutation(&mut dice, 5)[0]] += 1;
        }
        // Five standard deviations of a binomial are 200.
        assert!(
            first.iter().all(|count| (1_800..2_200).contains(count)),
            "{first:?}"
        );
    }
}
