//! One VM at a time, in the order in which they were given: what an operator does without a plan, and the paper's
//! baseline (Clique, chapter 2.3.2). The mean over all orders is [`serial_mean`](crate::cost::serial_mean).

use crate::problem::Problem;

pub(super) fn waves(problem: &Problem) -> Vec<Vec<usize>> {
    (0..problem.vms()).map(|vm| vec![vm]).collect()
}
