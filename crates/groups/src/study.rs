//! The experiments of Clique's evaluation, repeated on matrices that stand in for its own, and on a matrix of one's own.
//!
//! | table | what | against | paper |
//! |---|---|---|---|
//! | [`by_size`] | each method at each size of waves | serial in random order | figure 9 |
//! | [`by_clusters`] | the sizes that k-means gives for k clusters | random grouping in those sizes | figure 10 |
//! | [`by_optimum`] | how far above the least volume | `exact` | – |
//! | [`by_split`] | lognormal loads, bandwidth equal and dealt | serial in random order | – |
//!
//! A value for each seed, which decides the matrix, the loads and what the methods draw. All VMs write nothing, so that
//! times are those of the sizes.

use crate::cost::{saved, serial_mean};
use crate::error::PlanError;
use crate::methods::{Method, kmeans_sf, random};
use crate::problem::Problem;
use crate::rate::Rate;
use crate::sizes::Sizes;
use crate::standin::{self, Clustered, loads};
use crate::traffic::TrafficMatrix;
use crate::{Split, cost};
use std::fmt;
use std::str::FromStr;
use units::number::real;
use units::{Bytes, Prng};

/// Where a matrix comes from.
#[derive(Clone, Debug)]
pub enum Source {
    /// Drawn: rates are products of weights.
    Gravity {
        /// How many VMs.
        vms: usize,
        /// The deviation of the logarithms.
        sigma: f64,
    },
    /// Drawn: VMs in clusters.
    Clustered {
        /// How many VMs.
        vms: usize,
        /// What the clusters are like.
        kind: Clustered,
    },
    /// Given; its name is for tables.
    Given {
        /// What the tables call it.
        name: String,
        /// The matrix.
        traffic: TrafficMatrix,
    },
}

/// What a method reached, by seed.
#[derive(Clone, Debug)]
pub struct Found {
    /// Of which table.
    pub table: &'static str,
    /// Of which matrix.
    pub source: String,
    /// The size of waves, or the number of clusters.
    pub group: usize,
    /// Which method.
    pub method: &'static str,
    /// A part of what it is compared with, for each seed.
    pub values: Vec<f64>,
    /// What the paper says of its own matrix.
    pub paper: Option<f64>,
}

impl Found {
    /// The mean over the seeds.
    pub fn mean(&self) -> f64 {
        cost::mean(&self.values)
    }

    /// The standard deviation over the seeds.
    pub fn deviation(&self) -> f64 {
        let mean = self.mean();
        let squares: Vec<f64> = self
            .values
            .iter()
            .map(|value| (value - mean).powi(2))
            .collect();
        let freedom = real(squares.len().saturating_sub(1).max(1) as u64);
        (squares.iter().sum::<f64>() / freedom).sqrt()
    }

    /// The largest over the seeds.
    pub fn most(&self) -> f64 {
        self.values
            .iter()
            .copied()
            .fold(f64::NEG_INFINITY, f64::max)
    }

    /// The smallest over the seeds.
    pub fn least(&self) -> f64 {
        self.values.iter().copied().fold(f64::INFINITY, f64::min)
    }
}

/// Which seeds, and whom to tell of each run that is done.
pub struct Runs<'a> {
    /// From the first seed on.
    pub seeds: std::ops::Range<u64>,
    /// Called after each run.
    pub done: &'a mut dyn FnMut(),
}

/// The median bytes of a VM: the paper's disks.
const SIZE: Bytes = Bytes::gib(8);
/// The paper's link between data centres.
const LINK_BYTES: f64 = 12.5e6;

/// Part saved against serial by each method, for waves of each size.
///
/// # Errors
/// If a matrix has no VMs.
pub fn by_size(
    source: &Source,
    sizes: &[usize],
    runs: &mut Runs<'_>,
) -> Result<Vec<Found>, PlanError> {
    let methods = [
        Method::Random,
        Method::RMinCut,
        Method::KmeansSf,
        Method::Annealed,
    ];
    let mut all = Vec::new();
    for size in sizes {
        let mut found = methods.map(|method| {
            let paper = figure_9(method, *size);
            source.found("saved against serial", *size, method.word(), paper)
        });
        for seed in runs.seeds.clone() {
            let problem = source.problem(seed, 0.0, Split::Dealt)?;
            let serial = serial_mean(&problem);
            for (found, method) in found.iter_mut().zip(methods) {
                let volume = volume(&problem, method, &Sizes::Each(*size), seed)?;
                found.values.push(saved(volume, serial));
            }
            (runs.done)();
        }
        all.extend(found);
    }
    Ok(all)
}

/// The chapter's figures for its matrix of 68 VMs, where the text gives them.
fn figure_9(method: Method, size: usize) -> Option<f64> {
    match (method, size) {
        (Method::Random, 2 | 4) => Some(0.0),
        (Method::Random, 32) => Some(0.264),
        (Method::RMinCut, 2) => Some(0.247),
        (Method::RMinCut, 32) => Some(0.412),
        _ => None,
    }
}

/// Part saved against random grouping, in the sizes that k-means gives.
///
/// # Errors
/// If a matrix has no VMs.
pub fn by_clusters(
    source: &Source,
    counts: &[usize],
    runs: &mut Runs<'_>,
) -> Result<Vec<Found>, PlanError> {
    let table = "saved against random, sizes of k-means";
    let mut all = Vec::new();
    for count in counts {
        // The text gives the most of each method, and says that R-Min-Cut has it at four.
        let of_four = |paper: f64| (*count == 4).then_some(paper);
        let mut found = [
            source.found(table, *count, "r-min-cut", of_four(0.744)),
            source.found(table, *count, "kmeans-sf", of_four(0.669)),
            source.found(table, *count, "not shuffled", None),
            source.found(table, *count, "annealed", None),
        ];
        for seed in runs.seeds.clone() {
            let problem = source.problem(seed, 0.0, Split::Dealt)?;
            let (shuffled, not_shuffled) = kmeans_sf::of_own_sizes(&problem, *count, seed);
            let sizes = Sizes::Given(shuffled.waves().iter().map(|wave| wave.vms.len()).collect());
            let random = volume(&problem, Method::Random, &sizes, seed)?;
            let volumes = [
                volume(&problem, Method::RMinCut, &sizes, seed)?,
                shuffled.volume().unwrap_or(f64::INFINITY),
                not_shuffled.volume().unwrap_or(f64::INFINITY),
                volume(&problem, Method::Annealed, &sizes, seed)?,
            ];
            for (found, volume) in found.iter_mut().zip(volumes) {
                found.values.push(saved(volume, random));
            }
            (runs.done)();
        }
        all.extend(found);
    }
    Ok(all)
}

/// By which part each method's volume exceeds the least one, for waves of each size.
///
/// A group whose least volume is zero counts as reached or, if it is not, as one whole part above.
///
/// # Errors
/// If a matrix has no VMs, or too many for the exact method.
pub fn by_optimum(
    source: &Source,
    sizes: &[usize],
    runs: &mut Runs<'_>,
) -> Result<Vec<Found>, PlanError> {
    let methods = [Method::RMinCut, Method::KmeansSf, Method::Annealed];
    let mut all = Vec::new();
    for size in sizes {
        let mut found =
            methods.map(|method| source.found("above the optimum", *size, method.word(), None));
        for seed in runs.seeds.clone() {
            let problem = source.problem(seed, 0.0, Split::Dealt)?;
            let sizes = Sizes::Each(*size);
            let least = volume(&problem, Method::Exact, &sizes, seed)?;
            for (found, method) in found.iter_mut().zip(methods) {
                let volume = volume(&problem, method, &sizes, seed)?;
                found.values.push(match (least > 0.0, volume > 0.0) {
                    (true, _) => volume / least - 1.0,
                    (false, is_above) => f64::from(u8::from(is_above)),
                });
            }
            (runs.done)();
        }
        all.extend(found);
    }
    Ok(all)
}

/// Part saved against serial with loads of lognormal sizes (their logarithms deviate by `sigma`), for bandwidth that is
/// equal and that is dealt.
///
/// # Errors
/// If a matrix has no VMs.
pub fn by_split(
    source: &Source,
    sizes: &[usize],
    sigma: f64,
    runs: &mut Runs<'_>,
) -> Result<Vec<Found>, PlanError> {
    let rows = [
        (Split::Equal, Method::Random, "equal, random"),
        (Split::Equal, Method::Annealed, "equal, annealed"),
        (Split::Dealt, Method::Random, "dealt, random"),
        (Split::Dealt, Method::Annealed, "dealt, annealed"),
    ];
    let table = "saved against serial, unequal VMs";
    let mut all = Vec::new();
    for size in sizes {
        let mut found = rows.map(|(_, _, name)| source.found(table, *size, name, None));
        for seed in runs.seeds.clone() {
            for (found, (split, method, _)) in found.iter_mut().zip(rows) {
                let problem = source.problem(seed, sigma, split)?;
                let volume = volume(&problem, method, &Sizes::Each(*size), seed)?;
                found.values.push(saved(volume, serial_mean(&problem)));
            }
            (runs.done)();
        }
        all.extend(found);
    }
    Ok(all)
}

/// The volume of a method; of random grouping the mean of many.
fn volume(problem: &Problem, method: Method, sizes: &Sizes, seed: u64) -> Result<f64, PlanError> {
    if method == Method::Random {
        let mean = random::mean_volume(problem, sizes, seed)?;
        return Ok(mean.unwrap_or(f64::INFINITY));
    }
    let plan = method.plan(problem, sizes, seed)?;
    Ok(plan.volume().unwrap_or(f64::INFINITY))
}

impl Source {
    /// How many VMs it has.
    pub const fn vms(&self) -> usize {
        match self {
            Self::Gravity { vms, .. } | Self::Clustered { vms, .. } => *vms,
            Self::Given { traffic, .. } => traffic.vms(),
        }
    }

    /// The same with another number of VMs; a given matrix stays what it is.
    pub fn with_vms(&self, count: usize) -> Self {
        let mut same = self.clone();
        match &mut same {
            Self::Gravity { vms, .. } | Self::Clustered { vms, .. } => *vms = count,
            Self::Given { .. } => {}
        }
        same
    }

    fn problem(&self, seed: u64, sigma: f64, split: Split) -> Result<Problem, PlanError> {
        let mut dice = Prng::new(seed);
        let traffic = match self {
            Self::Gravity { vms, sigma } => standin::gravity(*vms, *sigma, &mut dice),
            Self::Clustered { vms, kind } => standin::clustered(*vms, kind, &mut dice).0,
            Self::Given { traffic, .. } => traffic.clone(),
        };
        let loads = loads(traffic.vms(), SIZE, sigma, &mut dice);
        let link = Rate::new(LINK_BYTES).unwrap_or_default();
        Problem::new(traffic, loads, link, split)
    }

    fn found(
        &self,
        table: &'static str,
        group: usize,
        method: &'static str,
        paper: Option<f64>,
    ) -> Found {
        Found {
            table,
            source: self.to_string(),
            group,
            method,
            values: Vec::new(),
            paper,
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gravity { vms, sigma } => write!(f, "{PREFIX}gravity,vms={vms},sigma={sigma}"),
            Self::Clustered { vms, kind } => write!(
                f,
                "{PREFIX}clustered,vms={vms},clusters={},sigma={},across={},linked={}",
                kind.clusters, kind.sigma, kind.across, kind.linked
            ),
            Self::Given { name, .. } => write!(f, "{name}"),
        }
    }
}

/// What the name of a generated matrix begins with.
pub const PREFIX: &str = "gen:";

/// Why a text describes no generator.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is no generator of traffic: write gen:gravity,vms=68,sigma=0.7 or gen:clustered,vms=68,clusters=4,sigma=0.7,across=0.1,linked=0.1"
)]
pub struct ParseSourceError(String);

impl FromStr for Source {
    type Err = ParseSourceError;

    /// `gen:gravity,..` and `gen:clustered,..`; what is left out has its default.
    fn from_str(text: &str) -> Result<Self, ParseSourceError> {
        let wrong = || ParseSourceError(text.to_owned());
        let mut words = text.strip_prefix(PREFIX).ok_or_else(wrong)?.split(',');
        let is_gravity = match words.next() {
            Some("gravity") => true,
            Some("clustered") => false,
            _ => return Err(wrong()),
        };
        let mut vms = 68;
        let mut kind = Clustered::of(4);
        for word in words {
            let (key, value) = word.split_once('=').ok_or_else(wrong)?;
            let number = || value.parse::<f64>().map_err(|_| wrong());
            let count = || value.parse::<usize>().map_err(|_| wrong());
            match key {
                "vms" => vms = count()?,
                "sigma" => kind.sigma = number()?,
                "clusters" if !is_gravity => kind.clusters = count()?,
                "across" if !is_gravity => kind.across = number()?,
                "linked" if !is_gravity => kind.linked = number()?,
                _ => return Err(wrong()),
            }
        }
        let parts = [kind.across, kind.linked];
        let is_sound = (2..=crate::limits::VMS_MAX).contains(&vms)
            && (1..=vms).contains(&kind.clusters)
            && (0.0..=10.0).contains(&kind.sigma)
            && parts.iter().all(|part| (0.0..=1.0).contains(part));
        if !is_sound {
            return Err(wrong());
        }
        let sigma = kind.sigma;
        Ok(if is_gravity {
            Self::Gravity { vms, sigma }
        } else {
            Self::Clustered { vms, kind }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(done: &mut dyn FnMut()) -> Runs<'_> {
        Runs { seeds: 1..3, done }
    }

    fn of<'a>(all: &'a [Found], group: usize, method: &str) -> &'a Found {
        let mut all = all.iter();
        all.find(|found| found.group == group && found.method == method)
            .unwrap()
    }

    #[test]
    fn each_seed_has_a_value_and_each_run_is_told() {
        let source: Source = "gen:gravity,vms=12,sigma=0.7".parse().unwrap();
        let mut count = 0;
        let mut done = || count += 1;
        let all = by_size(&source, &[2, 6], &mut runs(&mut done)).unwrap();
        assert_eq!(count, 4);
        assert_eq!(all.len(), 8);
        assert!(all.iter().all(|found| found.values.len() == 2));
        assert_eq!(of(&all, 2, "r-min-cut").paper, Some(0.247));
        assert!(of(&all, 2, "annealed").least() >= of(&all, 2, "r-min-cut").least());
    }

    #[test]
    fn annealed_is_at_the_optimum_and_random_sizes_are_those_of_k_means() {
        let source: Source = "gen:clustered,vms=10,clusters=2".parse().unwrap();
        let mut done = || {};
        let above = by_optimum(&source, &[2, 5], &mut runs(&mut done)).unwrap();
        assert!(of(&above, 5, "annealed").most() < 0.01);
        let clusters = by_clusters(&source, &[2], &mut runs(&mut done)).unwrap();
        assert!(of(&clusters, 2, "annealed").mean() > 0.3);
        assert_eq!(of(&clusters, 2, "r-min-cut").paper, None);
    }

    #[test]
    fn equal_bandwidth_costs_unequal_vms_more_than_dealt() {
        let source: Source = "gen:clustered,vms=24".parse().unwrap();
        let mut done = || {};
        let all = by_split(&source, &[8], 1.0, &mut runs(&mut done)).unwrap();
        for method in ["random", "annealed"] {
            let equal = of(&all, 8, &format!("equal, {method}")).mean();
            let dealt = of(&all, 8, &format!("dealt, {method}")).mean();
            assert!(equal < dealt, "{method}: {equal} {dealt}");
        }
    }

    #[test]
    fn generators_are_read_as_they_are_written() {
        for text in [
            "gen:gravity,vms=68,sigma=0.5",
            "gen:clustered,vms=20,clusters=16,sigma=0.7,across=0.1,linked=0.2",
        ] {
            assert_eq!(text.parse::<Source>().unwrap().to_string(), text);
        }
        for text in [
            "gravity",
            "gen:",
            "gen:star",
            "gen:gravity,vms=1",
            "gen:gravity,clusters=2",
            "gen:gravity,sigma=nan",
            "gen:clustered,clusters=0",
            "gen:clustered,linked=2",
            "gen:clustered,vms=4,clusters=5",
            "gen:gravity,vms=100000",
            "gen:gravity,vms",
        ] {
            assert!(text.parse::<Source>().is_err(), "{text}");
        }
    }
}
