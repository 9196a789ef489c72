//! The volume of a plan: bytes that cross the link because the group is split meanwhile.
//!
//! Clique, chapter 2.1: `V = sum over i >= 2 of R(moved before i, not yet moved) x T(g_i)`. A pair is cut from when its
//! first end is across until its second is, so V is also a sum over pairs, which [`volume`] computes:
//! `V = sum of rate(u, v) x |C(u) - C(v)|`.

use crate::problem::Problem;
use units::number::real;

/// The volume of these waves, in bytes, from scratch.
///
/// Waves that do not converge count as very long (see [`SEARCH_LEFT_SHARE`](crate::limits::SEARCH_LEFT_SHARE)).
///
/// # Panics
/// If a wave names a VM that the problem does not have.
pub fn volume(problem: &Problem, waves: &[Vec<usize>]) -> f64 {
    let mut across_s = vec![0.0; problem.vms()];
    let mut now_s = 0.0;
    for wave in waves {
        now_s += problem.span_s(wave);
        for vm in wave {
            across_s[*vm] = now_s;
        }
    }
    let of_vm = |vm: usize| -> f64 {
        let later = problem.traffic().row(vm).iter().zip(&across_s).skip(vm + 1);
        later
            .map(|(rate, other_s)| rate * (across_s[vm] - other_s).abs())
            .sum()
    };
    (0..problem.vms()).map(of_vm).sum()
}

/// What plans are compared by: first how much the dirty rates of their waves are beyond what the link bears, in
/// millionths of it, and then the volume in bytes.
pub(crate) type Judged = (u64, f64);

/// What these waves are judged by.
pub(crate) fn judged(problem: &Problem, waves: &[Vec<usize>]) -> Judged {
    let excess = waves.iter().map(|wave| problem.excess_ppm(wave));
    let excess = excess.fold(0, u64::saturating_add);
    (excess, volume(problem, waves))
}

/// The volume of one VM at a time in random order: the mean over all orders, exactly.
///
/// Between the ends of a pair lies each other VM in one order of three, and the later end itself always:
/// `E |C(u) - C(v)| = (sum of all times - t_u - t_v) / 3 + (t_u + t_v) / 2`.
pub fn serial_mean(problem: &Problem) -> f64 {
    let times: Vec<f64> = (0..problem.vms()).map(|vm| problem.span_s(&[vm])).collect();
    let all: f64 = times.iter().sum();
    let of_vm = |vm: usize| -> f64 {
        let later = problem.traffic().row(vm).iter().zip(&times).skip(vm + 1);
        later
            .map(|(rate, time)| {
                let both = times[vm] + time;
                rate * ((all - both) / 3.0 + both / 2.0)
            })
            .sum()
    };
    (0..problem.vms()).map(of_vm).sum()
}

/// The part of `against` that `volume` saves: 1 is all of it; below zero it is worse. Nothing is saved of nothing.
pub fn saved(volume: f64, against: f64) -> f64 {
    if against > 0.0 {
        1.0 - volume / against
    } else {
        0.0
    }
}

/// The mean of some numbers, zero of none.
pub(crate) fn mean(numbers: &[f64]) -> f64 {
    numbers.iter().sum::<f64>() / real(numbers.len().max(1) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dice::permutation;
    use crate::problem::samples::of_pairs;
    use units::Prng;

    fn near(one: f64, other: f64) -> bool {
        (one - other).abs() <= 1e-9 * one.abs().max(other.abs()).max(1.0)
    }

    /// The paper's form: the cut before each wave, times the wave's time.
    fn by_cuts(problem: &Problem, waves: &[Vec<usize>]) -> f64 {
        let mut moved: Vec<usize> = Vec::new();
        let mut volume = 0.0;
        for wave in waves {
            let split = moved
                .iter()
                .flat_map(|one| (0..problem.vms()).map(move |other| (*one, other)));
            let cut: f64 = split
                .filter(|(_, other)| !moved.contains(other))
                .map(|(one, other)| problem.traffic().rate(one, other))
                .sum();
            volume += cut * problem.span_s(wave);
            moved.extend(wave);
        }
        volume
    }

    /// Figure 6 of the chapter has no rates that are legible in text; these are its shape.
    #[test]
    fn the_sum_over_pairs_is_the_sum_over_cuts() {
        let problem = of_pairs(&[
            ("a", "b", 5.0),
            ("b", "c", 2.0),
            ("c", "d", 7.0),
            ("a", "d", 1.0),
        ]);
        for waves in [
            vec![vec![0, 1], vec![2, 3]],
            vec![vec![0], vec![2], vec![1], vec![3]],
            vec![vec![3, 1, 0], vec![2]],
            vec![vec![0, 1, 2, 3]],
        ] {
            assert!(
                near(volume(&problem, &waves), by_cuts(&problem, &waves)),
                "{waves:?}"
            );
        }
        // {a, b} across, then {c, d} for two seconds: b-c and a-d are cut.
        assert!(near(volume(&problem, &[vec![0, 1], vec![2, 3]]), 6.0));
        assert!(near(volume(&problem, &[vec![0, 1, 2, 3]]), 0.0));
    }

    #[test]
    fn the_mean_of_serial_orders_is_that_of_many_draws() {
        let problem = of_pairs(&[
            ("a", "b", 5.0),
            ("b", "c", 2.0),
            ("c", "d", 7.0),
            ("a", "e", 1.0),
        ]);
        let mut dice = Prng::new(2);
        let draws: Vec<f64> = (0..20_000)
            .map(|_| {
                let order = permutation(&mut dice, 5);
                let waves: Vec<Vec<usize>> = order.into_iter().map(|vm| vec![vm]).collect();
                volume(&problem, &waves)
            })
            .collect();
        let exact = serial_mean(&problem);
        assert!(
            (mean(&draws) / exact - 1.0).abs() < 0.01,
            "{} {exact}",
            mean(&draws)
        );
    }

    #[test]
    fn savings_are_parts_of_what_they_are_compared_with() {
        assert!(near(saved(25.0, 100.0), 0.75));
        assert!(near(saved(150.0, 100.0), -0.5));
        assert!(near(saved(0.0, 0.0), 0.0));
    }
}
