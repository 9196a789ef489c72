//! Arguments of `hearth mrc`, and those that it shares with `hearth advise`.

use crate::traces::args::Reading;
use clap::{Args, ValueEnum, ValueHint};
use curves::Method;
use mrc::{Counted, Writes};
use policy::replacement::{Spec, split_list};
use simulator::{CacheSize, Policy};
use std::path::PathBuf;

/// Arguments of `mrc`.
#[derive(Debug, Args)]
pub struct Mrc {
    /// The traces, packed or not; each has a curve of its own
    #[arg(value_name = "TRACE", required = true, value_hint = ValueHint::FilePath)]
    pub traces: Vec<PathBuf>,
    /// How the curves are found.
    #[command(flatten)]
    pub sampling: Sampling,
    /// The policies, separated by commas. All sizes of lru come from one pass; others are simulated
    /// in miniature, at each of the sizes
    #[arg(long, value_name = "POLICY,...", default_value = "lru", value_parser = specs)]
    pub policy: Specs,
    /// Count reads alone; what writes do to the cache is for --writes to say
    #[arg(long)]
    pub reads: bool,
    /// What a written block does
    #[arg(long, value_name = "WHAT", value_enum, default_value_t)]
    pub writes: WritesArg,
    /// The sizes to print, separated by commas: bytes (4MiB), blocks (27000blk) or a part of the
    /// distinct blocks (10%)
    #[arg(long, value_name = "SIZE,...", value_delimiter = ',')]
    pub sizes: Vec<CacheSize>,
    /// A curve for each volume as well, as if it had a cache to itself
    #[arg(long)]
    pub per_volume: bool,
    /// Write the curves as csv
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub csv: Option<PathBuf>,
    /// Write a page of HTML with the curves, which needs no network
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub report: Option<PathBuf>,
}

/// Which blocks a curve is made from.
#[derive(Clone, Debug, Args)]
pub struct Sampling {
    /// Every access counts; this is the default
    #[arg(long, group = "method")]
    pub exact: bool,
    /// Sample that part of all blocks (SHARDS), such as 0.01
    #[arg(long, value_name = "RATE", group = "method", value_parser = rate)]
    pub sample: Option<f64>,
    /// Sample at most so many blocks (SHARDS of a fixed size), such as 8192
    #[arg(long, value_name = "BLOCKS", group = "method")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub samples: Option<u32>,
    /// Which blocks are sampled
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// How the traces are read.
    #[command(flatten)]
    pub reading: Reading,
}

/// What a write does to the cached copy of its blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum WritesArg {
    /// It is in the cache, newest: write-through and write-back
    #[default]
    Allocate,
    /// It leaves the cache: write-around
    Invalidate,
    /// Nothing: the reads by themselves
    Exclude,
}

impl WritesArg {
    /// In the words of the curves.
    pub(super) const fn writes(self) -> Writes {
        match self {
            Self::Allocate => Writes::Allocate,
            Self::Invalidate => Writes::Invalidate,
            Self::Exclude => Writes::Exclude,
        }
    }

    /// The word for it.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Allocate => "allocate",
            Self::Invalidate => "invalidate",
            Self::Exclude => "exclude",
        }
    }
}

/// The policies of a command line.
#[derive(Clone, Debug)]
pub struct Specs(pub Vec<Spec>);

fn specs(text: &str) -> Result<Specs, String> {
    let specs = split_list(text)
        .iter()
        .map(|one| spec(one))
        .collect::<Result<Vec<_>, _>>()?;
    let knows_future = specs.iter().find(|spec| spec.about().knows_future);
    match knows_future {
        Some(spec) => Err(format!(
            "{} knows the future, which a sample does not have; run it with hearth sim",
            spec.about().name
        )),
        None => Ok(Specs(specs)),
    }
}

fn spec(text: &str) -> Result<Spec, String> {
    text.parse::<Spec>().map_err(|error| {
        let is_log = text.parse().is_ok_and(|policy: Policy| policy.is_log());
        if is_log {
            format!(
                "{text} has no curve from a sample; run it with hearth sim, or with hearth advise"
            )
        } else {
            error.to_string()
        }
    })
}

fn rate(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|rate| *rate > 0.0 && *rate <= 1.0)
        .ok_or_else(|| "write a part of all blocks, above 0 and at most 1, such as 0.01".to_owned())
}

impl Sampling {
    /// The method for LRU.
    pub(crate) fn method(&self) -> Method {
        let seed = self.seed;
        match (self.sample, self.samples) {
            (Some(rate), _) => Method::FixedRate { rate, seed },
            (None, Some(blocks)) => Method::FixedSize {
                blocks_max: blocks as usize,
                seed,
            },
            (None, None) => Method::Exact,
        }
    }
}

impl Mrc {
    /// What the table, the plot and `miss_ratio` are over.
    pub(super) const fn counted(&self) -> Counted {
        if self.reads {
            Counted::Reads
        } else {
            Counted::All
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_parts_of_a_whole() {
        assert_eq!(rate("0.01"), Ok(0.01));
        assert_eq!(rate("1"), Ok(1.0));
        for text in ["0", "-0.1", "1.01", "nan", "1%", ""] {
            assert!(rate(text).is_err(), "{text}");
        }
    }

    #[test]
    fn belady_is_refused_with_what_to_do() {
        assert!(specs("lru,belady").is_err_and(|error| error.contains("hearth sim")));
        assert!(specs("lru,daemon").is_err_and(|error| error.contains("hearth advise")));
        assert_eq!(
            specs("lru,2q:kin=0.3,kout=0.6").map(|specs| specs.0.len()),
            Ok(2)
        );
    }
}
