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

/// The mean volume of [`RANDOM_DRAWS`] random groupings, in bytes.
///
/// # Errors
/// If the sizes do not fit the group.
pub fn mean_volume(problem: &Problem, sizes: &Sizes, seed: u64) -> Result<f64, PlanError> {
    sizes.check(problem.vms())?;
    let mut dice = Prng::new(seed);
    let draws: Vec<f64> = (0..RANDOM_DRAWS)
        .map(|_| cost::volume(problem, &waves(problem, sizes, &mut dice)))
        .collect();
    Ok(cost::mean(&draws))
}
