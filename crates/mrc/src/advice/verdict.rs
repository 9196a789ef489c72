//! Which size, whether it pays, and how far to trust that.

use super::outlook::{Behaviour, Outlook, Scenario, Workload};
use units::number::real;

/// Where a verdict turns. Rules of thumb, not laws: they are printed with every advice.
pub mod limits {
    /// A cache whose size does not matter and that hits fewer reads than this does not pay.
    pub const READ_HITS_MIN: f64 = 0.10;
    /// Reads of fewer accesses than this are not what the workload waits for.
    pub const READ_SHARE_MIN: f64 = 0.05;
    /// A mean access that becomes less than this part faster is not felt.
    pub const LATENCY_GAIN_MIN: f64 = 0.10;
    /// Without a knee: the size that has this part of the hits that any size has.
    pub const HITS_WITHOUT_KNEE: f64 = 0.9;
    /// A trace shorter than a day has not seen the daily rhythm.
    pub const SECONDS_MIN: f64 = 86_400.0;
    /// First accesses beyond this part of all mean that the trace ends before the cache is warm.
    pub const FIRST_ACCESSES_MAX: f64 = 0.5;
    /// Fewer sampled blocks than this make a curve's error larger than a few hundredths.
    pub const SAMPLED_BLOCKS_MIN: u64 = 1_000;
}

/// Why a cache does not pay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Obstacle {
    /// Hardly anything is read, and writes gain nothing in this mode.
    HardlyReads {
        /// Reads by accesses.
        read_share: f64,
    },
    /// No size would have enough hits.
    HardlyReuses {
        /// Read hits of a cache that holds everything.
        reachable: f64,
    },
    /// The flash is no faster than the origin.
    FlashNotFaster,
    /// What is gained is not felt.
    LittleFaster {
        /// How much less the mean access takes, 0 to 1.
        gain: f64,
    },
    /// The drive is worn out too early.
    WearsOut {
        /// How long it lasts, in years.
        life_years: f64,
        /// Drive writes a day that a drive needs for the years asked for.
        drive_writes_needed: f64,
    },
    /// The flash costs more than the origin saves, at every size.
    CostsMore {
        /// The loss a month at the best size.
        loss_a_month: f64,
    },
}

/// What makes an advice less certain than it looks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Caution {
    /// The format has no time: nothing a day can be said.
    NoTime,
    /// The trace is short.
    Short {
        /// How long it is.
        seconds: f64,
    },
    /// Much of the trace is first accesses: a longer one would hit more, and need more room.
    MostlyFirstAccesses {
        /// Distinct blocks by accesses.
        share: f64,
    },
    /// The curve is from few blocks.
    SmallSample {
        /// How many.
        blocks: u64,
    },
}

/// Whether a cache pays.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// The size advised does.
    Pays,
    /// No size does, for each of these reasons.
    DoesNotPay(Vec<Obstacle>),
}

/// What to do about a workload.
#[derive(Clone, Debug, PartialEq)]
pub struct Advice {
    /// Whether a cache pays.
    pub verdict: Verdict,
    /// What the size advised would do, or the best there is if none pays. `None` if nothing hits.
    pub advised: Option<Outlook>,
    /// The knee of the curve over reads; `None` if it has none.
    pub knee_blocks: Option<u64>,
    /// Read hit ratio of a cache that holds everything.
    pub reachable: f64,
    /// The sizes compared, by rising size.
    pub outlooks: Vec<Outlook>,
    /// What to keep in mind.
    pub cautions: Vec<Caution>,
}

/// Judges a workload. `sizes` are compared besides the one advised; `sampled_blocks` is what the curve is
/// from.
pub fn advise(
    workload: &Workload,
    behaviour: &Behaviour,
    scenario: &Scenario,
    sizes: &[u64],
    sampled_blocks: u64,
) -> Advice {
    let outlook = |blocks| Outlook::new(workload, behaviour, scenario, blocks);
    let reads = &behaviour.reads;
    let reachable = 1.0 - reads.floor();
    let knee_blocks = reads.knee_blocks();
    let advised = advised_blocks(workload, behaviour, scenario, knee_blocks).map(outlook);
    let obstacles = obstacles(workload, scenario, reachable, advised.as_ref());
    let mut compared = sizes.to_vec();
    compared.extend(advised.map(|advised| advised.blocks));
    compared.sort_unstable();
    compared.dedup();
    Advice {
        verdict: if obstacles.is_empty() {
            Verdict::Pays
        } else {
            Verdict::DoesNotPay(obstacles)
        },
        advised,
        knee_blocks,
        reachable,
        outlooks: compared.into_iter().map(outlook).collect(),
        cautions: cautions(workload, sampled_blocks),
    }
}

/// With prices the size that gains most; else the knee; else where most of the hits are had.
fn advised_blocks(
    workload: &Workload,
    behaviour: &Behaviour,
    scenario: &Scenario,
    knee_blocks: Option<u64>,
) -> Option<u64> {
    let reads = &behaviour.reads;
    let reachable = 1.0 - reads.floor();
    if reachable <= 0.0 {
        return None;
    }
    if scenario.prices.is_some() && workload.seconds.is_some() {
        // The gain is linear along the hull's lines, so its maximum is at a corner.
        let gain = |blocks| {
            let outlook = Outlook::new(workload, behaviour, scenario, blocks);
            outlook
                .a_day
                .and_then(|day| day.gain_a_month)
                .unwrap_or(0.0)
        };
        let hull = reads.hull();
        let corners = hull.points().iter().map(|point| point.blocks);
        return corners
            .filter(|blocks| *blocks > 0)
            .map(|blocks| (blocks, gain(blocks)))
            .max_by(|(_, one), (_, other)| one.total_cmp(other))
            .map(|(blocks, _)| blocks);
    }
    knee_blocks.or_else(|| reads.blocks_for(1.0 - limits::HITS_WITHOUT_KNEE * reachable))
}

fn obstacles(
    workload: &Workload,
    scenario: &Scenario,
    reachable: f64,
    advised: Option<&Outlook>,
) -> Vec<Obstacle> {
    let mut obstacles = Vec::new();
    let accesses = real(workload.reads) + real(workload.writes);
    let read_share = real(workload.reads) / accesses.max(1.0);
    let answers_writes = scenario.write_mode == super::WriteMode::Back;
    if !answers_writes && read_share < limits::READ_SHARE_MIN {
        obstacles.push(Obstacle::HardlyReads { read_share });
    } else if !answers_writes && reachable < limits::READ_HITS_MIN {
        obstacles.push(Obstacle::HardlyReuses { reachable });
    }
    if scenario.costs.flash_read_us >= scenario.costs.origin_read_us {
        obstacles.push(Obstacle::FlashNotFaster);
    }
    let Some(advised) = advised else {
        return obstacles;
    };
    let gain = 1.0 - advised.access_us / advised.plain_us;
    if obstacles.is_empty() && gain < limits::LATENCY_GAIN_MIN {
        obstacles.push(Obstacle::LittleFaster { gain });
    }
    let Some(day) = &advised.a_day else {
        return obstacles;
    };
    if let (Some(life_years), Some(drive)) = (day.life_years, scenario.drive)
        && life_years < scenario.years
    {
        let allowed = drive.life_bytes() / real(drive.bytes) / (365.0 * scenario.years);
        obstacles.push(Obstacle::WearsOut {
            life_years,
            drive_writes_needed: allowed * scenario.years / life_years,
        });
    }
    if let Some(gain) = day.gain_a_month
        && gain < 0.0
    {
        obstacles.push(Obstacle::CostsMore {
            loss_a_month: -gain,
        });
    }
    obstacles
}

fn cautions(workload: &Workload, sampled_blocks: u64) -> Vec<Caution> {
    let mut cautions = Vec::new();
    match workload.seconds {
        None => cautions.push(Caution::NoTime),
        Some(seconds) if seconds < limits::SECONDS_MIN => {
            cautions.push(Caution::Short { seconds });
        }
        Some(_) => {}
    }
    let accesses = real(workload.reads) + real(workload.writes);
    let share = real(workload.footprint_blocks) / accesses.max(1.0);
    if share > limits::FIRST_ACCESSES_MAX {
        cautions.push(Caution::MostlyFirstAccesses { share });
    }
    if sampled_blocks < limits::SAMPLED_BLOCKS_MIN && sampled_blocks < workload.footprint_blocks {
        cautions.push(Caution::SmallSample {
            blocks: sampled_blocks,
        });
    }
    cautions
}

#[cfg(test)]
mod tests {
    use super::super::outlook::tests::{SCENARIO, WORKLOAD, behaviour};
    use super::super::{Costs, Drive, Endurance, FlashWrites, Prices, WriteMode};
    use super::*;
    use crate::{Between, Curve, Point};

    fn advice(workload: &Workload, scenario: &Scenario) -> Advice {
        advise(workload, &behaviour(), scenario, &[5_000], 10_000)
    }

    #[test]
    fn the_knee_is_advised_and_compared() {
        let advice = advice(&WORKLOAD, &SCENARIO);
        assert_eq!(advice.verdict, Verdict::Pays);
        assert_eq!(advice.knee_blocks, Some(1_000));
        assert_eq!(advice.advised.unwrap().blocks, 1_000);
        let compared: Vec<u64> = advice
            .outlooks
            .iter()
            .map(|outlook| outlook.blocks)
            .collect();
        assert_eq!(compared, [1_000, 5_000]);
    }

    #[test]
    fn prices_choose_the_size_that_gains_most() {
        let scenario = |flash_gib_month| Scenario {
            prices: Some(Prices {
                flash_gib_month,
                origin_million_reads: 0.01,
            }),
            ..SCENARIO
        };
        // 30 % more hits are 1.8 million reads a day, 0.5475 a month; 9,000 blocks are 0.0343 GiB.
        let cheap = advice(&WORKLOAD, &scenario(15.0));
        assert_eq!(cheap.advised.unwrap().blocks, 10_000);
        let dear = advice(&WORKLOAD, &scenario(17.0));
        assert_eq!(dear.advised.unwrap().blocks, 1_000);
        let absurd = advice(&WORKLOAD, &scenario(1_000.0));
        assert!(matches!(
            absurd.verdict,
            Verdict::DoesNotPay(obstacles) if matches!(obstacles[..], [Obstacle::CostsMore { .. }])
        ));
    }

    #[test]
    fn a_trace_of_writes_needs_write_back() {
        let workload = Workload {
            reads: 10_000,
            ..WORKLOAD
        };
        let through = advice(&workload, &SCENARIO);
        assert!(matches!(
            through.verdict,
            Verdict::DoesNotPay(obstacles) if matches!(obstacles[0], Obstacle::HardlyReads { .. })
        ));
        let back = Scenario {
            write_mode: WriteMode::Back,
            ..SCENARIO
        };
        assert_eq!(advice(&workload, &back).verdict, Verdict::Pays);
    }

    #[test]
    fn a_scan_pays_at_no_size() {
        let of = |points| Behaviour {
            reads: Curve::new(points, Between::Stairs),
            flash_writes: FlashWrites::EveryMiss,
        };
        let advice = advise(&WORKLOAD, &of(Vec::new()), &SCENARIO, &[], 10_000);
        assert_eq!(advice.advised, None);
        assert_eq!(
            advice.verdict,
            Verdict::DoesNotPay(vec![Obstacle::HardlyReuses { reachable: 0.0 }])
        );
        let rarely = Point {
            blocks: 10,
            miss_ratio: 0.95,
        };
        let advice = advise(&WORKLOAD, &of(vec![rarely]), &SCENARIO, &[], 10_000);
        assert!(matches!(advice.verdict, Verdict::DoesNotPay(_)));
    }

    #[test]
    fn slow_flash_does_not_pay() {
        let scenario = Scenario {
            costs: Costs {
                flash_read_us: 2_000.0,
                ..SCENARIO.costs
            },
            ..SCENARIO
        };
        assert_eq!(
            advice(&WORKLOAD, &scenario).verdict,
            Verdict::DoesNotPay(vec![Obstacle::FlashNotFaster])
        );
    }

    #[test]
    fn a_drive_that_wears_out_says_which_one_would_not() {
        let drive = Drive {
            bytes: 10_000_000_000,
            endurance: Endurance::DriveWritesPerDay {
                per_day: 1.0,
                years: 5.0,
            },
        };
        let scenario = Scenario {
            drive: Some(drive),
            ..SCENARIO
        };
        // 25.6 GB a day on 10 GB are 2.56 drive writes.
        let Verdict::DoesNotPay(obstacles) = advice(&WORKLOAD, &scenario).verdict else {
            panic!("such a drive does not last");
        };
        let [
            Obstacle::WearsOut {
                life_years,
                drive_writes_needed,
            },
        ] = obstacles[..]
        else {
            panic!("only the wear is wrong");
        };
        assert!((life_years - 5.0 / 2.56).abs() < 1e-9);
        assert!((drive_writes_needed - 2.56).abs() < 1e-9);
    }

    #[test]
    fn what_the_trace_cannot_tell_is_said() {
        let workload = Workload {
            seconds: None,
            footprint_blocks: 3_000_000,
            ..WORKLOAD
        };
        let advice = advise(&workload, &behaviour(), &SCENARIO, &[], 99);
        assert_eq!(
            advice.cautions,
            [
                Caution::NoTime,
                Caution::MostlyFirstAccesses { share: 0.75 },
                Caution::SmallSample { blocks: 99 },
            ]
        );
    }
}
