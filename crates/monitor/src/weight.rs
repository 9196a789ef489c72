//! W of `MultiCache`: how much a VM counts beside the others.

/// The least and the most that a VM counts. A threshold of 1 to 15 reads is then at one of its ends anyway: a block of
/// the least VM needs all the reads that are counted, and one of the most needs a single read.
const WEIGHTS: (f64, f64) = (1.0 / 16.0, 16.0);

/// What a VM has, in whatever units: all VMs' are the same.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Standing {
    /// Processors.
    pub cpus: f64,
    /// Memory.
    pub memory: f64,
}

/// Each VM's weight, in the VMs' order, from 1/16 to 16.
///
/// `MultiCache` has W = (u / sum of u) x (v / sum of v), of u processors and v memory. Here it is n x n x W for n VMs,
/// which is (u / mean of u) x (v / mean of v). So VMs that are equal weigh 1 each, however many they are, and a threshold of
/// two reads means two reads: with W itself it would mean 2 n x n reads, and change for all when one VM comes or goes. What
/// one VM weighs beside another is the same with both. One that nobody has anything of, of all VMs, tells nobody apart and
/// counts as 1.
pub fn weights(vms: &[Standing]) -> Vec<f64> {
    let count = units::number::real(vms.len() as u64);
    let mean = |of: fn(&Standing) -> f64| vms.iter().map(of).sum::<f64>() / count;
    let (cpus, memory) = (mean(|vm| vm.cpus), mean(|vm| vm.memory));
    let part = |own: f64, mean: f64| if mean > 0.0 { own / mean } else { 1.0 };
    let weight = |vm: &Standing| part(vm.cpus, cpus) * part(vm.memory, memory);
    vms.iter()
        .map(|vm| weight(vm).clamp(WEIGHTS.0, WEIGHTS.1))
        .collect()
}

/// Whether a weight is another by more than a fifth of the smaller one.
pub fn is_another_weight(before: f64, now: f64) -> bool {
    before.max(now) > 1.2 * before.min(now)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(vms: &[(f64, f64)]) -> Vec<f64> {
        let vms = vms.iter().map(|&(cpus, memory)| Standing { cpus, memory });
        weights(&vms.collect::<Vec<_>>())
    }

    fn near(found: &[f64], expected: &[f64]) {
        assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(expected) {
            assert!((found - expected).abs() < 1e-9, "{found} {expected}");
        }
    }

    #[test]
    fn equal_vms_weigh_one_each_however_many_they_are() {
        for count in 1..9 {
            near(&of(&vec![(3.0, 7e9); count]), &vec![1.0; count]);
        }
        near(&of(&[]), &[]);
    }

    /// Of 8 processors and 32 GB: n x n x (2/8 x 16/32) and n x n x (6/8 x 16/32).
    #[test]
    fn a_weight_is_the_papers_times_the_square_of_the_count() {
        near(
            &of(&[(2.0, 16e9), (6.0, 16e9)]),
            &[4.0 / 8.0, 4.0 * 3.0 / 8.0],
        );
    }

    #[test]
    fn weights_have_ends() {
        near(
            &of(&[(1.0, 1.0), (63.0, 63.0)]),
            &[1.0 / 16.0, 63.0 * 63.0 / 32.0 / 32.0],
        );
        let many = (0..100).map(|at| if at == 0 { (900.0, 900.0) } else { (1.0, 1.0) });
        let many: Vec<_> = many.collect();
        near(&of(&many)[..2], &[16.0, 1.0 / 16.0]);
    }

    #[test]
    fn what_nobody_has_tells_nobody_apart() {
        near(&of(&[(0.0, 1.0), (0.0, 3.0)]), &[0.5, 1.5]);
        near(&of(&[(0.0, 0.0)]), &[1.0]);
    }

    #[test]
    fn more_than_a_fifth_is_another_weight() {
        assert!(!is_another_weight(1.0, 1.0) && !is_another_weight(1.0, 1.19));
        assert!(is_another_weight(1.0, 1.25) && is_another_weight(1.25, 1.0));
    }
}
