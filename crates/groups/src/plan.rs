//! A plan: the waves, what each VM has of the link, how long each wave takes, and what does not converge.

use crate::cost;
use crate::latency::{Diverges, Timing};
use crate::problem::Problem;

/// VMs that cross together.
#[derive(Clone, Debug, PartialEq)]
pub struct Wave {
    /// The VMs, by their index in the traffic matrix, rising.
    pub vms: Vec<usize>,
    /// How long they take and what each gets, or which of them keep the wave from converging (as places in `vms`).
    pub timing: Result<Timing, Diverges>,
    /// Traffic between those across and the others while this wave crosses, in bytes a second.
    pub split_rate: f64,
}

/// Waves in their order: every VM once.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    waves: Vec<Wave>,
    volume: f64,
}

impl Plan {
    /// The plan of these waves.
    ///
    /// # Panics
    /// If they do not hold each VM of the problem once, or one is empty: methods do not make such waves.
    pub(crate) fn new(problem: &Problem, waves: Vec<Vec<usize>>) -> Self {
        let mut is_across = vec![false; problem.vms()];
        let mut judged = Vec::with_capacity(waves.len());
        let volume = cost::volume(problem, &waves);
        for mut vms in waves {
            // In the order in which they were given: easier to find.
            vms.sort_unstable();
            assert!(!vms.is_empty(), "a wave has a VM");
            let split = |vm: usize| -> f64 {
                let row = problem.traffic().row(vm).iter().zip(&is_across);
                row.filter(|(_, is_across)| !**is_across)
                    .map(|(rate, _)| rate)
                    .sum()
            };
            let across = (0..problem.vms()).filter(|vm| is_across[*vm]);
            let split_rate = across.map(split).sum();
            for vm in &vms {
                assert!(!is_across[*vm], "a VM crosses once");
                is_across[*vm] = true;
            }
            judged.push(Wave {
                timing: problem.time_of(&vms),
                vms,
                split_rate,
            });
        }
        assert!(is_across.iter().all(|is| *is), "every VM crosses");
        Self {
            waves: judged,
            volume,
        }
    }

    /// The waves, in the order in which they cross.
    pub fn waves(&self) -> &[Wave] {
        &self.waves
    }

    /// Until the last wave is across, in seconds; `None` if one does not converge.
    pub fn time_s(&self) -> Option<f64> {
        let times = self
            .waves
            .iter()
            .map(|wave| wave.timing.as_ref().ok().map(|timing| timing.time_s));
        times.sum()
    }

    /// Bytes that cross because the group is split; `None` if a wave does not converge.
    pub fn volume(&self) -> Option<f64> {
        self.time_s().map(|_| self.volume)
    }

    /// The VMs of each wave.
    pub fn grouped(&self) -> Vec<Vec<usize>> {
        self.waves.iter().map(|wave| wave.vms.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::samples::of_pairs;

    #[test]
    fn a_plan_tells_time_volume_and_what_is_split() {
        let problem = of_pairs(&[("a", "b", 5.0), ("b", "c", 2.0)]);
        let plan = Plan::new(&problem, vec![vec![0, 1], vec![2]]);
        assert_eq!(plan.time_s(), Some(3.0));
        assert_eq!(plan.volume(), Some(2.0));
        let split: Vec<f64> = plan.waves().iter().map(|wave| wave.split_rate).collect();
        assert_eq!(split, [0.0, 2.0]);
    }

    #[test]
    #[should_panic(expected = "a VM crosses once")]
    fn no_vm_crosses_twice() {
        let problem = of_pairs(&[("a", "b", 5.0)]);
        Plan::new(&problem, vec![vec![0, 1], vec![1]]);
    }

    #[test]
    #[should_panic(expected = "every VM crosses")]
    fn no_vm_is_left_behind() {
        let problem = of_pairs(&[("a", "b", 5.0)]);
        Plan::new(&problem, vec![vec![0]]);
    }
}
