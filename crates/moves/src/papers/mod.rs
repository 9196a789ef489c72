//! The set-ups of three papers on moving a cache with its VM, each with the figures that the paper reports beside
//! those of the simulation, and `live` beside them.
//!
//! A set-up is *scaled down* by a factor: disks, caches and times are so many times smaller, rates and latencies as
//! they are. So blocks are read as often in the time that a paper counts as in its test bed.

pub mod cloudcache;
pub mod firepanif;
pub mod successor;

use crate::FormatError;
use serde::Serialize;
use trace::generate::{Spec, SpecError};
use units::Duration;
use units::number::real;

/// A paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paper {
    /// Park, Lee and Hong, Applied Sciences 2020.
    FirepanIf,
    /// Arteaga et al., FAST 2016.
    CloudCache,
    /// Lu et al., INFOCOM 2016.
    Successor,
}

impl Paper {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::FirepanIf, Self::CloudCache, Self::Successor];

    /// Its word on a command line.
    pub const fn word(self) -> &'static str {
        match self {
            Self::FirepanIf => "firepanif",
            Self::CloudCache => "cloudcache",
            Self::Successor => "successor",
        }
    }
}

/// What is said of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Standing {
    /// A device was set so that it comes out.
    Calibrated,
    /// It was not.
    Predicted,
    /// It contradicts what the paper says of its devices.
    NotPossible,
    /// The paper has no such row.
    Ours,
}

impl Standing {
    /// Its word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Calibrated => "calibrated",
            Self::Predicted => "predicted",
            Self::NotPossible => "not possible",
            Self::Ours => "ours",
        }
    }
}

/// A figure of a paper beside that of the simulation.
#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    /// Which paper.
    pub paper: &'static str,
    /// What is measured, and of what.
    pub what: String,
    /// By which method.
    pub method: &'static str,
    /// What both figures count.
    pub unit: &'static str,
    /// The paper's.
    pub theirs: Option<f64>,
    /// The simulation's.
    pub ours: f64,
    /// What is said of it.
    pub standing: Standing,
}

impl Figure {
    fn new(
        paper: Paper,
        what: String,
        method: &'static str,
        unit: &'static str,
        ours: f64,
    ) -> Self {
        Self {
            paper: paper.word(),
            what,
            method,
            unit,
            theirs: None,
            ours,
            standing: Standing::Ours,
        }
    }

    fn beside(mut self, theirs: f64, standing: Standing) -> Self {
        self.theirs = Some(theirs);
        self.standing = standing;
        self
    }
}

/// Why a paper's set-up cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum PaperError {
    /// A cache is too small for a log.
    #[error("the cache is too small: {0}")]
    Cache(#[from] FormatError),
    /// A generator is described wrongly.
    #[error(transparent)]
    Requests(#[from] SpecError),
    /// A device is described wrongly.
    #[error(transparent)]
    Device(#[from] simulator::device::DeviceError),
}

/// All figures of a paper.
///
/// # Errors
/// [`PaperError`]: none, as the set-ups are fixed.
pub fn figures(paper: Paper, seed: u64) -> Result<Vec<Figure>, PaperError> {
    match paper {
        Paper::FirepanIf => firepanif::figures(seed),
        Paper::CloudCache => cloudcache::figures(seed),
        Paper::Successor => successor::figures(seed),
    }
}

/// By how much a set-up is smaller than the paper's.
pub const fn scale(paper: Paper) -> u32 {
    match paper {
        Paper::FirepanIf => firepanif::SCALE,
        Paper::CloudCache => cloudcache::SCALE,
        Paper::Successor => successor::SCALE,
    }
}

/// A time of the paper in a run that is smaller by a factor.
fn time(seconds: u64, scale: u32) -> Duration {
    Duration::from_nanos(seconds * 1_000_000_000 / u64::from(scale))
}

/// A time of such a run as the paper's, in seconds.
fn seconds(time: Duration, scale: u32) -> f64 {
    real(time.as_nanos()) / 1e9 * f64::from(scale)
}

/// Gigabytes as blocks of such a run.
fn blocks(gigabytes: f64, scale: u32) -> u32 {
    let blocks = gigabytes * f64::from(1 << 18) / f64::from(scale);
    u32::try_from(units::number::count_near(blocks)).unwrap_or(u32::MAX)
}

fn requests(text: &str, seed: u64) -> Result<Spec, SpecError> {
    format!("gen:{text},requests=1000M,seed={seed}").parse()
}
