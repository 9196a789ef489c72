//! Successor (Lu et al., INFOCOM 2016): the first hour of three production VMs behind a move, and Bonfire's warm-up.
//!
//! The caches are in the hosts' memory; the origin is a disk behind a gigabit. The traces are not published: of each VM
//! the paper's table gives requests a second, the working set, and the part of reads that return, of which requests are
//! generated. What returns is drawn evenly from the working set, the rest from four times as much.
//!
//! *Calibrated*: preloading reads 102 blocks in a row, by the 327 s of the first VM.

use super::{Figure, Paper, PaperError, Standing, blocks, requests, seconds, time};
use crate::run;
use crate::setup::{Arrival, Cache, Dirty, Pace, Requests, Setup, Vm, Writes};
use simulator::device::DeviceSettings;
use strategies::Strategy;
use units::Duration;
use units::number::real;

/// By how much it is smaller than the paper's.
pub const SCALE: u32 = 16;
/// Seconds of the first hour.
const HOUR: u64 = 3_600;
/// Seconds in which a disk or a memory is copied before the VM comes.
const AHEAD: u64 = 1_200;

/// The disk is so many working sets long.
const PLACES: u32 = 5;

/// A VM of the paper.
struct Production {
    name: &'static str,
    reads: f64,
    writes: f64,
    /// GB.
    working_set: f64,
    /// Percent.
    returns: f64,
    faster: f64,
    hits_lost: f64,
    bonfire: f64,
}

const VMS: [Production; 3] = [
    Production {
        name: "vps26107",
        reads: 17.7,
        writes: 18.4,
        working_set: 9.45,
        returns: 81.0,
        faster: 5.4,
        hits_lost: 91.0,
        bonfire: 327.0,
    },
    Production {
        name: "vps26215",
        reads: 3.8,
        writes: 17.1,
        working_set: 12.12,
        returns: 41.0,
        faster: 3.7,
        hits_lost: 77.0,
        bonfire: 311.0,
    },
    Production {
        name: "vps26535",
        reads: 8.0,
        writes: 18.5,
        working_set: 20.8,
        returns: 61.0,
        faster: 7.5,
        hits_lost: 96.0,
        bonfire: 861.0,
    },
];

const PRELOAD: Pace = Pace {
    window: 3_264,
    piece: 102,
    rests: false,
    rate: None,
    by_address: true,
};

fn methods() -> [(&'static str, Strategy, Pace); 5] {
    [
        ("natural", Strategy::None, PRELOAD),
        ("Bonfire", Strategy::Hotlist, PRELOAD),
        ("Successor", Strategy::Proactive, PRELOAD),
        ("piggyback", Strategy::Piggyback, PRELOAD),
        ("live", Strategy::Live, Pace::HEARTH),
    ]
}

fn setup(vm: &Production, strategy: Strategy, pace: Pace, seed: u64) -> Result<Setup, PaperError> {
    let device = |text: &str| text.parse::<DeviceSettings>();
    let working_set = blocks(vm.working_set, SCALE);
    let all = working_set * PLACES;
    let (returns, rate) = (vm.returns, vm.reads + vm.writes);
    let rest = 100.0 - returns;
    let reads = vm.reads / rate;
    let text = format!("zoned,zones={returns}/20:{rest}/80,blocks={all},reads={reads},rate={rate}");
    let warmed_by = format!("loop,blocks={working_set},reads=1");
    let wire = "read=100us,write=100us,iops=unlimited,bandwidth=117000000B/s,parallel=unlimited";
    let vm = Vm {
        requests: Requests::Generated(requests(&text, seed)?),
        arrival: Arrival::Timed,
        blocks: all,
        cache_blocks: working_set + 512 * PLACES,
        warming: u64::from(working_set),
        warmed_by: Some(requests(&warmed_by, seed)?),
        dirty: 0.0,
        is_there: false,
    };
    Ok(Setup {
        row: strategy.row(),
        dirty: Dirty::Flush,
        only_dirty: false,
        pace,
        cache: Cache::Sets {
            ways: 512,
            spread: 0.0,
        },
        waits_for_fills: false,
        writes: Writes::Through,
        flash: device(
            "read=20us,write=20us,iops=unlimited,bandwidth=4000MiB/s,parallel=unlimited",
        )?,
        path: device(wire)?,
        // The disk has a write cache.
        origin: DeviceSettings::origin_default().with("disk,write=500us")?,
        link: device(wire)?,
        vms: vec![vm],
        before: time(600, SCALE),
        ahead: time(AHEAD, SCALE),
        pause: Duration::from_millis(10),
        after: time(HOUR, SCALE),
        interval: time(60, SCALE),
        stale_pause: time(1, SCALE * 5),
        seed,
    })
}

pub(super) fn figures(seed: u64) -> Result<Vec<Figure>, PaperError> {
    let mut figures = Vec::new();
    for (number, vm) in VMS.iter().enumerate() {
        let new = |what: &str, method, unit, ours| {
            let what = format!("{}, {what}", vm.name);
            Figure::new(Paper::Successor, what, method, unit, ours)
        };
        let mut natural = (0.0, 0.0);
        for (method, strategy, pace) in methods() {
            let outcome = run(&setup(vm, strategy, pace, seed)?)?;
            let spans = &outcome.vms[0];
            let mean = real(spans.after.read_mean().as_nanos()) / 1e6;
            let hits = spans.after.hit_ratio() * 100.0;
            if strategy == Strategy::None {
                natural = (mean, hits);
            }
            figures.push(new("mean of reads, first hour", method, "ms", mean));
            let faster = new("times as fast as natural", method, "x", natural.0 / mean);
            match strategy {
                Strategy::None => {}
                Strategy::Proactive => {
                    figures.push(faster.beside(vm.faster, Standing::Predicted));
                    let lost = (1.0 - natural.1 / hits.max(1e-9)) * 100.0;
                    let lost = new("hits that natural loses", "natural", "%", lost);
                    figures.push(lost.beside(vm.hits_lost, Standing::Predicted));
                }
                _ => figures.push(faster),
            }
            if let Some(copied) = outcome.copied {
                let took = new(
                    "cache warm behind the move",
                    method,
                    "s",
                    seconds(copied, SCALE),
                );
                figures.push(match (strategy, number) {
                    (Strategy::Hotlist, 0) => took.beside(vm.bonfire, Standing::Calibrated),
                    (Strategy::Hotlist, _) => took.beside(vm.bonfire, Standing::Predicted),
                    _ => took,
                });
            }
        }
    }
    Ok(figures)
}
