//! Arguments of `hearth advise`.

use crate::mrc::args::Sampling;
use clap::{Args, ValueHint};
use mrc::advice::{Costs, Drive, Endurance, Prices, Scenario, WriteMode};
use simulator::device::{DeviceSettings, Latency};
use simulator::policy::PolicyError;
use simulator::{Arrival, CacheSize, LatencySettings, Policy, WritePolicy};
use std::path::PathBuf;
use units::{Bytes, Duration};

/// Arguments of `advise`.
#[derive(Debug, Args)]
pub struct Advise {
    /// The traces, packed or not; each is judged by itself. None: the running daemon is asked
    #[arg(value_name = "TRACE", value_hint = ValueHint::FilePath)]
    pub traces: Vec<PathBuf>,
    /// Judge the running host by its live curves: who would gain from flash, whether there is too
    /// little of it, whether the write budget costs hits, whether more flash would pay, or memory in
    /// front of it
    #[arg(long, conflicts_with = "traces")]
    pub host: bool,
    /// Judge a trace although `hearth trace info` says that results will be wrong
    #[arg(long, requires = "traces")]
    pub anyway: bool,
    /// Which blocks count. Of a trace of more than 16 Mi accesses a policy is simulated over a part, unless --exact or
    /// --sample is given.
    #[command(flatten)]
    pub sampling: Sampling,
    /// The policy: daemon is what hearth serve does by default, what it admits to flash included; or one of hearth sim
    /// --list-policies. Each is simulated at each size but lru, whose curve comes from one pass
    #[arg(long, requires = "traces", value_name = "POLICY", default_value = "daemon", value_parser = policy)]
    pub policy: Policy,
    /// What writes do: around, through or back
    #[arg(long, requires = "traces", value_name = "POLICY", default_value_t)]
    pub write_policy: WritePolicy,
    /// Sizes to compare besides the one advised and those twice and four times as large: bytes (4MiB), blocks (27000blk)
    /// or a part of the distinct blocks (10%); if not given, halves and doubles of the one advised
    #[arg(
        long,
        requires = "traces",
        value_name = "SIZE,...",
        value_delimiter = ','
    )]
    pub sizes: Vec<CacheSize>,
    /// Mean time to read a block from flash
    #[arg(long, requires = "traces", value_name = "TIME", default_value = "80us")]
    pub flash_read: Duration,
    /// Mean time to write a block to flash
    #[arg(long, requires = "traces", value_name = "TIME", default_value = "20us")]
    pub flash_write: Duration,
    /// The origin, as hearth sim has it: nvme, sata, ssd-cluster, disk-array or disk, or parameters such as
    /// read=5ms,iops=2000. With --write-policy back its queue says how fast it takes writes. If not given it has the
    /// mean times of --origin-read and --origin-write, and no limit
    #[arg(long, requires = "traces", value_name = "DEVICE", value_parser = origin, conflicts_with_all = ["origin_read", "origin_write"])]
    pub origin: Option<DeviceSettings>,
    /// Mean time to read a block from the origin
    #[arg(
        long,
        requires = "traces",
        value_name = "TIME",
        default_value = "600us"
    )]
    pub origin_read: Duration,
    /// Mean time to write a block to the origin
    #[arg(
        long,
        requires = "traces",
        value_name = "TIME",
        default_value = "1200us"
    )]
    pub origin_write: Duration,
    /// Memory in front of the flash to judge: bytes (64MiB), blocks (1000blk) or a part of the distinct blocks (1%); each
    /// is simulated in front of the size that is advised
    #[arg(
        long,
        requires = "traces",
        value_name = "SIZE,...",
        value_delimiter = ','
    )]
    pub ram: Vec<CacheSize>,
    /// Which blocks that are read are worth that memory: s3-fifo, w-tinylfu, lru, or frequency
    #[arg(
        long,
        requires = "ram",
        value_name = "POLICY",
        default_value = "s3-fifo"
    )]
    pub ram_policy: policy::memory::Spec,
    /// Mean time to read a block from memory
    #[arg(long, requires = "ram", value_name = "TIME", default_value = "2us")]
    pub ram_read: Duration,
    /// Size of the drive that the cache is on; with --dwpd or --endurance its wear is told
    #[arg(long, requires = "traces", value_name = "SIZE")]
    pub drive_size: Option<Bytes>,
    /// How often a day the drive may be written over its warranty
    #[arg(long, requires = "drive_size", value_name = "N", value_parser = positive)]
    pub dwpd: Option<f64>,
    /// The warranty of --dwpd, in years
    #[arg(long, requires = "traces", value_name = "YEARS", default_value = "5", value_parser = positive)]
    pub warranty: f64,
    /// How much may be written to the drive over its life (TBW), such as 1200TiB
    #[arg(
        long,
        value_name = "SIZE",
        requires = "drive_size",
        conflicts_with = "dwpd"
    )]
    pub endurance: Option<Bytes>,
    /// How long the drive must last, in years
    #[arg(long, requires = "traces", value_name = "YEARS", default_value = "5", value_parser = positive)]
    pub years: f64,
    /// Bytes written to flash for each byte cached: reclaim and the drive's own. If not given 1.3, or 1 for the
    /// daemon's log, whose reclaim is simulated
    #[arg(long, requires = "traces", value_name = "FACTOR", value_parser = amplification)]
    pub write_amplification: Option<f64>,
    /// What a GiB of flash costs a month, in any currency; with --origin-price the size that gains
    /// most is advised
    #[arg(long, requires = "origin_price", value_name = "PRICE", value_parser = price)]
    pub flash_price: Option<f64>,
    /// What a million blocks read from the origin cost, in the same currency
    #[arg(long, requires = "flash_price", value_name = "PRICE", value_parser = price)]
    pub origin_price: Option<f64>,
}

fn number(text: &str, from: f64) -> Option<f64> {
    let number: f64 = text.parse().ok()?;
    (number.is_finite() && number >= from).then_some(number)
}

fn positive(text: &str) -> Result<f64, String> {
    number(text, f64::MIN_POSITIVE).ok_or_else(|| "write a number above 0".to_owned())
}

fn policy(text: &str) -> Result<Policy, String> {
    let policy: Policy = text
        .parse()
        .map_err(|error: PolicyError| error.to_string())?;
    if policy.knows_the_future() {
        return Err(format!(
            "{policy} knows the future, which no cache does; run it with hearth sim"
        ));
    }
    Ok(policy)
}

fn origin(text: &str) -> Result<DeviceSettings, String> {
    let settings = DeviceSettings::origin_default().with(text);
    settings.map_err(|error| error.to_string())
}

/// A device of these mean times, without limits.
fn unlimited(read: Duration, write: Duration) -> DeviceSettings {
    DeviceSettings {
        read: Latency::Fixed(read),
        write: Latency::Fixed(write),
        iops: None,
        bandwidth: None,
        parallel: None,
    }
}

fn price(text: &str) -> Result<f64, String> {
    number(text, 0.0).ok_or_else(|| "write a price of 0 or more".to_owned())
}

fn amplification(text: &str) -> Result<f64, String> {
    number(text, 1.0).ok_or_else(|| "write a factor of at least 1".to_owned())
}

impl Advise {
    /// Whether it is the running daemon that is asked.
    pub(crate) fn asks_host(&self) -> bool {
        self.host || self.traces.is_empty()
    }

    /// All that is given besides the traces.
    pub(super) fn scenario(&self) -> Scenario {
        let us = |time: Duration| time.to_std().as_secs_f64() * 1e6;
        Scenario {
            write_mode: match self.write_policy {
                WritePolicy::Around => WriteMode::Around,
                WritePolicy::Through => WriteMode::Through,
                WritePolicy::Back => WriteMode::Back,
            },
            costs: Costs {
                flash_read_us: us(self.flash_read),
                flash_write_us: us(self.flash_write),
                origin_read_us: us(self.origin_device().read.mean()),
                origin_write_us: us(self.origin_device().write.mean()),
            },
            write_amplification: self.write_amplification(),
            drive: self.drive(),
            years: self.years,
            prices: self.flash_price.zip(self.origin_price).map(
                |(flash_gib_month, origin_million_reads)| Prices {
                    flash_gib_month,
                    origin_million_reads,
                },
            ),
        }
    }

    fn origin_device(&self) -> DeviceSettings {
        self.origin
            .unwrap_or_else(|| unlimited(self.origin_read, self.origin_write))
    }

    /// The devices whose queues say how long writes wait; none if writes wait for nothing but the origin.
    pub(super) fn devices(&self) -> Option<LatencySettings> {
        (self.write_policy == WritePolicy::Back).then(|| LatencySettings {
            flash: unlimited(self.flash_read, self.flash_write),
            origin: self.origin_device(),
            arrival: Arrival::Timed { speed: 1.0 },
        })
    }

    /// Bytes written to flash for each that is counted.
    fn write_amplification(&self) -> f64 {
        let usual = if self.policy.is_log() { 1.0 } else { 1.3 };
        self.write_amplification.unwrap_or(usual)
    }

    fn drive(&self) -> Option<Drive> {
        let endurance = match (self.dwpd, self.endurance) {
            (Some(per_day), _) => Endurance::DriveWritesPerDay {
                per_day,
                years: self.warranty,
            },
            (None, Some(bytes)) => Endurance::Bytes(units::number::real(bytes.get())),
            (None, None) => return None,
        };
        let bytes = self.drive_size?.get();
        Some(Drive { bytes, endurance })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_their_least_value() {
        assert_eq!(positive("0.3"), Ok(0.3));
        assert_eq!(price("0"), Ok(0.0));
        assert_eq!(amplification("1"), Ok(1.0));
        assert!(policy("belady").is_err_and(|error| error.contains("hearth sim")));
        assert!(positive("0").is_err());
        assert!(price("-1").is_err());
        assert!(amplification("0.9").is_err());
        assert!(positive("inf").is_err());
    }
}
