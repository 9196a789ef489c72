//! The order of the VMs in the second eigenvector of the traffic graph's Laplacian (Fiedler 1973), a start for linear
//! arrangements since Juvan and Mohar ("Optimal linear labelings and eigenvalues of graphs", 1992).
//!
//! The Laplacian is `L = diag(degrees) - rates`. Its least eigenvalue is 0, for the constant vector. Inverse iteration on
//! `L + J + e I` finds the next one: J lifts the constant vector out of the way, and the small e keeps the matrix
//! regular if the graph is in parts, whose VMs then stand together. One Cholesky factor, n^3 / 3 operations.

use crate::problem::Problem;
use crate::traffic::TrafficMatrix;
use units::number::real;

/// Rounds of inverse iteration. The error falls by the quotient of the second and third eigenvalues in each; the order
/// only has to be good, since annealing goes on from it.
const ROUNDS: usize = 60;

/// The VMs in the order in which they cross.
pub(super) fn order(problem: &Problem) -> Vec<usize> {
    let traffic = problem.traffic();
    let vector = second_eigenvector(traffic);
    let mut order: Vec<usize> = (0..traffic.vms()).collect();
    order.sort_by(|one, other| vector[*one].total_cmp(&vector[*other]));
    order
}

fn second_eigenvector(traffic: &TrafficMatrix) -> Vec<f64> {
    let vms = traffic.vms();
    // Any vector that is not an eigenvector: a slope.
    let mut vector: Vec<f64> = (0..vms).map(|vm| real(vm as u64)).collect();
    center(&mut vector);
    let factor = cholesky(laplacian(traffic));
    for _ in 0..ROUNDS {
        solve(&factor, &mut vector);
        center(&mut vector);
        let length = vector.iter().map(|x| x * x).sum::<f64>().sqrt();
        if length == 0.0 {
            break;
        }
        for x in &mut vector {
            *x /= length;
        }
    }
    vector
}

/// `L + J + e I`, scaled so that the largest degree is 1.
fn laplacian(traffic: &TrafficMatrix) -> Vec<Vec<f64>> {
    let vms = traffic.vms();
    let degrees: Vec<f64> = (0..vms).map(|vm| traffic.of_vm(vm)).collect();
    let most = degrees.iter().copied().fold(0.0, f64::max);
    let scale = if most > 0.0 { 1.0 / most } else { 0.0 };
    let lifted = 1.0 / real(vms.max(1) as u64);
    let row = |vm: usize| {
        let mut row: Vec<f64> = traffic
            .row(vm)
            .iter()
            .map(|rate| lifted - rate * scale)
            .collect();
        row[vm] = degrees[vm] * scale + lifted + 1e-9;
        row
    };
    (0..vms).map(row).collect()
}

/// The lower triangle of the factor, row by row.
fn cholesky(mut matrix: Vec<Vec<f64>>) -> Vec<Vec<f64>> {
    for row in 0..matrix.len() {
        let (above, below) = matrix.split_at_mut(row);
        let current = &mut below[0];
        current.truncate(row + 1);
        for (column, other) in above.iter().enumerate() {
            let sum = dot(&current[..column], &other[..column]);
            current[column] = (current[column] - sum) / other[column];
        }
        let square = current[row] - dot(&current[..row], &current[..row]);
        // Rounding may bring a regular matrix to the edge.
        current[row] = square.max(1e-12).sqrt();
    }
    matrix
}

fn dot(one: &[f64], other: &[f64]) -> f64 {
    one.iter().zip(other).map(|(one, other)| one * other).sum()
}

/// Solves with the factor and then with its transpose.
fn solve(factor: &[Vec<f64>], vector: &mut [f64]) {
    for (row, line) in factor.iter().enumerate() {
        vector[row] = (vector[row] - dot(&line[..row], &vector[..row])) / line[row];
    }
    for (row, line) in factor.iter().enumerate().rev() {
        let (before, at) = vector.split_at_mut(row);
        at[0] /= line[row];
        for (x, weight) in before.iter_mut().zip(line) {
            *x -= weight * at[0];
        }
    }
}

fn center(vector: &mut [f64]) {
    let mean = vector.iter().sum::<f64>() / real(vector.len().max(1) as u64);
    for x in vector {
        *x -= mean;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::samples::of_pairs;

    #[test]
    fn a_chain_is_put_in_its_order() {
        let problem = of_pairs(&[
            ("c", "d", 1.0),
            ("a", "b", 1.0),
            ("d", "e", 1.0),
            ("b", "c", 1.0),
        ]);
        let order = order(&problem);
        let mut names: Vec<&str> = order
            .iter()
            .map(|vm| problem.traffic().names()[*vm].as_str())
            .collect();
        if names[0] == "e" {
            names.reverse();
        }
        assert_eq!(names, ["a", "b", "c", "d", "e"]);
    }

    /// The path of four: the eigenvector is a cosine.
    #[test]
    fn the_eigenvector_of_a_path_is_a_cosine() {
        let problem = of_pairs(&[("a", "b", 1.0), ("b", "c", 1.0), ("c", "d", 1.0)]);
        let vector = second_eigenvector(problem.traffic());
        let cosine = |vm: u32| libm::cos(std::f64::consts::PI * (f64::from(vm) + 0.5) / 4.0);
        for vm in 1..4 {
            let (found, known) = (vector[vm as usize] / vector[0], cosine(vm) / cosine(0));
            assert!((found - known).abs() < 1e-6, "{found} {known}");
        }
    }

    #[test]
    fn parts_that_do_not_talk_stand_apart() {
        let problem = of_pairs(&[("a", "b", 5.0), ("c", "d", 1.0), ("d", "e", 1.0)]);
        let order = order(&problem);
        let place = |vm: usize| order.iter().position(|other| *other == vm).unwrap();
        assert!(place(0).abs_diff(place(1)) == 1, "{order:?}");
    }

    #[test]
    fn silence_and_huge_rates_have_an_order() {
        for pairs in [
            &[("a", "b", 0.0), ("b", "c", 0.0)][..],
            &[("a", "b", 1e13), ("b", "c", 1e-300)],
        ] {
            let vector = second_eigenvector(of_pairs(pairs).traffic());
            assert!(vector.iter().all(|x| x.is_finite()), "{vector:?}");
        }
    }
}
