//! `FirepanIF` (Park, Lee and Hong, Applied Sciences 2020), tables 1 to 3 and the neighbours.
//!
//! Four VMs on one host and three on the other, each with fio's `randrw` of 80 % reads, four jobs of 32 requests,
//! zones 50/5:30/15:20/80 over 20 GB; LRU in sets of `EnhanceIO`, whose files lie in extents over a disk of 50 GB; writes
//! go around.
//!
//! *Calibrated*: each host's way to the origin takes 40,000 I/Os a second, by the 8,000 reads a second that a VM has
//! without a cache beside three others (with 2,000 writes); each flash takes 62,000, by the 15,500 that a VM has in the end
//! with 20 GB; a copy from flash to flash has 341 MB a second, by the 30 s for 10 GB.

use super::{Figure, Paper, PaperError, Standing, blocks, requests, seconds, time};
use crate::outcome::{Outcome, Sample};
use crate::run;
use crate::setup::{Arrival, Cache, Dirty, Pace, Requests, Setup, Vm, Writes};
use simulator::device::DeviceSettings;
use strategies::Strategy;
use units::number::real;
use units::{BLOCK_BYTES, Bytes};

/// By how much it is smaller than the paper's.
pub const SCALE: u32 = 128;
/// VMs on the host that the VM leaves, itself among them, and on the other one.
const HERE: usize = 4;
const THERE: usize = 3;
/// Seconds of an interval, and intervals.
const INTERVAL: u64 = 100;
const INTERVALS: u64 = 8;
/// Blocks of an extent of 128 MiB: `EnhanceIO`'s sets of 512 blocks that have one are as full.
const EXTENT_GB: f64 = 0.125;
/// The disk is so many times longer than what is used of it.
const SPREAD: f64 = 2.5;

/// One of the paper's methods, or ours.
struct Method {
    name: &'static str,
    strategy: Strategy,
    pace: Pace,
    cache: Cache,
}

fn methods() -> [Method; 6] {
    let sets = Cache::Sets {
        ways: blocks(EXTENT_GB, SCALE),
        spread: SPREAD,
    };
    let of = |name, strategy, pace| Method {
        name,
        strategy,
        pace,
        cache: sets,
    };
    let preload = Pace {
        window: 128,
        piece: 1,
        rests: false,
        rate: None,
        by_address: false,
    };
    let copy = Pace {
        piece: 32,
        window: 1024,
        rate: Some(Bytes::mib(341)),
        ..preload
    };
    [
        of("none", Strategy::None, preload),
        of("hotlist", Strategy::Hotlist, preload),
        of("copy", Strategy::Copy, copy),
        of("copy-filter", Strategy::CopyFilter, copy),
        of("live", Strategy::Live, Pace::HEARTH),
        Method {
            cache: Cache::Daemon,
            ..of("live, log", Strategy::Live, Pace::HEARTH)
        },
    ]
}

/// The paper's cache sizes, and for each the MB a second of its four methods in the first 400 and 800 s.
const SIZES: [(f64, [f64; 4], [f64; 4], f64); 3] = [
    (
        5.0,
        [43.62, 44.55, 46.23, 46.23],
        [45.64, 46.36, 47.17, 46.97],
        15.0,
    ),
    (
        10.0,
        [50.21, 52.69, 56.98, 58.58],
        [53.72, 57.48, 59.05, 60.16],
        30.0,
    ),
    (
        20.0,
        [48.75, 48.02, 56.61, 59.41],
        [54.86, 57.93, 61.89, 62.79],
        60.0,
    ),
];
/// Table 1: 10 GB, each 100 s.
const TABLE_1: [[f64; 8]; 4] = [
    [41.89, 49.58, 53.48, 55.88, 56.09, 57.28, 56.99, 58.57],
    [45.25, 51.16, 55.90, 58.46, 62.21, 61.66, 63.26, 61.91],
    [43.11, 61.69, 60.13, 62.98, 61.23, 61.04, 62.36, 59.89],
    [48.67, 61.88, 62.18, 61.59, 60.72, 60.42, 61.39, 64.47],
];
/// The size whose details the paper tells.
const DETAILED: f64 = 10.0;
/// How long Cachemior takes for it, in seconds.
const PRELOADED: f64 = 360.0;

fn setup(method: &Method, size: f64, seed: u64) -> Result<Setup, PaperError> {
    let device = |text: &str| text.parse::<DeviceSettings>();
    let data = blocks(20.0, SCALE);
    let vm = |number: usize| -> Result<Vm, PaperError> {
        let text = format!("zoned,zones=50/5:30/15:20/80,blocks={data},reads=0.8");
        Ok(Vm {
            requests: Requests::Generated(requests(&text, seed * 100 + number as u64)?),
            arrival: Arrival::Depth(128),
            blocks: data,
            cache_blocks: blocks(size, SCALE),
            // 1,600 s of 19,000 a second.
            warming: 1_600 * 19_000 / u64::from(SCALE),
            warmed_by: None,
            dirty: 0.0,
            is_there: number >= HERE,
        })
    };
    Ok(Setup {
        row: method.strategy.row(),
        dirty: Dirty::Flush,
        only_dirty: false,
        pace: method.pace,
        cache: method.cache,
        waits_for_fills: method.cache != Cache::Daemon,
        writes: Writes::Around,
        flash: device("read=80us,write=20us,iops=62000,bandwidth=2500MiB/s,parallel=unlimited")?,
        path: device("read=50us,write=50us,iops=40000,bandwidth=1180MiB/s,parallel=unlimited")?,
        origin: device("nvme")?,
        link: device("read=50us,iops=unlimited,bandwidth=1180MiB/s,parallel=unlimited")?,
        vms: (0..HERE + THERE).map(vm).collect::<Result<_, _>>()?,
        before: time(INTERVAL, SCALE),
        ahead: time(3, SCALE),
        pause: time(1, SCALE),
        after: time(INTERVAL * INTERVALS, SCALE),
        interval: time(INTERVAL, SCALE),
        stale_pause: time(1, SCALE * 5),
        seed,
    })
}

/// Megabytes a second that a VM read in some intervals.
fn rate(samples: &[Sample]) -> f64 {
    let reads: u64 = samples.iter().map(|sample| sample.reads).sum();
    let took = seconds(time(INTERVAL, SCALE), 1) * real(samples.len().max(1) as u64);
    real(reads * BLOCK_BYTES) / 1e6 / took
}

pub(super) fn figures(seed: u64) -> Result<Vec<Figure>, PaperError> {
    let mut figures = Vec::new();
    for (size, first, all, copied) in SIZES {
        for (at, method) in methods().iter().enumerate() {
            let outcome = run(&setup(method, size, seed)?)?;
            let samples = &outcome.vms[0].after.samples[..];
            let means = [(4, first), (8, all)];
            for (intervals, paper) in means {
                let what = format!("{size} GB, first {} s", intervals * 100);
                let ours = rate(&samples[..samples.len().min(intervals)]);
                let figure = Figure::new(Paper::FirepanIf, what, method.name, "MB/s", ours);
                figures.push(beside(figure, paper.get(at).copied()));
            }
            figures.extend(times(&outcome, method, size, copied));
            if size == DETAILED {
                figures.extend(table_1(samples, method, TABLE_1.get(at)));
                figures.extend(neighbours(&outcome, method));
            }
        }
    }
    Ok(figures)
}

fn beside(figure: Figure, paper: Option<f64>) -> Figure {
    match paper {
        Some(paper) => figure.beside(paper, Standing::Predicted),
        None => figure,
    }
}

/// How long the cache took to come.
fn times(outcome: &Outcome, method: &Method, size: f64, paper: f64) -> Vec<Figure> {
    let what = |what: &str| format!("{size} GB, {what}");
    let new = |what, ours| Figure::new(Paper::FirepanIf, what, method.name, "s", ours);
    let paused = seconds(outcome.paused, SCALE);
    let copied = outcome.copied.map(|copied| seconds(copied, SCALE));
    let standing = if size == DETAILED {
        Standing::Calibrated
    } else {
        Standing::Predicted
    };
    let mut figures = Vec::new();
    match (method.strategy, copied) {
        (Strategy::None, _) => {}
        (Strategy::Copy, _) => {
            figures.push(new(what("VM stopped"), paused).beside(paper, standing));
        }
        (Strategy::CopyFilter, Some(copied)) => {
            figures.push(new(what("cache there"), copied).beside(paper, standing));
        }
        (Strategy::Hotlist, Some(copied)) => {
            let told = (size == DETAILED).then_some(PRELOADED);
            figures.push(beside(new(what("cache there"), copied), told));
        }
        (_, Some(copied)) => {
            figures.push(new(what("cache there"), copied));
            figures.push(new(what("VM stopped"), paused));
        }
        (_, None) => {}
    }
    figures
}

/// Megabytes a second in each 100 s.
fn table_1(samples: &[Sample], method: &Method, paper: Option<&[f64; 8]>) -> Vec<Figure> {
    let numbered = samples.iter().take(8).enumerate();
    let figure = |(at, sample): (usize, &Sample)| {
        let what = format!("10 GB, from {} s", 100 * at);
        let ours = rate(std::slice::from_ref(sample));
        let figure = Figure::new(Paper::FirepanIf, what, method.name, "MB/s", ours);
        beside(figure, paper.map(|row| row[at]))
    };
    numbered.map(figure).collect()
}

/// Reads a second of the neighbours, and of the VM before.
fn neighbours(outcome: &Outcome, method: &Method) -> Vec<Figure> {
    let (here, there) = (HERE, THERE);
    let took = seconds(time(INTERVAL, SCALE), 1);
    let iops = |vms: &[crate::outcome::VmOutcome], is_after: bool| {
        let reads = vms.iter().map(|vm| {
            let intervals = if is_after { INTERVALS } else { 1 };
            let span = if is_after { &vm.after } else { &vm.before };
            real(span.total.reads) / real(intervals)
        });
        reads.sum::<f64>() / took / real(vms.len().max(1) as u64)
    };
    let vms = &outcome.vms;
    let rows = [
        (
            "neighbours it leaves, before",
            iops(&vms[1..here], false),
            15_000.0,
        ),
        (
            "neighbours it leaves, after",
            iops(&vms[1..here], true),
            20_000.0,
        ),
        (
            "neighbours it comes to, before",
            iops(&vms[here..here + there], false),
            20_000.0,
        ),
        (
            "neighbours it comes to, after",
            iops(&vms[here..here + there], true),
            15_000.0,
        ),
    ];
    let figure = |(what, ours, paper): (&str, f64, f64)| {
        let what = format!("10 GB, {what}");
        let figure = Figure::new(Paper::FirepanIf, what, method.name, "reads/s", ours);
        match method.strategy {
            Strategy::Live => figure,
            _ => figure.beside(paper, Standing::Predicted),
        }
    };
    let mut figures: Vec<Figure> = rows.into_iter().map(figure).collect();
    let ratio = vms[0].before.hit_ratio() * 100.0;
    let what = "10 GB, read hits before".to_owned();
    let figure = Figure::new(Paper::FirepanIf, what, method.name, "%", ratio);
    figures.push(match method.strategy {
        Strategy::Live => figure,
        _ => figure.beside(60.0, Standing::Predicted),
    });
    figures
}
