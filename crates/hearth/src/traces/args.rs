//! Arguments of `hearth trace`.

use api::types::RECORDING_SIZE_DEFAULT;
use clap::{Args, Subcommand, ValueHint};
use configuration::Name;
use std::path::PathBuf;
use trace::write::Target;
use trace::{CsvColumns, Format, Options};
use units::{Bytes, Duration};

/// Look at, convert, generate and record traces.
#[derive(Debug, Subcommand)]
pub enum Trace {
    /// Tell what traces are like, and what about them would ruin a study
    ///
    /// Operations, sizes, footprint, arrival, reuse, sequentiality, each volume; and warnings, with what
    /// was seen, where first, and what to do. One pass over each trace. With --json one trace is an object,
    /// several are an array.
    Info(Info),
    /// Write a trace in another format
    ///
    /// csv and Parquet hold requests as they are (only Parquet holds response times and content hashes);
    /// oracleGeneral, for libCacheSim, holds an access of a block each, with its next access and without
    /// the operation. The file appears under its name when it is whole.
    Convert(Convert),
    /// Write a trace without its names and addresses, to give away
    ///
    /// Names of VMs and volumes, addresses and content hashes are replaced by others that a key decides. A policy that sees blocks as numbers
    /// has the same hits at every size. Kept: the order of requests, which of them go to the same block, runs within an extent
    /// of 1MiB, operations, sizes, and times counted from the first request. A request over a border of extents becomes one for each.
    /// Not hidden: how much a VM does and when, how large its working set is, its offsets within an extent. Whoever has the key can tell which name stands
    /// for which.
    Anonymize(Anonymize),
    /// Write a generated trace
    ///
    /// KIND is followed by its keys; several generators are joined by +, and their requests merged by
    /// time. The same text stands wherever a trace may stand, as gen:KIND,KEY=VALUE,...
    ///
    /// Kinds: zipf (theta), zoned (zones=60/10:30/20:10/70, per cent of accesses and range), sequential
    /// (run), streams (streams, run), chains (chains, links, theta, noise), loop, uniform, base-image (vms,
    /// image, shared, boot, theta), diurnal (theta, night).
    ///
    /// Keys of all: requests, blocks or footprint, size (4KiB or 4KiB:60/64KiB:40), reads, discards (shares),
    /// flush (one after so many writes), rate (a second), arrival (fixed, poisson, diurnal), period, swing,
    /// start, vm, volume, seed.
    Generate(Generate),
    /// Record what the guests of the running daemon ask, as a trace
    ///
    /// The daemon writes the file, as its own user; what is in it can be read while it grows. Recording never
    /// holds up a guest: requests that the recorder cannot keep up with are lost, and counted.
    Record(Record),
    /// List the formats of traces
    Formats,
}

/// How traces are read.
#[derive(Clone, Debug, Args)]
pub struct Reading {
    /// The traces' format, if it is not to be recognised
    #[arg(long, value_name = "FORMAT")]
    pub format: Option<Format>,
    /// The columns of a csv, as libCacheSim's: time-col=1,obj-id-col=2,obj-size-col=3,op-col=4
    ///
    /// More options, with commas between: delimiter=; (or tab, or blank for any run of blanks),
    /// has-header=true, time-unit=s (ms, us, ns), id-unit=512 and size-unit=512 (or sector: bytes that an id
    /// or a size counts), read-op=1 (or 0: which of the operations 0 and 1 is a read).
    #[arg(long, value_name = "COLUMNS")]
    pub columns: Option<CsvColumns>,
    /// Size of a block: a power of two of at least 512
    #[arg(long, value_name = "SIZE", default_value_t = Bytes::new(units::BLOCK_BYTES), value_parser = block)]
    pub block: Bytes,
}

impl Reading {
    /// The same for the crate that reads.
    pub(crate) fn options(&self) -> Options {
        Options {
            format: self.format,
            csv: self.columns.clone(),
            key: self.block,
            ..Options::default()
        }
    }
}

/// The largest block: what a volume's largest request may be.
const BLOCK_MAX: Bytes = trace::limits::REQUEST_BYTES_MAX;

pub(crate) fn block(text: &str) -> Result<Bytes, String> {
    let block: Bytes = text.parse().map_err(|error| format!("{error}"))?;
    let range = Bytes::new(units::SECTOR_BYTES)..=BLOCK_MAX;
    if block.get().is_power_of_two() && range.contains(&block) {
        return Ok(block);
    }
    Err(format!(
        "a block is a power of two from {} to {BLOCK_MAX}",
        Bytes::new(units::SECTOR_BYTES)
    ))
}

/// Arguments of `trace info`.
#[derive(Debug, Args)]
pub struct Info {
    /// The traces, packed or not; - is standard input, gen:... a generator
    #[arg(value_name = "TRACE", required = true, value_hint = ValueHint::FilePath)]
    pub traces: Vec<PathBuf>,
    /// How they are read.
    #[command(flatten)]
    pub reading: Reading,
}

/// Arguments of `trace convert`.
#[derive(Debug, Args)]
pub struct Convert {
    /// The trace, packed or not; - is standard input, gen:... a generator
    #[arg(value_name = "TRACE", value_hint = ValueHint::FilePath)]
    pub trace: PathBuf,
    /// How it is read.
    #[command(flatten)]
    pub reading: Reading,
    /// What is written.
    #[command(flatten)]
    pub writing: Writing,
}

/// Arguments of `trace anonymize`.
#[derive(Debug, Args)]
pub struct Anonymize {
    /// The trace, packed or not; - is standard input, gen:... a generator
    #[arg(value_name = "TRACE", value_hint = ValueHint::FilePath)]
    pub trace: PathBuf,
    /// A file with 32 bytes or 64 hexadecimal digits, by which several traces fit together; or `random`: a key that nobody keeps
    #[arg(long, value_name = "FILE|random", value_hint = ValueHint::FilePath)]
    pub key: String,
    /// Round times and response times down to whole multiples of this, such as 1s
    #[arg(long, value_name = "TIME")]
    pub time_step: Option<Duration>,
    /// Widen requests to whole multiples of this: a power of two from 512B to 1MiB; hits at blocks of that size and more stay as they are
    #[arg(long, value_name = "SIZE", value_parser = size_step)]
    pub size_step: Option<Bytes>,
    /// How it is read.
    #[command(flatten)]
    pub reading: Reading,
    /// What is written.
    #[command(flatten)]
    pub writing: Writing,
}

fn size_step(text: &str) -> Result<Bytes, String> {
    let size: Bytes = text.parse().map_err(|error| format!("{error}"))?;
    let range = Bytes::new(units::SECTOR_BYTES)..=trace::anonymize::EXTENT;
    if size.get().is_power_of_two() && range.contains(&size) {
        return Ok(size);
    }
    Err("a step of sizes is a power of two from 512B to 1MiB".to_owned())
}

/// How traces are written.
#[derive(Clone, Debug, Args)]
pub struct Writing {
    /// The file; its ending tells the format (.csv, .parquet, .oracleGeneral or .bin) and, as .zst, to
    /// pack it
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: PathBuf,
    /// The format, if the name does not tell it: csv, parquet or oraclegeneral
    #[arg(long, value_name = "FORMAT")]
    pub to: Option<Target>,
    /// Replace the file if there is one
    #[arg(long)]
    pub force: bool,
}

/// Arguments of `trace generate`.
#[derive(Debug, Args)]
pub struct Generate {
    /// The generator and its keys: zipf,blocks=1M,requests=10M,theta=0.99,seed=7
    #[arg(value_name = "KIND,KEY=VALUE,...")]
    pub kind: String,
    /// What is written.
    #[command(flatten)]
    pub writing: Writing,
}

/// Arguments of `trace record`.
#[derive(Debug, Args)]
pub struct Record {
    /// The file, where there is none yet: Hearth's csv, packed with zstd unless it is called .csv
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    #[arg(required_unless_present_any = ["stop", "status"])]
    pub output: Option<PathBuf>,
    /// Record this disk; may be repeated. All disks if not given, those attached later included
    #[arg(long, value_name = "NAME", requires = "output")]
    pub disk: Vec<Name>,
    /// Record one block in N with all its accesses (1/N), or the whole requests
    #[arg(long, value_name = "1/N|whole", default_value = "whole", value_parser = sample)]
    pub sample: u32,
    /// End before the file is larger
    #[arg(long, value_name = "SIZE", default_value_t = RECORDING_SIZE_DEFAULT)]
    pub max_size: Bytes,
    /// End after this time
    #[arg(long, value_name = "TIME")]
    pub duration: Option<Duration>,
    /// End the recording that is under way; its file is whole when this returns
    #[arg(long, conflicts_with_all = ["output", "status"])]
    pub stop: bool,
    /// Show the recording that is under way, or the last one
    #[arg(long, conflicts_with = "output")]
    pub status: bool,
}

fn sample(text: &str) -> Result<u32, String> {
    if text == "whole" {
        return Ok(1);
    }
    let one_in = text.strip_prefix("1/").and_then(|n| n.parse().ok());
    one_in
        .filter(|n| *n > 0)
        .ok_or_else(|| "write 1/N, such as 1/100, or whole".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_a_share_or_the_whole() {
        assert_eq!(sample("whole"), Ok(1));
        assert_eq!(sample("1/100"), Ok(100));
        for wrong in ["", "1/0", "2/3", "0.01", "1/-1"] {
            assert!(sample(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_block_is_a_power_of_two() {
        assert_eq!(block("64KiB"), Ok(Bytes::kib(64)));
        for wrong in ["0B", "256B", "5KiB", "1GiB"] {
            assert!(block(wrong).is_err(), "{wrong}");
        }
    }
}
