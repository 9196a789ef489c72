//! `CloudCache` (Arteaga et al., FAST 2016), section 5: the migrating VM, the flush that it avoids, the neighbours.
//!
//! A day of Moodle (32 GB cached, 15 % of it dirty; mostly reads) and of a web server (1.2 GB, 85 %; mostly writes) moves
//! between two hosts with a SATA drive each, over a gigabit; the origin is one disk behind a gigabit. The traces are not
//! published: generated requests stand for them.
//!
//! *Calibrated*: the origin takes 99.4 MB a second of writes in a row, by Moodle's 54 s; Moodle asks for 108 blocks a
//! second, by what on-demand saves it, 33 %.

use super::{Figure, Paper, PaperError, Standing, blocks, requests, seconds, time};
use crate::outcome::Outcome;
use crate::run;
use crate::setup::{Arrival, Cache, Dirty, Pace, Requests, Setup, Vm, Writes};
use simulator::device::DeviceSettings;
use strategies::{Place, Row, Strategy};
use units::number::real;
use units::{Bytes, Duration};

/// By how much it is smaller than the paper's.
pub const SCALE: u32 = 32;
/// Seconds from when the VM stops.
const AFTER: u64 = 1_800;
/// Seconds in which its memory is copied.
const AHEAD: u64 = 60;
/// Seconds in which neighbours are looked at: the cache is being copied all the time.
const NEIGHBOURS: u64 = 300;
/// The RWS and the WS of Moodle, in GB.
const RWS: f64 = 32.0;
const WS: f64 = 42.0;

/// One of the paper's workloads.
#[derive(Clone, Copy)]
struct Workload {
    name: &'static str,
    /// Cached, in GB.
    cached: f64,
    dirty: f64,
    requests: &'static str,
    /// So many times as much is asked for as is cached.
    places: f64,
    /// Seconds of a naive flush.
    flush: f64,
    /// Part of the 90th percentile that on-demand, with dirty data and with the RWS behind it saves.
    saved: [Option<f64>; 3],
}

const MOODLE: Workload = Workload {
    name: "Moodle",
    cached: RWS,
    dirty: 0.15,
    requests: "zoned,zones=88/76:12/24,reads=0.9,rate=108",
    places: WS / RWS,
    flush: 54.0,
    saved: [Some(33.0), Some(35.0), Some(64.0)],
};
const WEBSERVER: Workload = Workload {
    name: "Webserver",
    cached: 1.18,
    dirty: 0.85,
    requests: "uniform,reads=0.3,rate=110",
    places: 1.0,
    flush: 12.0,
    saved: [Some(91.1), None, Some(92.6)],
};

/// One of the paper's methods, or ours.
struct Method {
    name: &'static str,
    row: Row,
    dirty: Dirty,
    only_dirty: bool,
    pace: Pace,
}

/// As fast as the link allows.
const COPY: Pace = Pace {
    window: 64,
    piece: 1,
    rests: false,
    rate: None,
    by_address: false,
};

fn methods() -> [Method; 6] {
    // Clean blocks are read from the origin until they have been copied.
    let on_demand = Row {
        reads_from: Place::Origin,
        ..Strategy::OnDemand.row()
    };
    let without = Row {
        behind: None,
        ..on_demand
    };
    let of = |name, row, dirty, only_dirty| Method {
        name,
        row,
        dirty,
        only_dirty,
        pace: COPY,
    };
    let live = |name, dirty| Method {
        pace: Pace::HEARTH,
        ..of(name, Strategy::Live.row(), dirty, false)
    };
    [
        of("none", Strategy::None.row(), Dirty::Flush, false),
        of("on-demand", without, Dirty::Addresses, false),
        of("+ dirty", on_demand, Dirty::Addresses, true),
        of("+ RWS", on_demand, Dirty::Addresses, false),
        live("live, drain", Dirty::Drain),
        live("live, ship", Dirty::Ship),
    ]
}

fn vm(workload: &Workload, seed: u64, cached: f64) -> Result<Vm, PaperError> {
    let all = blocks(cached * workload.places, SCALE);
    let cached = blocks(cached, SCALE);
    let text = format!("{},blocks={all}", workload.requests);
    let warmed_by = format!("loop,blocks={cached},reads=1");
    Ok(Vm {
        requests: Requests::Generated(requests(&text, seed)?),
        arrival: Arrival::Timed,
        blocks: all,
        // All of it is cached.
        cache_blocks: all + 512,
        warming: u64::from(cached),
        warmed_by: Some(requests(&warmed_by, seed)?),
        dirty: workload.dirty,
        is_there: false,
    })
}

fn setup(method: &Method, vms: Vec<Vm>, seed: u64) -> Result<Setup, PaperError> {
    let device = |text: &str| text.parse::<DeviceSettings>();
    let wire = "read=100us,write=100us,iops=unlimited,bandwidth=117000000B/s,parallel=unlimited";
    Ok(Setup {
        row: method.row,
        dirty: method.dirty,
        only_dirty: method.only_dirty,
        pace: method.pace,
        cache: Cache::Sets {
            ways: 512,
            spread: 0.0,
        },
        waits_for_fills: false,
        writes: Writes::Back,
        flash: DeviceSettings::flash_default().with("sata")?,
        path: device(wire)?,
        origin: device("read=8ms,write=1us,iops=unlimited,bandwidth=99400000B/s,parallel=1")?,
        link: device(wire)?,
        vms,
        before: time(120, SCALE),
        ahead: time(AHEAD, SCALE),
        pause: Duration::ZERO,
        after: time(AFTER, SCALE),
        interval: time(30, SCALE),
        stale_pause: time(1, SCALE * 5),
        seed,
    })
}

pub(super) fn figures(seed: u64) -> Result<Vec<Figure>, PaperError> {
    let mut figures = Vec::new();
    for workload in [MOODLE, WEBSERVER] {
        let mut none = None;
        for (at, method) in methods().iter().enumerate() {
            let vms = vec![vm(&workload, seed, workload.cached)?];
            let outcome = run(&setup(method, vms, seed)?)?;
            let p90 = real(outcome.vms[0].after.quantile(0.9).as_nanos()) / 1e6;
            let none = *none.get_or_insert(p90);
            figures.extend(latency(&workload, method, p90, none, at));
            figures.extend(stopped(&workload, method, &outcome));
        }
    }
    figures.extend(copying(seed)?);
    figures.extend(neighbours(seed)?);
    Ok(figures)
}

fn new(what: String, method: &'static str, unit: &'static str, ours: f64) -> Figure {
    Figure::new(Paper::CloudCache, what, method, unit, ours)
}

fn latency(workload: &Workload, method: &Method, p90: f64, none: f64, at: usize) -> Vec<Figure> {
    let what = format!("{}, 90 % of requests", workload.name);
    let mut figures = vec![new(what, method.name, "ms", p90)];
    if at > 0 {
        let what = format!("{}, saved of that", workload.name);
        let figure = new(what, method.name, "%", (1.0 - p90 / none) * 100.0);
        let paper = workload.saved.get(at - 1).copied().flatten();
        let is_first = at == 1 && workload.name == MOODLE.name;
        let standing = if is_first {
            Standing::Calibrated
        } else {
            Standing::Predicted
        };
        figures.push(match paper {
            Some(paper) => figure.beside(paper, standing),
            None => figure,
        });
    }
    figures
}

fn stopped(workload: &Workload, method: &Method, outcome: &Outcome) -> Option<Figure> {
    let what = format!("{}, VM stopped", workload.name);
    let figure = new(what, method.name, "s", seconds(outcome.paused, SCALE));
    match method.dirty {
        Dirty::Flush if workload.name == MOODLE.name => {
            Some(figure.beside(workload.flush, Standing::Calibrated))
        }
        Dirty::Flush => Some(figure.beside(workload.flush, Standing::Predicted)),
        Dirty::Drain | Dirty::Ship => Some(figure),
        Dirty::Addresses => None,
    }
}

/// How long the RWS and the WS take.
fn copying(seed: u64) -> Result<Vec<Figure>, PaperError> {
    let mut figures = Vec::new();
    let sizes = [
        ("RWS of 32 GB there", RWS, 180.0, Standing::NotPossible),
        ("WS of 42 GB there", WS, 360.0, Standing::Predicted),
    ];
    for (what, size, paper, standing) in sizes {
        let method = &methods()[3];
        let vms = vec![vm(&MOODLE, seed, size)?];
        let outcome = run(&setup(method, vms, seed)?)?;
        if let Some(copied) = outcome.copied {
            let figure = new(what.to_owned(), method.name, "s", seconds(copied, SCALE));
            figures.push(figure.beside(paper, standing));
        }
    }
    Ok(figures)
}

/// What co-hosted VMs notice at a rate.
fn neighbours(seed: u64) -> Result<Vec<Figure>, PaperError> {
    let mut figures = Vec::new();
    let [.., rws, drain, _] = methods();
    let rates = [
        (&rws, Some(40), "at 40 MB/s", Some(16.0)),
        (&rws, Some(100), "at 100 MB/s", Some(21.0)),
        (&drain, None, "at half of the time", None),
    ];
    for (method, rate, words, paper) in rates {
        let neighbour = |number: u64| {
            let other = vm(&WEBSERVER, seed + number, WEBSERVER.cached);
            other.map(|other| Vm {
                is_there: number == 2,
                ..other
            })
        };
        let vms = vec![vm(&MOODLE, seed, RWS)?, neighbour(1)?, neighbour(2)?];
        let mut setup = setup(method, vms, seed)?;
        if let Some(rate) = rate {
            setup.pace.rate = Some(Bytes::new(rate * 1_000_000));
        }
        setup.after = time(NEIGHBOURS, SCALE);
        let outcome = run(&setup)?;
        for (vm, host) in [(1, "source"), (2, "destination")] {
            let vm = &outcome.vms[vm];
            let before = real(vm.before.quantile(0.9).as_nanos());
            let more = (real(vm.after.quantile(0.9).as_nanos()) / before - 1.0) * 100.0;
            let what = format!("neighbour at the {host}, {words}: p90 up by");
            let figure = new(what, method.name, "%", more);
            // The paper says: below.
            figures.push(match paper {
                Some(paper) => figure.beside(paper, Standing::Predicted),
                None => figure,
            });
        }
    }
    Ok(figures)
}
