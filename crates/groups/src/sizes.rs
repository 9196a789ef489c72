//! How many VMs cross together: given, or derived so that each wave converges.

use crate::error::PlanError;
use crate::limits::WAVE_DIRTY_SHARE;
use crate::problem::Problem;
use std::fmt;
use std::str::FromStr;

/// The sizes of waves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sizes {
    /// That many VMs each, and the rest in the last wave; at least one.
    Each(usize),
    /// These, in order; they add up to the group.
    Given(Vec<usize>),
    /// As many VMs as leave half of the link to bytes that are copied for the first time, and at most `largest`.
    ///
    /// An order is cut from its front: a wave takes the next VM unless the wave's dirty rates would then take more than
    /// [`WAVE_DIRTY_SHARE`] of the link. So a VM that writes faster than that crosses alone. The
    /// annealed method tries smaller waves too.
    Auto {
        /// VMs of a wave, at most.
        largest: usize,
    },
}

impl Sizes {
    /// Whether a group of `vms` can be cut so.
    ///
    /// # Errors
    /// If the sizes do not add up, or one is zero.
    pub fn check(&self, vms: usize) -> Result<(), PlanError> {
        let sum = match self {
            Self::Each(size) | Self::Auto { largest: size } if *size > 0 => vms,
            Self::Each(_) | Self::Auto { .. } => 0,
            Self::Given(sizes) if sizes.contains(&0) => 0,
            Self::Given(sizes) => sizes
                .iter()
                .fold(0, |sum: usize, size| sum.saturating_add(*size)),
        };
        if sum == vms {
            return Ok(());
        }
        Err(PlanError::Sizes { sum, vms })
    }

    /// The sizes of the waves into which `order` is cut. [`check`](Self::check) has passed.
    pub(crate) fn of_order(&self, problem: &Problem, order: &[usize]) -> Vec<usize> {
        match self {
            Self::Each(size) => order.chunks(*size).map(<[usize]>::len).collect(),
            Self::Given(sizes) => sizes.clone(),
            Self::Auto { largest } => by_convergence(problem, order, *largest),
        }
    }

    /// `order`, cut into waves.
    pub(crate) fn cut(&self, problem: &Problem, order: &[usize]) -> Vec<Vec<usize>> {
        let mut rest = order;
        let mut waves = Vec::new();
        for size in self.of_order(problem, order) {
            let (wave, behind) = rest.split_at(size);
            waves.push(wave.to_vec());
            rest = behind;
        }
        waves
    }
}

fn by_convergence(problem: &Problem, order: &[usize], largest: usize) -> Vec<usize> {
    let mut sizes = Vec::new();
    let mut from = 0;
    for to in 1..=order.len() {
        let ends = to == order.len()
            || to - from == largest
            || problem.dirty_share(&order[from..=to]) > WAVE_DIRTY_SHARE;
        if ends {
            sizes.push(to - from);
            from = to;
        }
    }
    sizes
}

impl fmt::Display for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Each(size) => write!(f, "{size}"),
            Self::Auto { .. } => write!(f, "auto"),
            Self::Given(sizes) => {
                let words: Vec<String> = sizes.iter().map(usize::to_string).collect();
                write!(f, "{}", words.join(","))
            }
        }
    }
}

/// Why a text gives no sizes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' gives no sizes: write auto, one size from 1 such as 4, or all of them such as 8,8,4"
)]
pub struct ParseSizesError(String);

impl FromStr for Sizes {
    type Err = ParseSizesError;

    fn from_str(text: &str) -> Result<Self, ParseSizesError> {
        if text == "auto" {
            return Ok(Self::Auto {
                largest: usize::MAX,
            });
        }
        let sizes: Result<Vec<usize>, _> =
            text.split(',').map(|size| size.trim().parse()).collect();
        match sizes.as_deref() {
            Ok([size]) if *size > 0 => Ok(Self::Each(*size)),
            Ok(sizes) if sizes.len() > 1 && !sizes.contains(&0) => Ok(Self::Given(sizes.to_vec())),
            _ => Err(ParseSizesError(text.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Load, Rate, Split, TrafficMatrix};
    use units::Bytes;

    fn problem(dirty: &[f64]) -> Problem {
        let names: Vec<String> = (0..dirty.len()).map(|vm| vm.to_string()).collect();
        let traffic = TrafficMatrix::of_vms(names.iter().map(String::as_str)).unwrap();
        let load = |dirty: &f64| Load {
            size: Bytes::new(1),
            dirty: Rate::new(*dirty).unwrap(),
        };
        let link = Rate::new(100.0).unwrap();
        Problem::new(
            traffic,
            dirty.iter().map(load).collect(),
            link,
            Split::Dealt,
        )
        .unwrap()
    }

    #[test]
    fn the_last_wave_has_the_rest() {
        let problem = problem(&[0.0; 5]);
        assert_eq!(
            Sizes::Each(2).of_order(&problem, &[0, 1, 2, 3, 4]),
            [2, 2, 1]
        );
        assert_eq!(Sizes::Each(9).of_order(&problem, &[0, 1, 2, 3, 4]), [5]);
    }

    #[test]
    fn waves_of_their_own_size_leave_half_of_the_link() {
        let problem = problem(&[20.0, 20.0, 20.0, 70.0, 0.0, 50.0]);
        let auto = Sizes::Auto { largest: 10 };
        assert_eq!(auto.of_order(&problem, &[0, 1, 2, 3, 4, 5]), [2, 1, 1, 2]);
        let auto = Sizes::Auto { largest: 1 };
        assert_eq!(auto.of_order(&problem, &[0, 1, 2, 3, 4, 5]), [1; 6]);
    }

    #[test]
    fn sizes_that_do_not_add_up_are_refused() {
        assert_eq!(Sizes::Given(vec![2, 3]).check(5), Ok(()));
        for sizes in [
            Sizes::Given(vec![2, 2]),
            Sizes::Given(vec![5, 0]),
            Sizes::Given(vec![usize::MAX, 6]),
            Sizes::Each(0),
            Sizes::Auto { largest: 0 },
        ] {
            assert!(sizes.check(5).is_err(), "{sizes:?}");
        }
    }

    #[test]
    fn sizes_are_read_as_they_are_written() {
        for text in ["auto", "4", "8,8,4"] {
            assert_eq!(text.parse::<Sizes>().unwrap().to_string(), text);
        }
        for text in ["", "0", "-1", "4,0", "4,", "many", "1.5"] {
            assert!(text.parse::<Sizes>().is_err(), "{text}");
        }
    }
}
