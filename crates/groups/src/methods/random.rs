//! The paper's control group (Clique, chapter 2.3.2): a random order, cut into waves.

use crate::cost;
use crate::dice::permutation;
use crate::error::PlanError;
use crate::limits::RANDOM_DRAWS;
use crate::problem::Problem;
use crate::sizes::Sizes;
use units::Prng;

pub(super) fn waves(problem: &Problem, sizes: &Sizes, dice: &mut Prng) -> Vec<Vec<usize>> {
    sizes.cut(problem, &permutation(dice, problem.vms()))
}

/// The mean volume of [`RANDOM_DRAWS`] random groupings, in bytes; `None` if one of them does not converge, as the mean is
/// endless then.
///
/// # Errors
/// If the sizes do not fit the group.
pub fn mean_volume(problem: &Problem, sizes: &Sizes, seed: u64) -> Result<Option<f64>, PlanError> {
    sizes.check(problem.vms())?;
    let mut dice = Prng::new(seed);
    let draws = (0..RANDOM_DRAWS).map(|_| {
        let waves = waves(problem, sizes, &mut dice);
        let converges = waves.iter().all(|wave| problem.time_of(wave).is_ok());
        converges.then(|| cost::volume(problem, &waves))
    });
    let draws: Option<Vec<f64>> = draws.collect();
    Ok(draws.map(|draws| cost::mean(&draws)))
}
