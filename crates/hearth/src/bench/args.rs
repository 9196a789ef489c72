//! Arguments of `hearth bench`: fio's parameters under fio's names.

use super::replay::args::ReplayArgs;
use clap::{Args, ValueEnum};
use configuration::{NbdUri, NbdUriAddress};
use load::{Address, NbdAddress, Rates, Settings, Verify};
use std::path::PathBuf;
use units::Duration;
use workload::{BlockSizes, Shape, Spread, SyncEvery};

/// What a vhost-user target begins with.
const VHOST_USER: &str = "vhost-user:";

/// Arguments of `bench`.
#[derive(Debug, Args)]
pub struct Bench {
    /// What is loaded: a path, `nbd://host:port/export`, `nbd+unix:///export?socket=/path`, or
    /// `vhost-user:/path/to/socket`
    #[arg(value_name = "TARGET", value_parser = parse_target)]
    pub target: TargetArg,
    /// What is done: read, write, trim, randread, randwrite, randtrim, rw (readwrite) or randrw
    #[arg(
        long,
        value_name = "WHAT",
        default_value = "read",
        help_heading = "Load"
    )]
    pub rw: Shape,
    /// Of rw and randrw, the share of reads
    #[arg(
        long,
        value_name = "PERCENT",
        default_value_t = 50,
        help_heading = "Load"
    )]
    #[arg(value_parser = clap::value_parser!(u8).range(0..=100))]
    pub rwmixread: u8,
    /// How long requests are
    #[arg(long, value_name = "SIZE", default_value = "4k", value_parser = BlockSizes::single, help_heading = "Load")]
    pub bs: BlockSizes,
    /// Requests of several lengths with their shares in percent, such as 4k/70:64k/30
    #[arg(
        long,
        value_name = "SIZE/PERCENT:..",
        conflicts_with = "bs",
        help_heading = "Load"
    )]
    pub bssplit: Option<BlockSizes>,
    /// Requests that a job keeps in flight: 1 if not given, and of a replay at most 128
    #[arg(long, value_name = "N", help_heading = "Load")]
    pub iodepth: Option<usize>,
    /// Jobs, each a thread with its own connection, queue or descriptor
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Load")]
    pub numjobs: usize,
    /// Which places random requests take: random, zipf:THETA, pareto:H or zoned:ACCESSES/SIZE:..
    #[arg(
        long = "random_distribution",
        value_name = "HOW",
        default_value = "random",
        help_heading = "Load"
    )]
    pub random_distribution: Spread,
    /// Draw random places without caring whether they came before; without it none comes again
    /// until all have come
    #[arg(long, help_heading = "Load")]
    pub norandommap: bool,
    /// What decides everything that is drawn
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Load")]
    pub randseed: u64,
    /// A sync (flush) after every so many writes of a job
    #[arg(
        long,
        value_name = "WRITES",
        conflicts_with = "fdatasync",
        help_heading = "Load"
    )]
    pub fsync: Option<u64>,
    /// The same with fdatasync, which differs on files only
    #[arg(long, value_name = "WRITES", help_heading = "Load")]
    pub fdatasync: Option<u64>,
    /// Where the first job's region begins
    #[arg(long, value_name = "SIZE", default_value = "0", value_parser = workload::bytes, help_heading = "Where and how long")]
    pub offset: u64,
    /// How much further each next job's region begins
    #[arg(long = "offset_increment", value_name = "SIZE", default_value = "0", value_parser = workload::bytes, help_heading = "Where and how long")]
    pub offset_increment: u64,
    /// A job's region; to the target's end if not given
    #[arg(long, value_name = "SIZE", value_parser = workload::bytes, help_heading = "Where and how long")]
    pub size: Option<u64>,
    /// Bytes that a job moves; as many as its region has if not given
    #[arg(long = "io_size", value_name = "SIZE", value_parser = workload::bytes, help_heading = "Where and how long")]
    pub io_size: Option<u64>,
    /// The time after which it ends at the latest, in seconds or with a unit
    #[arg(long, value_name = "TIME", value_parser = workload::span, help_heading = "Where and how long")]
    pub runtime: Option<Duration>,
    /// Go on until the runtime is over, again and again through the region
    #[arg(long = "time_based", help_heading = "Where and how long")]
    pub time_based: bool,
    /// Time at the beginning that does not count
    #[arg(long = "ramp_time", value_name = "TIME", default_value = "0", value_parser = workload::span, help_heading = "Where and how long")]
    pub ramp_time: Duration,
    /// At most so many bytes a second, each job and each direction by itself
    #[arg(long, value_name = "SIZE", value_parser = workload::bytes, help_heading = "Where and how long")]
    pub rate: Option<u64>,
    /// At most so many requests a second, each job and each direction by itself
    #[arg(
        long = "rate_iops",
        value_name = "N",
        help_heading = "Where and how long"
    )]
    pub rate_iops: Option<u64>,
    /// Write blocks that say where they belong and which write they are, and check what is read
    #[arg(long, value_name = "HOW", help_heading = "Verification")]
    pub verify: Option<VerifyArg>,
    /// Bytes of a checked block; the smallest request if not given
    #[arg(long = "verify_interval", value_name = "SIZE", requires = "verify", value_parser = workload::bytes, help_heading = "Verification")]
    pub verify_interval: Option<u64>,
    /// Read back at the end what was written: 1 or 0
    #[arg(
        long = "do_verify",
        value_name = "0|1",
        default_value_t = 1,
        help_heading = "Verification"
    )]
    #[arg(value_parser = clap::value_parser!(u8).range(0..=1))]
    pub do_verify: u8,
    /// Past the page cache: 1 or 0. For files and devices
    #[arg(
        long,
        value_name = "0|1",
        default_value_t = 1,
        help_heading = "Files and reports"
    )]
    #[arg(value_parser = clap::value_parser!(u8).range(0..=1))]
    pub direct: u8,
    /// A name for the report
    #[arg(
        long,
        value_name = "NAME",
        default_value = "bench",
        help_heading = "Files and reports"
    )]
    pub name: String,
    /// Report all jobs as one
    #[arg(long = "group_reporting", help_heading = "Files and reports")]
    pub group_reporting: bool,
    /// A recorded load.
    #[command(flatten)]
    pub replay: ReplayArgs,
}

/// How data are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum VerifyArg {
    /// By a crc32c, the block's offset and the number of its write
    Crc32c,
}

/// A target on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetArg {
    /// A file or block device.
    File(PathBuf),
    /// An NBD export.
    Nbd(NbdUri),
    /// A vhost-user-blk device.
    VhostUser(PathBuf),
}

fn parse_target(text: &str) -> Result<TargetArg, String> {
    if let Some(path) = text.strip_prefix(VHOST_USER) {
        let path = path.strip_prefix("//").unwrap_or(path);
        if path.is_empty() {
            return Err("the socket is missing: write vhost-user:/path/to/socket".to_owned());
        }
        return Ok(TargetArg::VhostUser(path.into()));
    }
    if text.starts_with("nbd") && text.contains("://") {
        let uri: NbdUri = text.parse().map_err(|error| format!("{error}"))?;
        return Ok(TargetArg::Nbd(uri));
    }
    Ok(TargetArg::File(
        text.strip_prefix("file:").unwrap_or(text).into(),
    ))
}

impl Bench {
    /// What is loaded.
    pub(crate) fn address(&self) -> Address {
        match &self.target {
            TargetArg::File(path) => Address::File {
                path: path.clone(),
                direct: self.direct == 1,
            },
            TargetArg::VhostUser(socket) => Address::VhostUser {
                socket: socket.clone(),
            },
            TargetArg::Nbd(uri) => Address::Nbd {
                server: match &uri.address {
                    NbdUriAddress::Unix(path) => NbdAddress::Unix(path.clone()),
                    NbdUriAddress::Tcp { host, port } => NbdAddress::Tcp {
                        host: host.clone(),
                        port: *port,
                    },
                },
                export: uri.export.clone(),
            },
        }
    }

    /// The load that was described.
    pub(crate) fn settings(&self) -> Settings {
        let sync =
            |writes: Option<u64>, data_only| writes.map(|writes| SyncEvery { writes, data_only });
        Settings {
            name: self.name.clone(),
            target: self.address(),
            shape: self.rw,
            sizes: self.bssplit.as_ref().unwrap_or(&self.bs).clone(),
            iodepth: self.iodepth.unwrap_or(1),
            numjobs: self.numjobs,
            offset: self.offset,
            offset_increment: self.offset_increment,
            size: self.size,
            io_size: self.io_size,
            runtime: self.runtime,
            time_based: self.time_based,
            ramp_time: self.ramp_time,
            spread: self.random_distribution.clone(),
            norandommap: self.norandommap,
            rwmixread: u64::from(self.rwmixread),
            rates: Rates {
                bytes: self.rate,
                requests: self.rate_iops,
            },
            sync: sync(self.fsync, false).or(sync(self.fdatasync, true)),
            verify: self.verify.map(|VerifyArg::Crc32c| Verify {
                interval: self.verify_interval,
                read_back: self.do_verify == 1,
            }),
            randseed: self.randseed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        bench: Bench,
    }

    fn settings(line: &str) -> Settings {
        let words = ["bench"].into_iter().chain(line.split_whitespace());
        Line::try_parse_from(words).unwrap().bench.settings()
    }

    #[test]
    fn fio_s_options_say_what_they_say_to_fio() {
        let settings = settings(
            "/dev/vdb --rw=randrw --rwmixread=70 --bssplit=4k/50:64k/50 --iodepth=32 --numjobs=2 \
             --size=1g --offset_increment=1g --runtime=30 --time_based --ramp_time=2s \
             --random_distribution=zipf:1.1 --rate_iops=1000 --fdatasync=16 --verify=crc32c \
             --verify_interval=512 --randseed=9 --norandommap --direct=0",
        );
        assert_eq!(settings.shape, Shape::RandRw);
        assert_eq!((settings.iodepth, settings.numjobs), (32, 2));
        assert_eq!(settings.sizes.largest(), 65536);
        assert_eq!(settings.size, Some(1 << 30));
        assert_eq!(settings.runtime, Some(Duration::from_secs(30)));
        assert_eq!(settings.spread, Spread::Zipf(1.1));
        assert_eq!(settings.rates.requests, Some(1000));
        let sync = SyncEvery {
            writes: 16,
            data_only: true,
        };
        assert_eq!(settings.sync, Some(sync));
        assert_eq!(settings.verify.unwrap().interval, Some(512));
        let target = Address::File {
            path: "/dev/vdb".into(),
            direct: false,
        };
        assert_eq!(settings.target, target);
    }

    #[test]
    fn a_target_is_a_path_an_nbd_address_or_a_socket() {
        let file = TargetArg::File("disk.raw".into());
        assert_eq!(parse_target("disk.raw"), Ok(file.clone()));
        assert_eq!(parse_target("file:disk.raw"), Ok(file));
        let socket = TargetArg::VhostUser("/run/disk.sock".into());
        assert_eq!(
            parse_target("vhost-user:/run/disk.sock"),
            Ok(socket.clone())
        );
        assert_eq!(parse_target("vhost-user:///run/disk.sock"), Ok(socket));
        let nbd = parse_target("nbd+unix:///disk?socket=/run/nbd.sock");
        assert!(matches!(nbd, Ok(TargetArg::Nbd(_))));
        assert!(parse_target("vhost-user:").is_err());
        assert!(parse_target("nbd://").is_err());
    }

    #[test]
    fn what_is_no_load_is_refused_on_the_command_line() {
        for line in [
            "disk --rw=sideways",
            "disk --bs=1000",
            "disk --bs=4k --bssplit=4k/100",
            "disk --fsync=1 --fdatasync=1",
            "disk --rwmixread=101",
            "disk --verify_interval=512",
            "disk --random_distribution=normal:1",
        ] {
            let words = ["bench"].into_iter().chain(line.split_whitespace());
            assert!(Line::try_parse_from(words).is_err(), "{line}");
        }
    }
}
