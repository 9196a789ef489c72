//! Arguments of `hearth sim`.

use super::fleet::args::Fleet;
use super::gather::Gather;
use super::groups::args::Groups;
use super::host::HostArgs;
use super::migrate::args::Migrate;
use super::prefetch::args::Prefetch;
use crate::terminal::exit::{CliError, Exit};
use crate::traces::args::Reading;
use clap::{Args, Subcommand, ValueEnum, ValueHint};
use simulator::policy::PolicyError;
use simulator::{
    Admission, Arrival, CacheSize, Interval, LatencySettings, Policy, Staging, Study, Tier, Warmup,
    WriteMiss, WritePolicy,
};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use trace::Arrangement;
use units::Bytes;

/// Arguments of `sim`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Sim {
    /// What else is simulated.
    #[command(subcommand)]
    pub of: Option<Of>,
    /// The traces, packed or not; each is simulated by itself, unless --together is given
    #[arg(value_name = "TRACE", required_unless_present = "list_policies")]
    #[arg(value_hint = ValueHint::FilePath)]
    pub traces: Vec<PathBuf>,
    /// The policies, separated by commas; parameters follow a colon: lru,s3-fifo:small=0.2. If not given
    /// daemon, which is what hearth serve does by default; with an admission, a division among VMs or a
    /// budget of their own segment-twin-clock, the daemon's log
    #[arg(long, value_name = "POLICY,...", value_parser = policies)]
    pub policy: Option<Policies>,
    /// The sizes, separated by commas: bytes (4MiB), blocks (27000blk) or a part of the distinct
    /// blocks of the trace (10%)
    #[arg(long, value_name = "SIZE,...", value_delimiter = ',')]
    #[arg(required_unless_present = "list_policies")]
    pub size: Vec<CacheSize>,
    /// What may enter flash, separated by commas: each admission policy in front of each policy that replaces
    /// in place; parameters follow a colon. Without it everything may
    #[arg(help_heading = "Admission and staging", long, value_name = "POLICY,...", value_parser = admissions)]
    pub admission: Option<Admissions>,
    /// RAM for admission, addresses and staged blocks together, beside the flash: a part of it (1%) or a
    /// size (64MiB)
    #[arg(
        help_heading = "Admission and staging",
        long,
        value_name = "SIZE",
        default_value_t,
        requires = "admission"
    )]
    pub staging: Staging,
    /// Memory in front of the cache, separated by commas, as sizes are written: it keeps copies of what is read
    #[arg(
        help_heading = "Memory in front",
        long,
        value_name = "SIZE,...",
        value_delimiter = ','
    )]
    pub ram: Vec<CacheSize>,
    /// Which blocks that are read are worth that memory, separated by commas: s3-fifo, w-tinylfu, lru, or
    /// frequency; each with each size
    #[arg(
        help_heading = "Memory in front",
        long,
        value_name = "POLICY,...",
        value_parser = ram_policies,
        requires = "ram"
    )]
    pub ram_policy: Option<RamPolicies>,
    /// How it is divided among VMs.
    #[command(flatten)]
    pub host: HostArgs,
    /// How the traces are read.
    #[command(flatten, next_help_heading = "Reading traces")]
    pub reading: Reading,
    /// Simulate the traces as machines of one host: a VM each, which shares the cache with the others
    ///
    /// Their requests are merged by time. Each may have a format of its own.
    #[arg(
        help_heading = "VMs that share a cache",
        long,
        value_name = "CLOCK",
        value_enum
    )]
    pub together: Option<Together>,
    /// What writes do: around, through or back
    #[arg(help_heading = "Writes", long, value_name = "POLICY", default_value_t)]
    pub write_policy: WritePolicy,
    /// What writes through and back do to blocks that are not in the cache: allocate or bypass. If not
    /// given they allocate, but for policy daemon, which lets them pass as hearth serve does by default
    #[arg(help_heading = "Writes", long, value_name = "WHAT")]
    pub write_miss: Option<WriteMiss>,
    /// What does not count yet: a part of the trace's accesses (10%) or a time (30min)
    #[arg(
        help_heading = "What is counted",
        long,
        value_name = "PART",
        default_value_t
    )]
    pub warmup: Warmup,
    /// Take samples over time, so often: a time (60s), a number of accesses (100000) or auto
    #[arg(help_heading = "What is counted", long, value_name = "INTERVAL")]
    pub interval: Option<Interval>,
    /// Model how long requests would have taken; so do --flash, --origin, --speed and --depth
    #[arg(help_heading = "Latency", long)]
    pub latency: bool,
    /// The modelled flash: nvme, sata, or parameters such as read=80us,iops=100000
    ///
    /// A preset, parameters, or a preset with some parameters changed. Parameters are read and write
    /// (a time, exponential:MEAN or lognormal:MEDIAN:P99), iops, bandwidth (500MiB/s) and parallel
    /// (I/Os at the same time); the last three may be unlimited.
    #[arg(help_heading = "Latency", long, value_name = "DEVICE")]
    pub flash: Option<String>,
    /// The modelled origin: ssd-cluster, disk-array, disk, or parameters as for --flash
    #[arg(help_heading = "Latency", long, value_name = "DEVICE")]
    pub origin: Option<String>,
    /// Replay at the trace's own times, that many times as fast: 2x
    #[arg(help_heading = "Latency", long, value_name = "FACTOR", value_parser = speed, conflicts_with = "depth")]
    pub speed: Option<f64>,
    /// Replay as fast as possible with that many requests outstanding
    #[arg(help_heading = "Latency", long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(simulator::latency::DEPTH_MAX)))]
    pub depth: Option<u32>,
    /// Threads that the runs are spread over, beside the one that reads; 1 does all with one thread.
    /// One for each processor if not given
    #[arg(help_heading = "Running", long, value_name = "N")]
    pub threads: Option<NonZeroUsize>,
    /// What the whole program may take of memory: as many runs go at once as are expected to fit, and the
    /// trace is read again for the others. If not given, three quarters of what this machine and the
    /// program's control group have free
    #[arg(help_heading = "Running", long, value_name = "SIZE")]
    pub memory: Option<Bytes>,
    /// What decides the latencies that are drawn; the policy random has a seed of its own
    #[arg(help_heading = "Running", long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// Show each volume in the table too; JSON always has them
    #[arg(help_heading = "Results", long)]
    pub volumes: bool,
    /// Write the results as csv, and a manifest beside it
    #[arg(help_heading = "Results", long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub csv: Option<PathBuf>,
    /// Write the results as Parquet, and a manifest beside it
    #[arg(help_heading = "Results", long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub parquet: Option<PathBuf>,
    /// Write a report: one page of HTML with figures, which needs no network
    #[arg(help_heading = "Results", long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub report: Option<PathBuf>,
    /// Write the manifest there: version, command, parameters, checksums of the traces
    #[arg(help_heading = "Results", long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub manifest: Option<PathBuf>,
    /// List the policies with their parameters and papers, and end
    #[arg(help_heading = "Running", long)]
    pub list_policies: bool,
}

/// What is simulated beside a cache alone.
#[derive(Debug, Subcommand)]
pub enum Of {
    /// Balance the flash of hundreds of hosts by moves of VMs
    ///
    /// Hosts and VMs are models; the planner, the drivers of moves and their store are the cluster's. One seed decides
    /// demand and faults, so that rules are compared on the same days. After each window is checked that each VM runs at
    /// one host, none moves within its rest, moves keep to their limits, and each is ended by somebody.
    Fleet(Box<Fleet>),
    /// Simulate the move of a VM and its cache between two hosts
    ///
    /// A VM runs on one of two modelled hosts, its cache gets warm, and it moves: by every strategy of
    /// disk.migration, with the code that the daemon runs for what is borrowed and what has been changed.
    /// With --papers the set-ups of three papers are run, and their figures printed beside the simulation's.
    Migrate(Box<Migrate>),
    /// Replay reads through a small buffer, and miners that fetch into it what is read next
    ///
    /// Each trace is replayed without prefetch, with the next 8 blocks after every read, with each miner alone, and
    /// with all of them at one price: a VM's guesses may waste a part of what it reads and no more. Printed are the
    /// hits of reads (of which every block was there) and of blocks, the part of the prefetched blocks that were
    /// read, wasted blocks for each that was read, requests to the origin, and memory.
    Prefetch(Box<Prefetch>),
    /// Count what gathering writes in memory saves, flushes honoured and not
    ///
    /// Writes are gathered in an open chunk, which goes on when it is full, when its first write has waited for the
    /// interval, or at a flush. A block that is written again in the open chunk is absorbed. Each chunk size with
    /// each interval, flushes honoured and ignored; hearth serve honours them.
    Gather(Box<Gather>),
    /// Compare how groups of VMs cross a slow link, on generated or measured traffic
    ///
    /// The experiments of Clique's evaluation: how much less traffic crosses a link than with one VM at a time, by method
    /// and by how many VMs cross together; by clusters of k-means; above the optimum, for small groups; and with
    /// bandwidth that is equal or dealt. The paper's figures stand beside them; its matrix is not public, so that
    /// generated ones stand in. `hearth group plan` makes a plan for a group of one's own.
    Groups(Box<Groups>),
}

/// Whose time it is that traces are merged by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Together {
    /// Their own: they were recorded at the same time
    Recorded,
    /// Every trace begins at the same moment, whenever it was recorded
    FromZero,
}

impl Together {
    /// The word for it.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Recorded => "recorded",
            Self::FromZero => "from-zero",
        }
    }

    /// The same for the crate that reads.
    pub(super) const fn arrangement(self) -> Arrangement {
        Arrangement::ByTime {
            from_zero: matches!(self, Self::FromZero),
        }
    }
}

/// The policies of a command line.
#[derive(Clone, Debug)]
pub struct Policies(pub Vec<Policy>);

fn policies(text: &str) -> Result<Policies, PolicyError> {
    Policy::parse_list(text).map(Policies)
}

/// The admission policies of a command line.
#[derive(Clone, Debug)]
pub struct Admissions(pub Vec<Admission>);

fn admissions(text: &str) -> Result<Admissions, PolicyError> {
    Admission::parse_list(text).map(Admissions)
}

/// The policies of memory in front, of a command line.
#[derive(Clone, Debug)]
pub struct RamPolicies(pub Vec<policy::memory::Spec>);

fn ram_policies(text: &str) -> Result<RamPolicies, policy::replacement::SpecError> {
    let parts = policy::replacement::split_list(text);
    let specs = parts.iter().map(|text| text.parse());
    specs.collect::<Result<_, _>>().map(RamPolicies)
}

fn speed(text: &str) -> Result<f64, String> {
    let factor = text.strip_suffix('x').unwrap_or(text).parse::<f64>();
    factor
        .ok()
        .filter(|factor| (1e-6..=1e6).contains(factor))
        .ok_or_else(|| "write a factor such as 1x, 0.5x or 20x".to_owned())
}

impl Sim {
    /// What the arguments ask of each trace.
    ///
    /// # Errors
    /// If a device is not described as one, or a policy takes no admission.
    pub(super) fn study(&self) -> Result<Study, CliError> {
        let reports = self.report.is_some();
        let usage = |error: &dyn std::error::Error| CliError::of(Exit::Usage, error);
        Ok(Study {
            policies: self.policies().map_err(|error| usage(&error))?,
            sizes: self.size.clone(),
            tiers: self.tiers(),
            block: self.reading.block,
            write_policy: self.write_policy,
            write_miss: self.write_miss,
            warmup: self.warmup,
            interval: self.interval.or(reports.then_some(Interval::Automatic)),
            latency: self.latency().map_err(|error| usage(&error))?,
            heat: reports,
            seed: self.seed,
            threads: self.threads(),
        })
    }

    /// Each memory in front: each size under each policy.
    fn tiers(&self) -> Vec<Tier> {
        let default = [policy::memory::Spec::default()];
        let policies = self
            .ram_policy
            .as_ref()
            .map_or(&default[..], |list| &list.0);
        let tier = |size: &CacheSize, policy: &policy::memory::Spec| Tier {
            size: *size,
            policy: policy.clone(),
        };
        let sizes = self.ram.iter();
        sizes
            .flat_map(|size| policies.iter().map(move |policy| tier(size, policy)))
            .collect()
    }

    /// Each policy behind each admission policy, divided by each allocator.
    fn policies(&self) -> Result<Vec<Policy>, PolicyError> {
        let always = [Admission::default()];
        let admissions = self.admission.as_ref().map_or(&always[..], |list| &list.0);
        let allocations: Vec<_> = match &self.host.allocation {
            Some(list) => list.0.iter().map(Some).collect(),
            None => vec![None],
        };
        let log = [Policy::of_log()];
        let daemon = [Policy::Daemon];
        let wanted = match &self.policy {
            Some(list) => &list.0[..],
            None if self.changes_the_daemon() => &log,
            None => &daemon,
        };
        let mut policies = Vec::new();
        for allocation in &allocations {
            for admission in admissions {
                for policy in wanted {
                    policies.push(self.one_policy(policy, admission, *allocation)?);
                }
            }
        }
        Ok(policies)
    }

    /// Whether something is asked of the log that is not the daemon's default.
    fn changes_the_daemon(&self) -> bool {
        self.admission.is_some()
            || self.host.allocation.is_some()
            || self.host.budget.is_some()
            || self.host.fill
    }

    fn one_policy(
        &self,
        policy: &Policy,
        admission: &Admission,
        allocation: Option<&policy::allocation::Spec>,
    ) -> Result<Policy, PolicyError> {
        let is_log = matches!(policy, Policy::Segment { .. });
        let is_divided = allocation.is_some()
            || self.host.budget.is_some()
            || self.host.fill
            || (is_log && self.admission.is_some());
        if is_divided {
            let host = self
                .host
                .host(allocation, admission, self.staging, self.seed);
            return policy.divided(&host);
        }
        match &self.admission {
            Some(_) => policy.behind(admission, self.staging),
            None => Ok(policy.clone()),
        }
    }

    fn latency(&self) -> Result<Option<LatencySettings>, simulator::device::DeviceError> {
        use simulator::device::DeviceSettings;
        let asked = self.latency
            || self.flash.is_some()
            || self.origin.is_some()
            || self.speed.is_some()
            || self.depth.is_some();
        if !asked {
            return Ok(None);
        }
        let device = |default: DeviceSettings, text: &Option<String>| match text {
            Some(text) => default.with(text),
            None => Ok(default),
        };
        Ok(Some(LatencySettings {
            flash: device(DeviceSettings::flash_default(), &self.flash)?,
            origin: device(DeviceSettings::origin_default(), &self.origin)?,
            arrival: match self.depth {
                Some(depth) => Arrival::Depth(depth),
                None => Arrival::Timed {
                    speed: self.speed.unwrap_or(1.0),
                },
            },
        }))
    }

    fn threads(&self) -> NonZeroUsize {
        let processors = || std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        self.threads.unwrap_or_else(processors)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_speed_is_a_factor() {
        assert!(speed("2x").is_ok_and(|factor| (factor - 2.0).abs() < 1e-9));
        assert!(speed("0.5").is_ok());
        for text in ["0x", "-1x", "fast", "nan", "infx"] {
            assert!(speed(text).is_err(), "{text}");
        }
    }
}
