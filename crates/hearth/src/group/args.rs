//! Arguments of `hearth group`.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand, ValueHint};
use groups::{Method, Rate, Sizes, Split};
use std::num::NonZeroUsize;
use std::path::PathBuf;

/// Plan how a group of VMs crosses a slow link, and move it.
#[derive(Debug, Subcommand)]
pub enum Group {
    /// Say which VMs cross together, in which order, with which bandwidth, and how long they take
    ///
    /// VMs that talk to each other should cross a slow link together: while some are across and others are not, their
    /// traffic crosses the link. Waves of VMs cross one after another; those of a wave in parallel. Nothing is moved.
    Plan(Box<Plan>),
    /// Move the VMs of a plan, wave by wave, as moves of the cluster
    ///
    /// Takes what plan takes, plans, and moves. The VMs of a wave are begun together; their shares of the link are dealt anew
    /// each second by what each has left. A wave begins when the last one is across. If a VM stays the rest is not begun,
    /// and the same command goes on later. Ended in the middle, moves that have begun go on: hearth move list.
    Run(Box<Run>),
}

/// Arguments of `group run`.
#[derive(Debug, Args)]
pub struct Run {
    /// What is planned
    #[command(flatten)]
    pub plan: Plan,
}

/// Arguments of `group plan`.
#[derive(Debug, Args)]
pub struct Plan {
    /// The VMs that move; all of --vms if none is named
    #[arg(value_name = "VM")]
    pub vms: Vec<String>,
    /// Who talks to whom: csv lines of a VM, a VM, and bytes a second (125MiB/s, 1Gbit or a number)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub traffic: PathBuf,
    /// What moves: csv lines of a VM, its bytes (64GiB; memory, and disks where storage moves too), and the bytes a
    /// second that it makes dirty
    #[arg(long = "vms", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub loads: PathBuf,
    /// The link that they cross: 10Gbit, 100Mbit, or bytes a second as in 500MiB/s
    #[arg(long, value_name = "RATE")]
    pub link_rate: Rate,
    /// The hosts that they move to, separated by commas; each VM is given to the one with the fewest bytes so far
    #[arg(long, value_name = "HOST,...", value_delimiter = ',', value_parser = host)]
    pub to: Vec<String>,
    /// How many VMs cross together: auto (as many as leave half of the link to what is copied for the first
    /// time), one size (4), or the size of each wave (8,8,4)
    #[arg(
        help_heading = "Waves",
        long,
        value_name = "SIZES",
        default_value = "auto"
    )]
    pub sizes: Sizes,
    /// How many VMs cross together at most, under --sizes auto
    #[arg(help_heading = "Waves", long, value_name = "N")]
    pub largest: Option<NonZeroUsize>,
    /// How the waves are found
    #[arg(help_heading = "Waves", long, value_name = "METHOD", default_value = Method::Annealed.word())]
    #[arg(value_parser = PossibleValuesParser::new(Method::ALL.map(Method::word)).try_map(|word| word.parse::<Method>()))]
    pub method: Method,
    /// How the VMs of a wave share the link: dealt so that all end together, or equal
    #[arg(help_heading = "Waves", long, value_name = "HOW", default_value = Split::Dealt.word())]
    #[arg(value_parser = PossibleValuesParser::new(Split::ALL.map(Split::word)).try_map(|word| split(&word)))]
    pub split: Split,
    /// Decides all that is random
    #[arg(help_heading = "Waves", long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Compare with the other methods
    #[arg(help_heading = "Results", long)]
    pub compare: bool,
    /// Draw the VMs, their waves and their traffic as SVG
    #[arg(help_heading = "Results", long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub svg: Option<PathBuf>,
}

fn host(name: &str) -> Result<String, String> {
    let name = name.trim();
    if name.is_empty() || name.contains(char::is_control) {
        return Err("write the names of hosts with commas between".to_owned());
    }
    Ok(name.to_owned())
}

fn split(word: &str) -> Result<Split, String> {
    Split::of_word(word).ok_or_else(|| "write dealt or equal".to_owned())
}

impl Plan {
    /// The sizes, with the largest one that was asked for.
    pub(super) fn sizes(&self) -> Sizes {
        match (&self.sizes, self.largest) {
            (Sizes::Auto { .. }, Some(largest)) => Sizes::Auto {
                largest: largest.get(),
            },
            (sizes, _) => sizes.clone(),
        }
    }
}
