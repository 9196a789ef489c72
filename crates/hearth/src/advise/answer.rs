//! An advice as JSON.

use super::observed::Observed;
use mrc::advice::{
    Advice, Caution, FlashWrites, MemoryOutlook, Obstacle, Outlook, Scenario, Verdict, WriteMode,
    limits,
};
use serde::Serialize;
use simulator::Policy;

/// The advice on one trace.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Answer {
    pub(super) trace: String,
    pub(super) format: &'static str,
    pub(super) pays: bool,
    /// Why not; empty if it pays.
    pub(super) obstacles: Vec<AnswerObstacle>,
    /// What makes this less certain.
    pub(super) cautions: Vec<AnswerCaution>,
    /// The size that is advised, or the best there is if none pays.
    pub(super) advised: Option<AnswerOutlook>,
    /// Twice and four times the size that is advised, as far as more could hold more.
    pub(super) larger: Vec<AnswerOutlook>,
    pub(super) knee_blocks: Option<u64>,
    /// Read hit ratio of a cache that holds everything.
    pub(super) read_hit_ratio_max: f64,
    pub(super) sizes: Vec<AnswerOutlook>,
    /// Memory in front of the size that is advised, as it was asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) memory: Vec<AnswerMemory>,
    pub(super) reads: u64,
    pub(super) writes: u64,
    pub(super) footprint_blocks: u64,
    pub(super) block_bytes: u64,
    pub(super) duration_seconds: Option<f64>,
    pub(super) assumed: Assumed,
}

/// What was given or taken for granted.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Assumed {
    /// The policy, as it was given.
    pub(super) policy: String,
    /// Whether the policy was simulated at each size.
    pub(super) simulated: bool,
    /// The part of the trace that was simulated.
    pub(super) simulated_rate: f64,
    /// Whether the times are of a model with queues.
    pub(super) queues: bool,
    /// At the knee twice the size adds fewer read hits than this part of the reads.
    pub(super) doubling_gain_min: f64,
    pub(super) write_policy: &'static str,
    pub(super) flash_read_us: f64,
    pub(super) flash_write_us: f64,
    pub(super) origin_read_us: f64,
    pub(super) origin_write_us: f64,
    pub(super) write_amplification: f64,
    pub(super) years: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) drive_life_bytes: Option<f64>,
}

/// A size and what it would do.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct AnswerOutlook {
    pub(super) size_blocks: u64,
    pub(super) size_bytes: u64,
    pub(super) read_hit_ratio: f64,
    pub(super) read_us: f64,
    pub(super) write_us: f64,
    pub(super) access_us: f64,
    pub(super) access_us_without: f64,
    /// The part of the origin's time that is saved.
    pub(super) origin_time_saved: f64,
    pub(super) flash_bytes: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) flash_bytes_a_day: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) origin_reads_saved_a_day: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) origin_seconds_saved_a_day: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) drive_writes_a_day: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) drive_life_years: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) gain_a_month: Option<f64>,
}

/// Memory in front of the flash and what it would do.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct AnswerMemory {
    pub(super) size_blocks: u64,
    pub(super) size_bytes: u64,
    /// Part of all reads that are answered from memory.
    pub(super) read_hit_ratio: f64,
    pub(super) access_us: f64,
    /// How much less the mean access takes than with flash alone, 0 to 1.
    pub(super) gain: f64,
    pub(super) pays: bool,
}

/// Why a cache does not pay.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub(super) enum AnswerObstacle {
    HardlyReads {
        read_share: f64,
    },
    HardlyReuses {
        read_hit_ratio_max: f64,
    },
    FlashNotFaster,
    LittleFaster {
        gain: f64,
    },
    WearsOut {
        life_years: f64,
        drive_writes_needed: f64,
    },
    CostsMore {
        loss_a_month: f64,
    },
}

/// What makes an advice less certain.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub(super) enum AnswerCaution {
    NoTime,
    Short { seconds: f64 },
    MostlyFirstAccesses { share: f64 },
    SmallSample { blocks: u64 },
}

impl Answer {
    /// The advice on a trace, from a cache of that policy.
    pub(super) fn new(
        (trace, format): (String, &'static str),
        policy: &Policy,
        observed: &Observed,
        scenario: &Scenario,
        (advice, memory): (Advice, Vec<MemoryOutlook>),
    ) -> Self {
        let workload = &observed.workload;
        let obstacles = match &advice.verdict {
            Verdict::Pays => Vec::new(),
            Verdict::DoesNotPay(obstacles) => obstacles.iter().copied().map(obstacle).collect(),
        };
        Self {
            trace,
            format,
            pays: obstacles.is_empty(),
            obstacles,
            cautions: advice.cautions.into_iter().map(caution).collect(),
            advised: advice.advised.as_ref().map(outlook),
            larger: advice.larger.iter().map(outlook).collect(),
            knee_blocks: advice.knee_blocks,
            read_hit_ratio_max: advice.reachable,
            sizes: advice.outlooks.iter().map(outlook).collect(),
            memory: memory.iter().map(in_front).collect(),
            reads: workload.reads,
            writes: workload.writes,
            footprint_blocks: workload.footprint_blocks,
            block_bytes: workload.block_bytes,
            duration_seconds: workload.seconds,
            assumed: Assumed {
                policy: policy.to_string(),
                simulated: observed.behaviour.flash_writes != FlashWrites::EveryMiss,
                simulated_rate: observed.simulated_rate,
                queues: observed.behaviour.times.is_some(),
                doubling_gain_min: limits::DOUBLING_GAIN_MIN,
                write_policy: match scenario.write_mode {
                    WriteMode::Around => "around",
                    WriteMode::Through => "through",
                    WriteMode::Back => "back",
                },
                flash_read_us: scenario.costs.flash_read_us,
                flash_write_us: scenario.costs.flash_write_us,
                origin_read_us: scenario.costs.origin_read_us,
                origin_write_us: scenario.costs.origin_write_us,
                write_amplification: scenario.write_amplification,
                years: scenario.years,
                drive_life_bytes: scenario.drive.map(|drive| drive.life_bytes()),
            },
        }
    }
}

fn in_front(memory: &MemoryOutlook) -> AnswerMemory {
    AnswerMemory {
        size_blocks: memory.blocks,
        size_bytes: memory.bytes,
        read_hit_ratio: memory.read_hit_ratio,
        access_us: memory.access_us,
        gain: memory.gain,
        pays: memory.pays(),
    }
}

fn outlook(outlook: &Outlook) -> AnswerOutlook {
    let day = outlook.a_day;
    AnswerOutlook {
        size_blocks: outlook.blocks,
        size_bytes: outlook.bytes,
        read_hit_ratio: outlook.read_hit_ratio,
        read_us: outlook.read_us,
        write_us: outlook.write_us,
        access_us: outlook.access_us,
        access_us_without: outlook.plain_us,
        origin_time_saved: outlook.origin_time_saved,
        flash_bytes: outlook.flash_bytes,
        flash_bytes_a_day: day.map(|day| day.flash_bytes),
        origin_reads_saved_a_day: day.map(|day| day.origin_reads_saved),
        origin_seconds_saved_a_day: day.map(|day| day.origin_seconds_saved),
        drive_writes_a_day: day.and_then(|day| day.drive_writes),
        drive_life_years: day.and_then(|day| day.life_years),
        gain_a_month: day.and_then(|day| day.gain_a_month),
    }
}

fn obstacle(obstacle: Obstacle) -> AnswerObstacle {
    match obstacle {
        Obstacle::HardlyReads { read_share } => AnswerObstacle::HardlyReads { read_share },
        Obstacle::HardlyReuses { reachable } => AnswerObstacle::HardlyReuses {
            read_hit_ratio_max: reachable,
        },
        Obstacle::FlashNotFaster => AnswerObstacle::FlashNotFaster,
        Obstacle::LittleFaster { gain } => AnswerObstacle::LittleFaster { gain },
        Obstacle::WearsOut {
            life_years,
            drive_writes_needed,
        } => AnswerObstacle::WearsOut {
            life_years,
            drive_writes_needed,
        },
        Obstacle::CostsMore { loss_a_month } => AnswerObstacle::CostsMore { loss_a_month },
    }
}

fn caution(caution: Caution) -> AnswerCaution {
    match caution {
        Caution::NoTime => AnswerCaution::NoTime,
        Caution::Short { seconds } => AnswerCaution::Short { seconds },
        Caution::MostlyFirstAccesses { share } => AnswerCaution::MostlyFirstAccesses { share },
        Caution::SmallSample { blocks } => AnswerCaution::SmallSample { blocks },
    }
}
