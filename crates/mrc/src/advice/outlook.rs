//! One cache size: its hits, latencies, wear and cost.

use crate::access::Writes;
use crate::curve::Curve;
use units::number::real;

const DAY_SECONDS: f64 = 86_400.0;
const YEAR_DAYS: f64 = 365.0;
const MONTH_DAYS: f64 = YEAR_DAYS / 12.0;
const GIB: f64 = 1_073_741_824.0;

/// What the trace asks of a cache.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Workload {
    /// Blocks read.
    pub reads: u64,
    /// Blocks written.
    pub writes: u64,
    /// Distinct blocks.
    pub footprint_blocks: u64,
    /// Bytes in a block.
    pub block_bytes: u64,
    /// How long it is, if its format has time.
    pub seconds: Option<f64>,
}

/// When a write is answered, and what it leaves on flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteMode {
    /// By the origin; the block leaves the cache.
    Around,
    /// By the origin; the block is written to flash as well.
    Through,
    /// By the flash.
    Back,
}

impl WriteMode {
    /// What writes do to the stack of the curves that fit.
    pub const fn writes(self) -> Writes {
        match self {
            Self::Around => Writes::Invalidate,
            Self::Through | Self::Back => Writes::Allocate,
        }
    }
}

/// Mean time of an access to a device, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// Reading a block from flash.
    pub flash_read_us: f64,
    /// Writing a block to flash.
    pub flash_write_us: f64,
    /// Reading a block from the origin.
    pub origin_read_us: f64,
    /// Writing a block to the origin.
    pub origin_write_us: f64,
}

/// How much a drive may be written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Endurance {
    /// Bytes over its life (TBW).
    Bytes(f64),
    /// Its size a day (DWPD), over so many years.
    DriveWritesPerDay {
        /// How often a day.
        per_day: f64,
        /// How many years.
        years: f64,
    },
}

/// The drive that the cache is on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Drive {
    /// Its size.
    pub bytes: u64,
    /// What its maker promises.
    pub endurance: Endurance,
}

impl Drive {
    /// Bytes that may be written to it over its life.
    pub fn life_bytes(&self) -> f64 {
        match self.endurance {
            Endurance::Bytes(bytes) => bytes,
            Endurance::DriveWritesPerDay { per_day, years } => {
                per_day * real(self.bytes) * YEAR_DAYS * years
            }
        }
    }
}

/// What flash costs and what a read of the origin costs, in any one currency.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prices {
    /// A GiB of flash, for a month.
    pub flash_gib_month: f64,
    /// A million blocks read from the origin.
    pub origin_million_reads: f64,
}

/// All that is given besides the trace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scenario {
    /// What writes do.
    pub write_mode: WriteMode,
    /// How long accesses take.
    pub costs: Costs,
    /// Bytes written to flash for each byte that the cache writes there: the device's own, and reclaim's where
    /// [`FlashWrites`] does not count it.
    pub write_amplification: f64,
    /// The drive, if wear is asked for.
    pub drive: Option<Drive>,
    /// How long the drive must last, in years.
    pub years: f64,
    /// Prices, if money is asked for.
    pub prices: Option<Prices>,
}

/// How caches of all sizes behave under a workload.
#[derive(Clone, Debug, PartialEq)]
pub struct Behaviour {
    /// The curve over reads, with the writes that the scenario's mode makes ([`WriteMode::writes`]).
    pub reads: Curve,
    /// Reads that hit in a cache that holds everything, 0 to 1.
    pub reachable: f64,
    /// What they write to flash.
    pub flash_writes: FlashWrites,
    /// Blocks that they write to the origin over the trace, by size; none if each write is one block there.
    pub origin_writes: Option<BySize>,
    /// How long requests took in a model with queues; none if means without queues are to be taken.
    pub times: Option<Times>,
}

/// Mean times of requests by size, in microseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Times {
    /// Of reads.
    pub read_us: BySize,
    /// Of writes, with the time that they wait for room in a dirty log.
    pub write_us: BySize,
}

/// A figure for caches of all sizes: simulated at some, on a straight line between two of them, and beyond the
/// smallest and the largest as there.
#[derive(Clone, Debug, PartialEq)]
pub struct BySize(Vec<(u64, f64)>);

impl BySize {
    /// The figure at these sizes, in blocks.
    pub fn new(mut figures: Vec<(u64, f64)>) -> Self {
        figures.sort_by_key(|(blocks, _)| *blocks);
        Self(figures)
    }

    /// The figure of a cache of `size` blocks; 0 if it is known for no size.
    pub fn at(&self, size: u64) -> f64 {
        let above = self.0.partition_point(|(blocks, _)| *blocks <= size);
        let below = above.checked_sub(1).map(|below| self.0[below]);
        match (below, self.0.get(above)) {
            (Some((low, figure)), Some(&(high, more))) => {
                let along = real(size - low) / real(high - low);
                figure + along * (more - figure)
            }
            (Some((_, figure)), None) | (None, Some(&(_, figure))) => figure,
            (None, None) => 0.0,
        }
    }
}

/// What a cache writes to flash.
#[derive(Clone, Debug, PartialEq)]
pub enum FlashWrites {
    /// Each block of a read that misses, and each that the mode of the writes puts on flash, once.
    EveryMiss,
    /// Blocks that a simulation counted over the whole trace, reclaim and descriptors included.
    Counted(BySize),
}

impl FlashWrites {
    /// Blocks that a cache of `size` blocks writes over the trace; `every_miss` is the figure if nothing was
    /// counted.
    fn blocks(&self, size: u64, every_miss: f64) -> f64 {
        match self {
            Self::EveryMiss => every_miss,
            Self::Counted(counted) => counted.at(size),
        }
    }
}

/// What happens a day, if the trace's days are like any other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    /// Blocks read from flash instead of the origin.
    pub origin_reads_saved: f64,
    /// Time that the origin works less, in seconds.
    pub origin_seconds_saved: f64,
    /// Bytes written to flash.
    pub flash_bytes: f64,
    /// How often the drive's size is written, if there is a drive.
    pub drive_writes: Option<f64>,
    /// How long the drive lasts, if there is one and something is written.
    pub life_years: Option<f64>,
    /// Money saved a month at the origin less what the flash costs, if prices are given.
    pub gain_a_month: Option<f64>,
}

/// What a cache of one size would do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outlook {
    /// Its size.
    pub blocks: u64,
    /// Its size.
    pub bytes: u64,
    /// Reads that hit, by reads.
    pub read_hit_ratio: f64,
    /// Mean latency of a block's read.
    pub read_us: f64,
    /// Mean latency of a block's write.
    pub write_us: f64,
    /// Mean latency of a block's read or write; without a cache it would be [`Outlook::plain_us`].
    pub access_us: f64,
    /// The same without a cache.
    pub plain_us: f64,
    /// The part of the origin's time that is saved: its reads and writes, each at its mean without queues. Below 0 if
    /// the origin works more.
    pub origin_time_saved: f64,
    /// Bytes written to flash over the trace, amplification included.
    pub flash_bytes: f64,
    /// What happens a day; `None` if the trace has no time.
    pub a_day: Option<Rates>,
}

impl Outlook {
    /// The outlook of a cache of `blocks`.
    pub fn new(
        workload: &Workload,
        behaviour: &Behaviour,
        scenario: &Scenario,
        blocks: u64,
    ) -> Self {
        let costs = &scenario.costs;
        let read_hit_ratio = behaviour.reads.hit_ratio(blocks);
        let (read_count, write_count) = (real(workload.reads), real(workload.writes));
        let block_bytes = real(workload.block_bytes);
        let mean_read_us =
            read_hit_ratio * costs.flash_read_us + (1.0 - read_hit_ratio) * costs.origin_read_us;
        let (mean_write_us, written) = match scenario.write_mode {
            WriteMode::Around => (costs.origin_write_us, 0.0),
            WriteMode::Through => (costs.origin_write_us, write_count),
            WriteMode::Back => (costs.flash_write_us, write_count),
        };
        let (read_us, write_us) = match &behaviour.times {
            Some(times) => (times.read_us.at(blocks), times.write_us.at(blocks)),
            None => (mean_read_us, mean_write_us),
        };
        let origin_writes = behaviour.origin_writes.as_ref();
        let origin_writes = origin_writes.map_or(write_count, |counted| counted.at(blocks));
        let origin_us =
            |reads: f64, writes: f64| reads * costs.origin_read_us + writes * costs.origin_write_us;
        let origin_plain_us = origin_us(read_count, write_count);
        let origin_left_us = origin_us((1.0 - read_hit_ratio) * read_count, origin_writes);
        let accesses = (read_count + write_count).max(1.0);
        let mean = |read_us: f64, write_us: f64| {
            (read_count * read_us + write_count * write_us) / accesses
        };
        let filled = (1.0 - read_hit_ratio) * read_count;
        let flash_blocks = behaviour.flash_writes.blocks(blocks, filled + written);
        let flash_bytes = flash_blocks * block_bytes * scenario.write_amplification;
        let mut outlook = Self {
            blocks,
            bytes: blocks.saturating_mul(workload.block_bytes),
            read_hit_ratio,
            read_us,
            write_us,
            access_us: mean(read_us, write_us),
            plain_us: mean(costs.origin_read_us, costs.origin_write_us),
            origin_time_saved: 1.0 - origin_left_us / origin_plain_us.max(f64::MIN_POSITIVE),
            flash_bytes,
            a_day: None,
        };
        outlook.a_day = workload
            .seconds
            .map(|seconds| outlook.rates(workload, scenario, DAY_SECONDS / seconds));
        outlook
    }

    /// How many times faster the mean access is than without a cache.
    pub fn speedup(&self) -> f64 {
        self.plain_us / self.access_us
    }

    fn rates(&self, workload: &Workload, scenario: &Scenario, traces_a_day: f64) -> Rates {
        let flash_bytes = self.flash_bytes * traces_a_day;
        let saved = self.read_hit_ratio * real(workload.reads) * traces_a_day;
        let drive = scenario.drive;
        let gain = |prices: Prices| {
            saved * MONTH_DAYS / 1e6 * prices.origin_million_reads
                - real(self.bytes) / GIB * prices.flash_gib_month
        };
        let costs = &scenario.costs;
        let origin_us = real(workload.reads) * costs.origin_read_us
            + real(workload.writes) * costs.origin_write_us;
        Rates {
            origin_reads_saved: saved,
            origin_seconds_saved: self.origin_time_saved * origin_us / 1e6 * traces_a_day,
            flash_bytes,
            drive_writes: drive.map(|drive| flash_bytes / real(drive.bytes)),
            life_years: drive
                .filter(|_| flash_bytes > 0.0)
                .map(|drive| drive.life_bytes() / flash_bytes / YEAR_DAYS),
            gain_a_month: scenario.prices.map(gain),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::{Between, Point};

    /// Half the reads hit at 1,000 blocks, 80 % at 10,000.
    pub(in crate::advice) fn behaviour() -> Behaviour {
        let points = [(1_000, 0.5), (10_000, 0.2)];
        let points = points.map(|(blocks, miss_ratio)| Point { blocks, miss_ratio });
        Behaviour {
            reads: Curve::new(points.to_vec(), Between::Stairs),
            reachable: 0.8,
            flash_writes: FlashWrites::EveryMiss,
            origin_writes: None,
            times: None,
        }
    }

    /// Half a day: 3 million blocks read, 1 million written.
    pub(in crate::advice) const WORKLOAD: Workload = Workload {
        reads: 3_000_000,
        writes: 1_000_000,
        footprint_blocks: 10_000,
        block_bytes: 4096,
        seconds: Some(43_200.0),
    };

    pub(in crate::advice) const SCENARIO: Scenario = Scenario {
        write_mode: WriteMode::Through,
        costs: Costs {
            flash_read_us: 100.0,
            flash_write_us: 20.0,
            origin_read_us: 1_000.0,
            origin_write_us: 2_000.0,
        },
        write_amplification: 1.25,
        drive: None,
        years: 5.0,
        prices: None,
    };

    fn assert_near(value: f64, expected: f64) {
        assert!(
            (value - expected).abs() <= 1e-9 * expected.abs(),
            "{value} is not {expected}"
        );
    }

    #[test]
    fn latency_is_the_mean_of_hits_misses_and_writes() {
        let outlook = Outlook::new(&WORKLOAD, &behaviour(), &SCENARIO, 1_000);
        assert_near(outlook.read_us, 550.0);
        assert_near(outlook.write_us, 2_000.0);
        // (3 x 550 + 1 x 2000) / 4 and (3 x 1000 + 1 x 2000) / 4.
        assert_near(outlook.access_us, 912.5);
        assert_near(outlook.plain_us, 1_250.0);
        let back = Scenario {
            write_mode: WriteMode::Back,
            ..SCENARIO
        };
        let outlook = Outlook::new(&WORKLOAD, &behaviour(), &back, 1_000);
        assert_near(outlook.access_us, 417.5);
        assert_near(outlook.speedup(), 1_250.0 / 417.5);
    }

    #[test]
    fn flash_is_written_by_fills_and_by_writes_that_stay() {
        // 1.5 million misses and a million writes, 4096 bytes each, times 1.25.
        let through = Outlook::new(&WORKLOAD, &behaviour(), &SCENARIO, 1_000);
        assert_near(through.flash_bytes, 12.8e9);
        let around = Scenario {
            write_mode: WriteMode::Around,
            ..SCENARIO
        };
        let around = Outlook::new(&WORKLOAD, &behaviour(), &around, 1_000);
        assert_near(around.flash_bytes, 7.68e9);
    }

    #[test]
    fn wear_counts_two_half_days_a_day() {
        let drive = Drive {
            bytes: 512_000_000_000,
            endurance: Endurance::DriveWritesPerDay {
                per_day: 0.5,
                years: 4.0,
            },
        };
        // 0.5 x 512 GB x 365 x 4.
        assert_near(drive.life_bytes(), 373.76e12);
        let scenario = Scenario {
            drive: Some(drive),
            ..SCENARIO
        };
        let outlook = Outlook::new(&WORKLOAD, &behaviour(), &scenario, 1_000);
        let day = outlook.a_day.unwrap();
        assert_near(day.flash_bytes, 25.6e9);
        assert_near(day.drive_writes.unwrap(), 0.05);
        // 373.76 TB at 25.6 GB a day are 14,600 days.
        assert_near(day.life_years.unwrap(), 40.0);
        assert_near(day.origin_reads_saved, 3e6);
    }

    #[test]
    fn money_is_what_the_origin_saves_less_what_the_flash_costs() {
        let scenario = Scenario {
            prices: Some(Prices {
                flash_gib_month: 0.25,
                origin_million_reads: 0.4,
            }),
            ..SCENARIO
        };
        // 262,144 blocks are a GiB; 80 % of 6 million reads a day, 365/12 days a month.
        let outlook = Outlook::new(&WORKLOAD, &behaviour(), &scenario, 262_144);
        let gain = outlook.a_day.unwrap().gain_a_month.unwrap();
        assert_near(gain, 4.8 * 365.0 / 12.0 * 0.4 - 0.25);
    }

    #[test]
    fn without_time_there_is_no_day() {
        let workload = Workload {
            seconds: None,
            ..WORKLOAD
        };
        assert_eq!(
            Outlook::new(&workload, &behaviour(), &SCENARIO, 1).a_day,
            None
        );
    }

    #[test]
    fn counted_writes_are_those_of_the_sizes_and_a_line_between_them() {
        let counted = Behaviour {
            flash_writes: FlashWrites::Counted(BySize::new(vec![
                (3_000, 300.0),
                (0, 0.0),
                (1_000, 500.0),
            ])),
            ..behaviour()
        };
        for (size, written) in [(500, 250.0), (1_000, 500.0), (2_000, 400.0), (9_000, 300.0)] {
            let outlook = Outlook::new(&WORKLOAD, &counted, &SCENARIO, size);
            assert_near(outlook.flash_bytes, written * 4096.0 * 1.25);
        }
    }

    #[test]
    fn the_origin_saves_the_reads_that_hit_and_the_writes_that_never_come() {
        // 3 million reads of 1 ms and a million writes of 2 ms are 5,000 s; half of the reads are 1,500 s.
        let outlook = Outlook::new(&WORKLOAD, &behaviour(), &SCENARIO, 1_000);
        assert_near(outlook.origin_time_saved, 0.3);
        assert_near(outlook.a_day.unwrap().origin_seconds_saved, 3_000.0);
        let coalesced = Behaviour {
            origin_writes: Some(BySize::new(vec![(1_000, 500_000.0)])),
            ..behaviour()
        };
        let outlook = Outlook::new(&WORKLOAD, &coalesced, &SCENARIO, 1_000);
        assert_near(outlook.origin_time_saved, 0.5);
    }

    #[test]
    fn times_of_a_model_with_queues_count_before_means() {
        let by_size = |us| BySize::new(vec![(1_000, us)]);
        let waits = Behaviour {
            times: Some(Times {
                read_us: by_size(600.0),
                write_us: by_size(9_000.0),
            }),
            ..behaviour()
        };
        let outlook = Outlook::new(&WORKLOAD, &waits, &SCENARIO, 1_000);
        assert_near(outlook.access_us, (3.0 * 600.0 + 9_000.0) / 4.0);
    }
}
