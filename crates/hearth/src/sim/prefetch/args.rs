//! Arguments of `hearth sim prefetch`.

use crate::traces::args::Reading;
use clap::{Args, ValueHint};
use policy::replacement::{Fraction, SpecError, split_list};
use simulator::prefetch::{Experiment, RamPolicy, Waste};
use std::path::PathBuf;
use units::Bytes;

/// Arguments of `sim prefetch`.
#[derive(Debug, Args)]
pub struct Prefetch {
    /// The traces, packed or not, or generators as in gen:sequential,blocks=100k; each is replayed by itself
    #[arg(value_name = "TRACE", required = true, value_hint = ValueHint::FilePath)]
    pub traces: Vec<PathBuf>,
    /// The miners, separated by commas; parameters follow a colon: readahead,vip:length=4,sup=2,conf=0.5. They are
    /// none, sequential, readahead, vip, mithril and delta. Each is tried alone, and all of them together
    #[arg(long, value_name = "MINER,...", default_value = "readahead,vip,mithril", value_parser = miners)]
    pub prefetch: Miners,
    /// What guesses may waste: blocks for each that the guest reads (0.1), or unbounded. Each VM has that for all of
    /// its miners together
    #[arg(long, value_name = "PART", default_value = "0.1", value_parser = waste)]
    pub waste: Bound,
    /// What guesses may waste beyond that, as a size; if not given a quarter of the memory, 1 MiB at least
    #[arg(long, value_name = "SIZE", value_parser = buffer)]
    pub bucket: Option<Bytes>,
    /// Memory for blocks, sizes separated by commas: 1MiB,8MiB
    #[arg(help_heading = "Memory", long, value_name = "SIZE,...", value_delimiter = ',', default_value = "1MiB", value_parser = buffer)]
    pub ram: Vec<Bytes>,
    /// What keeps blocks there, separated by commas: the policies of hearth sim, as in fifo,lru, make one buffer of it;
    /// pool is the daemon's, with a quarter for what was prefetched and a share for each VM, and pool:w-tinylfu names
    /// its policy for blocks that were read
    #[arg(help_heading = "Memory", long, value_name = "POLICY,...", default_value = "lru", value_parser = policies)]
    pub ram_policy: Policies,
    /// Count the second half of the reads only: the first half is what the miners learn from
    #[arg(help_heading = "What is counted", long)]
    pub train_half: bool,
    /// Write a report: one page of HTML with figures, which needs no network
    #[arg(help_heading = "Results", long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub report: Option<PathBuf>,
    /// How the traces are read.
    #[command(flatten, next_help_heading = "Reading traces")]
    pub reading: Reading,
}

/// The miners of a command line.
#[derive(Clone, Debug)]
pub struct Miners(pub Vec<prefetch::Spec>);

/// The policies of a command line.
#[derive(Clone, Debug)]
pub struct Policies(pub Vec<RamPolicy>);

/// What guesses may waste.
#[derive(Clone, Copy, Debug)]
pub enum Bound {
    /// Whatever they do
    None,
    /// So many blocks for each that is demanded
    Part(Fraction),
}

fn miners(text: &str) -> Result<Miners, String> {
    let parse = |one: &String| one.parse().map_err(|error: SpecError| error.to_string());
    let miners: Vec<prefetch::Spec> = split_list(text)
        .iter()
        .map(parse)
        .collect::<Result<_, _>>()?;
    if miners.len() > prefetch::price::MINERS_MAX {
        return Err(format!("at most {} miners", prefetch::price::MINERS_MAX));
    }
    Ok(Miners(miners))
}

fn policies(text: &str) -> Result<Policies, String> {
    let parse = |one: &String| {
        let policy = one.parse().map_err(|error: SpecError| error.to_string())?;
        if let RamPolicy::Buffer(spec) = &policy
            && spec.about().knows_future
        {
            return Err(format!(
                "{one} must know what is read next, guesses included"
            ));
        }
        Ok(policy)
    };
    let policies = split_list(text)
        .iter()
        .map(parse)
        .collect::<Result<_, _>>()?;
    Ok(Policies(policies))
}

fn waste(text: &str) -> Result<Bound, String> {
    if text == "unbounded" {
        return Ok(Bound::None);
    }
    Fraction::parse(text, Fraction::ZERO, Fraction::ONE)
        .map(Bound::Part)
        .map_err(|_| "write a number from 0 to 1, or unbounded".to_owned())
}

fn buffer(text: &str) -> Result<Bytes, String> {
    let size: Bytes = text.parse().map_err(|error| format!("{error}"))?;
    let range = Bytes::new(units::BLOCK_BYTES)..=Bytes::gib(64);
    if range.contains(&size) {
        return Ok(size);
    }
    Err("a size from 4KiB to 64GiB".to_owned())
}

/// An experiment and what its row of the table says.
pub(super) struct Row {
    pub(super) miners: String,
    pub(super) waste: String,
    pub(super) experiment: Experiment,
}

impl Prefetch {
    /// All experiments with a trace: for each size and policy the baselines, each miner alone, all together.
    pub(super) fn rows(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        for &ram in &self.ram {
            for policy in &self.ram_policy.0 {
                let row = |miners: &[prefetch::Spec], bound| {
                    let names: Vec<String> = miners.iter().map(ToString::to_string).collect();
                    Row {
                        miners: names.join(","),
                        waste: match bound {
                            Bound::None => "unbounded".to_owned(),
                            Bound::Part(part) => part.to_string(),
                        },
                        experiment: Experiment {
                            miners: miners.to_vec(),
                            waste: self.waste_of(bound),
                            ram,
                            policy: policy.clone(),
                            train_half: self.train_half,
                        },
                    }
                };
                rows.extend(baselines().map(|baseline| row(&[baseline], Bound::None)));
                let alone = self.prefetch.0.iter();
                rows.extend(alone.map(|miner| row(std::slice::from_ref(miner), self.waste)));
                if self.prefetch.0.len() > 1 {
                    rows.push(row(&self.prefetch.0, self.waste));
                }
            }
        }
        rows
    }

    fn waste_of(&self, bound: Bound) -> Waste {
        match bound {
            Bound::None => Waste::Unbounded,
            Bound::Part(waste) => Waste::Priced {
                waste,
                bucket: self.bucket.map(|bucket| {
                    u32::try_from(bucket.get() / units::BLOCK_BYTES)
                        .expect("64 GiB have less than 2^32 blocks")
                }),
            },
        }
    }
}

/// What every table begins with: no prefetch, and the paper's sequential one.
fn baselines() -> impl Iterator<Item = prefetch::Spec> {
    let names = ["none", "sequential"].into_iter();
    names.map(|name| name.parse().expect("it is registered"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_keep_the_parameters_of_a_miner() {
        let Miners(list) = miners("readahead,vip:length=8,sup=3,mithril").unwrap();
        let names: Vec<String> = list.iter().map(ToString::to_string).collect();
        assert_eq!(names, ["readahead", "vip:length=8,sup=3", "mithril"]);
        assert!(miners("vipp").unwrap_err().contains("did you mean 'vip'"));
        assert!(policies("lru,belady").unwrap_err().contains("belady"));
        let Policies(list) = policies("pool:lru,fifo,pool").unwrap();
        let names: Vec<String> = list.iter().map(ToString::to_string).collect();
        assert_eq!(names, ["pool:lru", "fifo", "pool:s3-fifo"]);
    }

    #[test]
    fn waste_is_a_part_or_unbounded() {
        assert!(matches!(waste("unbounded"), Ok(Bound::None)));
        assert!(matches!(waste("0.05"), Ok(Bound::Part(_))));
        assert!(waste("10%").is_err());
        assert!(buffer("1KiB").is_err());
    }
}
