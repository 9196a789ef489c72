//! Which size, whether it pays, and how far to trust that.

use super::outlook::{Behaviour, Outlook, Scenario, Workload};
use super::sizes::{Sizes, knee, larger, level, shown};
use units::number::real;

/// Where a verdict turns. Rules of thumb, not laws: they are printed with every advice.
pub mod limits {
    /// A cache whose size does not matter and that hits fewer reads than this does not pay.
    pub const READ_HITS_MIN: f64 = 0.10;
    /// Reads of fewer accesses than this are not what the workload waits for.
    pub const READ_SHARE_MIN: f64 = 0.05;
    /// A mean access that becomes less than this part faster is not felt.
    pub const LATENCY_GAIN_MIN: f64 = 0.10;
    /// Twice the size gains little if it adds fewer read hits than this, of all reads.
    pub const DOUBLING_GAIN_MIN: f64 = 0.02;
    /// A size with less than this part of the hits that the largest one has is no knee, however level the curve is
    /// there: a loop gains nothing until it fits.
    pub const KNEE_HITS_MIN: f64 = 0.5;
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
    /// The smallest candidate that has [`limits::KNEE_HITS_MIN`] of the hits and of which twice the size gains less than
    /// [`limits::DOUBLING_GAIN_MIN`]; `None` if twice that would be more than the largest.
    pub knee_blocks: Option<u64>,
    /// Twice and four times the size advised, as far as candidates reach.
    pub larger: Vec<Outlook>,
    /// Read hit ratio of a cache that holds everything.
    pub reachable: f64,
    /// The sizes compared, by rising size.
    pub outlooks: Vec<Outlook>,
    /// What to keep in mind.
    pub cautions: Vec<Caution>,
}

/// Judges a workload. `sampled_blocks` is what the curve is from.
pub fn advise(
    workload: &Workload,
    behaviour: &Behaviour,
    scenario: &Scenario,
    sizes: &Sizes,
    sampled_blocks: u64,
) -> Advice {
    let outlook = |blocks| Outlook::new(workload, behaviour, scenario, blocks);
    let reachable = behaviour.reachable;
    let knee_blocks = knee(behaviour, &sizes.candidates);
    let advised = advised_blocks(workload, behaviour, scenario, &sizes.candidates);
    let larger = advised.map_or_else(Vec::new, |blocks| larger(blocks, &sizes.candidates));
    let advised = advised.map(outlook);
    let obstacles = obstacles(workload, scenario, reachable, advised.as_ref());
    let mut compared = sizes.asked.clone();
    if compared.is_empty() {
        let blocks = advised.map(|advised| advised.blocks);
        compared.extend(shown(blocks, &sizes.candidates));
    }
    compared.extend(advised.map(|advised| advised.blocks));
    compared.extend(&larger);
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
        larger: larger.into_iter().map(outlook).collect(),
        reachable,
        outlooks: compared.into_iter().map(outlook).collect(),
        cautions: cautions(workload, sampled_blocks),
    }
}

/// With prices the size that gains most; else where the curve is level.
fn advised_blocks(
    workload: &Workload,
    behaviour: &Behaviour,
    scenario: &Scenario,
    candidates: &[u64],
) -> Option<u64> {
    if behaviour.reads.floor() >= 1.0 {
        return None;
    }
    if scenario.prices.is_some() && workload.seconds.is_some() {
        let gain = |blocks| {
            let outlook = Outlook::new(workload, behaviour, scenario, blocks);
            outlook
                .a_day
                .and_then(|day| day.gain_a_month)
                .unwrap_or(0.0)
        };
        // The gain is linear along the hull's lines, so its maximum is at a corner.
        let hull = behaviour.reads.hull();
        let corners = hull.points().iter().map(|point| point.blocks);
        return corners
            .filter(|blocks| *blocks > 0)
            .map(|blocks| (blocks, gain(blocks)))
            .max_by(|(_, one), (_, other)| one.total_cmp(other))
            .map(|(blocks, _)| blocks);
    }
    level(behaviour, candidates)
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
    use super::super::{Costs, Drive, Endurance, Prices, WriteMode};
    use super::*;
    use crate::{Between, Curve, Point};

    fn advice(workload: &Workload, scenario: &Scenario) -> Advice {
        let sizes = Sizes {
            candidates: vec![1_000, 2_000, 4_000, 10_000],
            asked: vec![5_000],
        };
        advise(workload, &behaviour(), scenario, &sizes, 10_000)
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
        assert_eq!(compared, [1_000, 2_000, 4_000, 5_000]);
        let larger = advice.larger.iter().map(|outlook| outlook.blocks);
        assert_eq!(larger.collect::<Vec<_>>(), [2_000, 4_000]);
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
        let of = |points| {
            let reads = Curve::new(points, Between::Stairs);
            Behaviour {
                reachable: 1.0 - reads.floor(),
                reads,
                ..behaviour()
            }
        };
        let sizes = Sizes {
            candidates: vec![10, 20],
            asked: Vec::new(),
        };
        let advice = advise(&WORKLOAD, &of(Vec::new()), &SCENARIO, &sizes, 10_000);
        assert_eq!(advice.advised, None);
        assert_eq!(
            advice.verdict,
            Verdict::DoesNotPay(vec![Obstacle::HardlyReuses { reachable: 0.0 }])
        );
        let rarely = Point {
            blocks: 10,
            miss_ratio: 0.95,
        };
        let advice = advise(&WORKLOAD, &of(vec![rarely]), &SCENARIO, &sizes, 10_000);
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
        let sizes = Sizes::default();
        let advice = advise(&workload, &behaviour(), &SCENARIO, &sizes, 99);
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
