//! Arguments of `hearth sim migrate`.

use crate::terminal::exit::{CliError, Exit};
use clap::{Args, ValueEnum, ValueHint};
use moves::papers::Paper;
use moves::setup::{Arrival, Cache, Dirty, Pace, Requests, Setup, Vm, Writes};
use simulator::device::DeviceSettings;
use std::path::{Path, PathBuf};
use strategies::Strategy;
use trace::generate::{PREFIX, Spec};
use trace::{Op, Options, Record, Records};
use units::{BLOCK_BYTES, Bytes, Duration};

/// Arguments of `sim migrate`.
#[derive(Debug, Args)]
pub struct Migrate {
    /// The requests of the VM that moves: a trace, or a generator as in gen:zipf,blocks=100k,reads=0.8,rate=2000
    #[arg(
        value_name = "TRACE",
        required_unless_present = "papers",
        conflicts_with = "papers"
    )]
    #[arg(value_hint = ValueHint::FilePath)]
    pub trace: Option<PathBuf>,
    /// Print the figures of papers beside those of their set-ups here, separated by commas: firepanif,
    /// cloudcache, successor or all
    #[arg(long, value_name = "PAPER,...", value_delimiter = ',')]
    pub papers: Vec<PaperWord>,
    /// How the cache comes along, separated by commas; every strategy if not given
    #[arg(long, value_name = "STRATEGY,...", value_delimiter = ',', value_parser = strategy)]
    pub strategy: Vec<Strategy>,
    /// Flash of the VM's cache at each host: bytes (4GiB) or a part of the blocks that the trace names (40%)
    #[arg(
        help_heading = "The VM",
        long,
        value_name = "SIZE",
        default_value = "50%"
    )]
    pub size: simulator::CacheSize,
    /// What writes do: around, through or back
    #[arg(help_heading = "The VM", long, value_name = "POLICY", value_enum, default_value_t = WriteWord::Through)]
    pub write_policy: WriteWord,
    /// What becomes of what the origin lacks, under back: drain or flush to the origin, ship to the other host, or
    /// addresses only
    #[arg(help_heading = "The VM", long, value_name = "WHAT", value_enum, default_value_t = DirtyWord::Drain)]
    pub dirty: DirtyWord,
    /// Ask as fast as possible with that many requests outstanding, instead of at the trace's times
    #[arg(help_heading = "The VM", long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub depth: Option<u32>,
    /// How many VMs of the same kind each host has besides, each with requests of its own; only for a generator
    #[arg(help_heading = "The VM", long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=64))]
    pub neighbours: u32,
    /// The modelled flash of each host, as for hearth sim
    #[arg(
        help_heading = "Devices",
        long,
        value_name = "DEVICE",
        default_value = "nvme"
    )]
    pub flash: String,
    /// The modelled origin, as for hearth sim
    #[arg(
        help_heading = "Devices",
        long,
        value_name = "DEVICE",
        default_value = "ssd-cluster"
    )]
    pub origin: String,
    /// The link between the hosts: 10Gbit, 1Gbit, or bytes a second as in 500MiB/s
    #[arg(help_heading = "Devices", long, value_name = "RATE", default_value = "10Gbit", value_parser = rate)]
    pub link: Bytes,
    /// When the move begins
    #[arg(
        help_heading = "The move",
        long,
        value_name = "TIME",
        default_value = "60s"
    )]
    pub before: Duration,
    /// How long the VM's memory is copied while it runs
    #[arg(
        help_heading = "The move",
        long,
        value_name = "TIME",
        default_value = "30s"
    )]
    pub ahead: Duration,
    /// How long the VM is stopped at least
    #[arg(
        help_heading = "The move",
        long,
        value_name = "TIME",
        default_value = "50ms"
    )]
    pub pause: Duration,
    /// How long is looked at from when it stops
    #[arg(
        help_heading = "The move",
        long,
        value_name = "TIME",
        default_value = "2min"
    )]
    pub after: Duration,
    /// What is copied without being asked for: bytes a second; if not given half of the time, as in hearth serve
    #[arg(help_heading = "The move", long, value_name = "RATE", value_parser = rate)]
    pub rate: Option<Bytes>,
    /// Decides all that is random
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

/// Papers of a command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PaperWord {
    /// Firepan and its invalidation filter
    Firepanif,
    /// Dynamic cache migration
    Cloudcache,
    /// Proactive warm-up
    Successor,
    /// All of them
    All,
}

/// What writes do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum WriteWord {
    /// Past the cache
    Around,
    /// To the origin, and to the cache behind it
    Through,
    /// To the flash, and to the origin later
    Back,
}

/// What becomes of dirty blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DirtyWord {
    /// To the origin while the VM is stopped
    Flush,
    /// To the origin from when the move begins
    Drain,
    /// To the other host from when the move begins
    Ship,
    /// The other host asks for them
    Addresses,
}

fn strategy(word: &str) -> Result<Strategy, String> {
    let words: Vec<&str> = Strategy::ALL.into_iter().map(Strategy::word).collect();
    Strategy::of_word(word).ok_or_else(|| format!("write one of {}", words.join(", ")))
}

fn rate(text: &str) -> Result<Bytes, String> {
    let wrong = || "write a rate such as 10Gbit, 1Gbit or 500MiB/s".to_owned();
    let rate = match text.strip_suffix("Gbit") {
        Some(gigabits) => {
            let gigabits: u64 = gigabits.parse().map_err(|_| wrong())?;
            gigabits.checked_mul(125_000_000).map(Bytes::new)
        }
        None => text.strip_suffix("/s").unwrap_or(text).parse().ok(),
    };
    rate.filter(|rate| !rate.is_zero()).ok_or_else(wrong)
}

impl Migrate {
    /// The papers that were asked for, in one order.
    pub(super) fn papers(&self) -> Vec<Paper> {
        let is_asked = |paper: &Paper| {
            self.papers.iter().any(|word| match word {
                PaperWord::All => true,
                PaperWord::Firepanif => *paper == Paper::FirepanIf,
                PaperWord::Cloudcache => *paper == Paper::CloudCache,
                PaperWord::Successor => *paper == Paper::Successor,
            })
        };
        Paper::ALL.into_iter().filter(is_asked).collect()
    }

    /// The strategies that were asked for.
    pub(super) fn strategies(&self) -> Vec<Strategy> {
        if self.strategy.is_empty() {
            return Strategy::ALL.to_vec();
        }
        self.strategy.clone()
    }

    /// What is simulated, but for the strategy.
    pub(super) fn setup(&self, trace: &Path) -> Result<Setup, CliError> {
        let usage = |error: &dyn std::error::Error| CliError::of(Exit::Usage, error);
        let device =
            |default: DeviceSettings, text: &str| default.with(text).map_err(|error| usage(&error));
        let wire = |rate: Bytes| -> Result<DeviceSettings, CliError> {
            let text = format!(
                "read=50us,write=50us,iops=unlimited,bandwidth={}B/s,parallel=unlimited",
                rate.get()
            );
            text.parse().map_err(|error| usage(&error))
        };
        Ok(Setup {
            row: Strategy::default().row(),
            dirty: match self.dirty {
                DirtyWord::Flush => Dirty::Flush,
                DirtyWord::Drain => Dirty::Drain,
                DirtyWord::Ship => Dirty::Ship,
                DirtyWord::Addresses => Dirty::Addresses,
            },
            only_dirty: false,
            pace: match self.rate {
                None => Pace::HEARTH,
                Some(rate) => Pace {
                    window: 1_024,
                    rests: false,
                    rate: Some(rate),
                    ..Pace::HEARTH
                },
            },
            cache: Cache::Daemon,
            waits_for_fills: false,
            writes: match self.write_policy {
                WriteWord::Around => Writes::Around,
                WriteWord::Through => Writes::Through,
                WriteWord::Back => Writes::Back,
            },
            flash: device(DeviceSettings::flash_default(), &self.flash)?,
            path: wire(self.link)?,
            origin: device(DeviceSettings::origin_default(), &self.origin)?,
            link: wire(self.link)?,
            vms: self.vms(trace)?,
            before: self.before,
            ahead: self.ahead,
            pause: self.pause,
            after: self.after,
            interval: Duration::from_secs(10),
            stale_pause: Duration::from_millis(200),
            seed: self.seed,
        })
    }

    fn vms(&self, trace: &Path) -> Result<Vec<Vm>, CliError> {
        let text = trace.display().to_string();
        let (requests, blocks, warming) = if text.starts_with(PREFIX) {
            let spec: Spec = text
                .parse()
                .map_err(|error| CliError::of(Exit::Usage, &error))?;
            let bytes = spec.parts.iter().map(|part| part.footprint.get()).max();
            let blocks = bytes.unwrap_or(0) / BLOCK_BYTES;
            (Requests::Generated(spec), blocks, 4 * blocks)
        } else if self.neighbours > 0 {
            let problem = "neighbours ask for what a generator says: one trace is one VM";
            return Err(CliError::new(Exit::Usage, problem.to_owned())
                .with_remedy("gen:..., or leave --neighbours out"));
        } else {
            let records = recorded(trace)?;
            let blocks = records.iter().map(end).max().unwrap_or(0);
            (Requests::Recorded(records), blocks, 0)
        };
        let blocks = u32::try_from(blocks).map_err(|_| {
            CliError::new(Exit::Usage, format!("{text}: a disk of more than 16 TiB"))
        })?;
        let cache = self.size.blocks(Bytes::new(BLOCK_BYTES), blocks);
        let cache_blocks = cache.map_err(|error| CliError::of(Exit::Usage, &error))?;
        let first = Vm {
            requests,
            arrival: match self.depth {
                Some(depth) => Arrival::Depth(depth),
                None => Arrival::Timed,
            },
            blocks,
            cache_blocks,
            warming,
            warmed_by: None,
            dirty: 0.0,
            is_there: false,
        };
        let neighbours = 2 * u64::from(self.neighbours);
        let others = (1..=neighbours).map(|number| {
            let mut other = first.clone();
            if let Requests::Generated(spec) = &mut other.requests {
                spec.seed = spec.seed.wrapping_add(number);
            }
            other.is_there = number % 2 == 0;
            other
        });
        let all = std::iter::once(first.clone()).chain(others);
        Ok(all.collect())
    }
}

/// Where a record's blocks end.
fn end(record: &Record) -> u64 {
    (record.offset.get() + record.length.get()).div_ceil(BLOCK_BYTES)
}

/// The records of a trace, its volumes one after the other on one disk.
fn recorded(trace: &Path) -> Result<Vec<Record>, CliError> {
    let failed = |error: &dyn std::error::Error| CliError::of(Exit::Failed, error);
    let opened = trace::open(trace, &Options::default());
    let mut reader = opened.map_err(|error| failed(&error))?.reader;
    let (mut all, mut batch) = (Vec::new(), Records::new());
    while reader
        .read_batch(&mut batch)
        .map_err(|error| failed(&error))?
    {
        all.extend(batch.iter().filter(|record| record.op != Op::Flush));
    }
    Ok(moves::setup::dense(all))
}
