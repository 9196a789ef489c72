//! Arguments of `hearth bench --replay`.

use clap::{Args, ValueHint};
use load::Speed;
use std::path::PathBuf;
use trace::{CsvColumns, Format};
use units::Bytes;

/// Options that describe a load, and so contradict a recorded one.
const NOT_WITH: [&str; 23] = [
    "rw",
    "rwmixread",
    "bs",
    "bssplit",
    "numjobs",
    "random_distribution",
    "norandommap",
    "randseed",
    "fsync",
    "fdatasync",
    "offset",
    "offset_increment",
    "size",
    "io_size",
    "time_based",
    "ramp_time",
    "rate",
    "rate_iops",
    "verify",
    "verify_interval",
    "do_verify",
    "name",
    "group_reporting",
];

/// What `bench` is told of a trace.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Replay")]
pub struct ReplayArgs {
    /// Replay this trace, a file in any format of `hearth trace formats` or gen:..., instead of a load by --rw: its reads
    /// only, unless --write is given
    #[arg(long, value_name = "TRACE", value_hint = ValueHint::FilePath)]
    #[arg(conflicts_with_all = NOT_WITH)]
    pub replay: Option<PathBuf>,
    /// How many times as fast as the trace's own times requests are issued, or max: as soon as --iodepth has room
    #[arg(
        long,
        value_name = "TIMES|max",
        default_value = "1",
        requires = "replay"
    )]
    pub speed: Speed,
    /// Replay writes, flushes, discards and write-zeroes too: what the target holds at those places is lost. Asks on a
    /// terminal
    #[arg(long, requires = "replay")]
    pub write: bool,
    /// Do not ask whether the target may be written
    #[arg(long, requires = "write")]
    pub yes: bool,
    /// Count offsets beyond the target's end from its beginning again, instead of refusing the trace
    #[arg(long, requires = "replay")]
    pub wrap: bool,
    /// Replay the requests of this VM only
    #[arg(long, value_name = "VM", requires = "replay")]
    pub vm: Option<String>,
    /// Replay the requests of this volume only
    #[arg(long, value_name = "NAME", requires = "replay")]
    pub volume: Option<String>,
    /// The trace's format, if it is not to be recognised
    #[arg(long, value_name = "FORMAT", requires = "replay")]
    pub format: Option<Format>,
    /// The columns of a csv, as of `hearth trace info`
    #[arg(long, value_name = "COLUMNS", requires = "replay")]
    pub columns: Option<CsvColumns>,
}

impl ReplayArgs {
    /// How the trace is read.
    pub(super) fn reading(&self) -> crate::traces::args::Reading {
        crate::traces::args::Reading {
            format: self.format,
            columns: self.columns.clone(),
            block: Bytes::new(units::BLOCK_BYTES),
        }
    }
}
