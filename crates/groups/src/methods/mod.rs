//! The methods: from a problem to an order of its VMs, which [`Sizes`] cuts into waves.
//!
//! | file | what |
//! |---|---|
//! | `serial` | one VM at a time, as they were given |
//! | [`random`] | the control group: random orders |
//! | `r_min_cut` | minimum cut, then greedy |
//! | [`kmeans_sf`] | k-means on the rows of the matrix (`k_means`, `kendall`), then shuffle |
//! | `fiedler` | the order of the graph's second eigenvector |
//! | `annealed` | the best of those, then simulated annealing (`exchange`) |
//! | `exact` | the least volume, to sixteen VMs |

mod annealed;
mod exact;
mod exchange;
mod fiedler;
mod k_means;
mod kendall;
pub mod kmeans_sf;
mod r_min_cut;
pub mod random;
mod serial;

use crate::error::PlanError;
use crate::plan::Plan;
use crate::problem::Problem;
use crate::sizes::Sizes;
use std::str::FromStr;
use units::Prng;

/// How a plan is found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Method {
    /// One VM at a time, in the order in which they were given.
    Serial,
    /// A random order.
    Random,
    /// The paper's first method.
    RMinCut,
    /// The paper's second method.
    KmeansSf,
    /// The best of the others, improved by simulated annealing.
    #[default]
    Annealed,
    /// The least volume there is, for few VMs.
    Exact,
}

impl Method {
    /// Every method, in one order for tables.
    pub const ALL: [Self; 6] = [
        Self::Serial,
        Self::Random,
        Self::RMinCut,
        Self::KmeansSf,
        Self::Annealed,
        Self::Exact,
    ];

    /// Its word on command lines.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Serial => "serial",
            Self::Random => "random",
            Self::RMinCut => "r-min-cut",
            Self::KmeansSf => "kmeans-sf",
            Self::Annealed => "annealed",
            Self::Exact => "exact",
        }
    }

    /// The plan that it finds. `serial` ignores `sizes`. The seed decides all that is random.
    ///
    /// # Errors
    /// If the sizes do not fit the group, or the group is too large for the exact method.
    pub fn plan(self, problem: &Problem, sizes: &Sizes, seed: u64) -> Result<Plan, PlanError> {
        sizes.check(problem.vms())?;
        let mut dice = Prng::new(seed);
        let waves = match self {
            Self::Serial => serial::waves(problem),
            Self::Random => random::waves(problem, sizes, &mut dice),
            Self::RMinCut => sizes.cut(problem, &r_min_cut::order(problem)),
            Self::KmeansSf => kmeans_sf::waves(problem, sizes, &mut dice),
            Self::Annealed => annealed::waves(problem, sizes, &mut dice),
            Self::Exact => exact::waves(problem, sizes, &mut dice)?,
        };
        Ok(Plan::new(problem, waves))
    }
}

impl FromStr for Method {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let words = Self::ALL.map(Self::word).join(", ");
        let mut all = Self::ALL.into_iter();
        all.find(|method| method.word() == word)
            .ok_or_else(|| format!("write one of {words}"))
    }
}
