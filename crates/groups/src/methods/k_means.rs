//! Clusters by `k-means` (Lloyd 1957) of the rows of a traffic matrix, by Kendall's tau (Clique, chapter 2.2.1): VMs
//! belong together if they talk to the same others in the same order of rates.
//!
//! The first centres are drawn as in Arthur and Vassilvitskii, "`k-means++`: The Advantages of Careful Seeding" (SODA
//! 2007), with the distance 1 - tau; a centre is the mean of its members' rows. A cluster that loses its last member
//! takes the VM that is least like its own centre.

use super::kendall::{Ranking, Scratch, tau};
use crate::dice::below;
use crate::limits::{K_MEANS_COMPARISONS_MAX, K_MEANS_ROUNDS_MAX};
use crate::traffic::TrafficMatrix;
use units::Prng;
use units::number::real;

/// `count` clusters, none of them empty: at most as many as VMs.
pub(super) fn clusters(traffic: &TrafficMatrix, count: usize, dice: &mut Prng) -> Vec<Vec<usize>> {
    let vms = traffic.vms();
    let count = count.clamp(1, vms);
    if count == vms {
        return (0..vms).map(|vm| vec![vm]).collect();
    }
    let rows: Vec<Ranking> = (0..vms).map(|vm| Ranking::of(traffic.row(vm))).collect();
    let mut centres = first_centres(&rows, count, dice);
    let mut of_vm: Vec<usize> = Vec::new();
    let rounds = K_MEANS_COMPARISONS_MAX / (vms * count);
    for _ in 0..rounds.clamp(1, K_MEANS_ROUNDS_MAX) {
        let nearest = assign(&rows, &centres);
        let is_settled = nearest == of_vm;
        of_vm = nearest;
        if is_settled {
            break;
        }
        centres = (0..count)
            .map(|cluster| centre(traffic, &of_vm, cluster))
            .collect();
    }
    let members = |cluster: usize| (0..vms).filter(|vm| of_vm[*vm] == cluster).collect();
    (0..count).map(members).collect()
}

fn first_centres(rows: &[Ranking], count: usize, dice: &mut Prng) -> Vec<Ranking> {
    let mut scratch = Scratch::default();
    let mut chosen = vec![below(dice, rows.len())];
    let mut distances = vec![f64::INFINITY; rows.len()];
    while chosen.len() < count {
        let last = &rows[chosen[chosen.len() - 1]];
        for (distance, row) in distances.iter_mut().zip(rows) {
            *distance = distance.min(1.0 - tau(row, last, &mut scratch)).max(0.0);
        }
        for vm in &chosen {
            distances[*vm] = 0.0;
        }
        let squares = distances.iter().map(|distance| distance * distance);
        let mut left = dice.unit() * squares.clone().sum::<f64>();
        let drawn = squares.clone().position(|square| {
            left -= square;
            square > 0.0 && left <= 0.0
        });
        // All rows that are left are like a chosen one: any of them.
        let free = || (0..rows.len()).find(|vm| !chosen.contains(vm));
        match drawn.or_else(free) {
            Some(vm) => chosen.push(vm),
            None => break,
        }
    }
    chosen.into_iter().map(|vm| rows[vm].clone()).collect()
}

/// The cluster of each VM: that of the centre it is most like, but none is left empty.
fn assign(rows: &[Ranking], centres: &[Ranking]) -> Vec<usize> {
    let mut scratch = Scratch::default();
    let mut best: Vec<(usize, f64)> = Vec::with_capacity(rows.len());
    for row in rows {
        let alike = centres.iter().map(|centre| tau(row, centre, &mut scratch));
        let nearest = alike
            .enumerate()
            .max_by(|one, other| one.1.total_cmp(&other.1));
        best.push(nearest.unwrap_or((0, 0.0)));
    }
    let mut counts = vec![0_usize; centres.len()];
    for (cluster, _) in &best {
        counts[*cluster] += 1;
    }
    for empty in 0..centres.len() {
        if counts[empty] > 0 {
            continue;
        }
        let not_alone = (0..best.len()).filter(|vm| counts[best[*vm].0] > 1);
        let least = not_alone.min_by(|one, other| best[*one].1.total_cmp(&best[*other].1));
        if let Some(vm) = least {
            counts[best[vm].0] -= 1;
            counts[empty] = 1;
            best[vm] = (empty, 1.0);
        }
    }
    best.into_iter().map(|(cluster, _)| cluster).collect()
}

fn centre(traffic: &TrafficMatrix, of_vm: &[usize], cluster: usize) -> Ranking {
    let mut sums = vec![0.0; traffic.vms()];
    let members = of_vm.iter().filter(|of| **of == cluster).count();
    for (vm, _) in of_vm.iter().enumerate().filter(|(_, of)| **of == cluster) {
        for (sum, rate) in sums.iter_mut().zip(traffic.row(vm)) {
            *sum += rate / real(members as u64);
        }
    }
    Ranking::of(&sums)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::standin::{self, Clustered};

    #[test]
    fn planted_clusters_are_found_again() {
        let mut dice = Prng::new(3);
        let planted = Clustered::of(4);
        let (traffic, of_vm) = standin::clustered(40, &planted, &mut dice);
        let found = clusters(&traffic, 4, &mut dice);
        let mut same = 0;
        for cluster in &found {
            let count = |kind: usize| cluster.iter().filter(|vm| of_vm[**vm] == kind).count();
            same += (0..4).map(count).max().unwrap();
        }
        assert!(same >= 36, "{same} of 40: {found:?}");
    }

    #[test]
    fn no_cluster_is_empty_even_if_all_vms_are_alike() {
        let names: Vec<String> = (0..7).map(|vm| vm.to_string()).collect();
        let silent = TrafficMatrix::of_vms(names.iter().map(String::as_str)).unwrap();
        for count in 1..=9 {
            let found = clusters(&silent, count, &mut Prng::new(1));
            assert_eq!(found.len(), count.min(7));
            assert!(
                found.iter().all(|cluster| !cluster.is_empty()),
                "{count}: {found:?}"
            );
            assert_eq!(found.concat().len(), 7);
        }
    }
}
