//! Arguments of `hearth sim groups`.

use clap::{Args, ValueHint};
use groups::limits::VMS_MAX;
use groups::study::PREFIX;
use std::path::PathBuf;

/// Arguments of `sim groups`.
#[derive(Debug, Args)]
pub struct Groups {
    /// The traffic: gen:gravity,vms=68,sigma=0.7, gen:clustered,vms=68,clusters=4,sigma=0.7,across=0.1,linked=0.1, or a csv
    /// file of pairs as for hearth group plan. The paper's tables on generated traffic if none is given
    #[arg(value_name = "TRAFFIC", value_hint = ValueHint::FilePath)]
    pub sources: Vec<String>,
    /// How many VMs cross together, separated by commas
    #[arg(
        long,
        value_name = "N,...",
        value_delimiter = ',',
        default_value = "2,4,8,16,32",
        value_parser = count
    )]
    pub sizes: Vec<usize>,
    /// How many clusters k-means looks for, separated by commas
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "4,16", value_parser = count)]
    pub clusters: Vec<usize>,
    /// How many matrices are drawn, or how often methods draw for a measured one
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub seeds: u64,
    /// The first seed
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// The spread of the VMs' sizes where bandwidth that is equal and dealt is compared: the deviation of their logarithm
    #[arg(long, value_name = "SIGMA", default_value_t = 0.7, value_parser = sigma)]
    pub sizes_sigma: f64,
    /// Write the results as csv: a line for each seed
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub csv: Option<PathBuf>,
}

fn count(text: &str) -> Result<usize, String> {
    let count = text
        .parse()
        .ok()
        .filter(|count| (1..=VMS_MAX).contains(count));
    count.ok_or_else(|| format!("write a number from 1 to {VMS_MAX}"))
}

fn sigma(text: &str) -> Result<f64, String> {
    let sigma = text
        .parse()
        .ok()
        .filter(|sigma| (0.0..=10.0).contains(sigma));
    sigma.ok_or_else(|| "write a number from 0 to 10, such as 0.7".to_owned())
}

impl Groups {
    /// The files among the sources.
    pub(super) fn files(&self) -> Vec<PathBuf> {
        let files = self
            .sources
            .iter()
            .filter(|source| !source.starts_with(PREFIX));
        files.map(PathBuf::from).collect()
    }
}
