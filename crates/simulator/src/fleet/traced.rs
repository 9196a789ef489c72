//! Demand of real traces: each VM is dealt one, shifted in time and scaled in size.
//!
//! ```text
//!   trace ─► series of reuse working sets, reads, curve      once, by the crate `curves`
//!              │ shift: begins at any window, and begins anew behind its end
//!              │ scale: so many copies side by side, so that the mean is the one that the seed draws for the VM
//!              ▼
//!            VM: RWSS and reads a second by window, 16 points: 1.5 KiB
//! ```
//!
//! A trace's window counts as one of the fleet's, however long it is. A scale of k is k copies of the traced VM, whose
//! working set, reads and curve are k times as large. The means are those of the generated fleet of the same seed, and so is
//! the mean load of the fleet. No VM wants more than the flash of a host: what is cut from its peaks, all others have more.

use super::demand::{self, Demand};
use super::settings::{CAPACITY, WINDOW_S};
use super::shape::Shape;
use super::trace_error::{TRACE_WINDOWS_MIN, TraceDemandError};
use curves::{DemandSeries, DemandWindow};
use serde::Serialize;
use std::sync::Arc;
use units::number::{count_near, real};
use units::{Bytes, Duration, Prng};

/// How often the scale of all VMs is corrected for what is cut from peaks, at most.
const CORRECTIONS_MAX: usize = 50;

/// The demand of one trace.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceDemand {
    name: String,
    series: DemandSeries,
    /// Mean of `RWSS_1` over windows, in blocks; never zero.
    rwss_mean: f64,
}

/// What a trace says of a VM, for people.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TraceFacts {
    /// The trace as it was given.
    pub trace: String,
    /// Its whole windows.
    pub windows: usize,
    /// Mean of the reuse working set over windows, in bytes.
    pub rwss_mean_bytes: u64,
    /// The largest reuse working set by the mean one.
    pub peak: f64,
    /// The working set by the reuse working set, over all windows.
    pub wss_by_rwss: f64,
    /// Part of the reads that a cache of the reuse working set answers; none if nothing is read.
    pub hits: Option<f64>,
}

/// Traces that VMs are dealt.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceDemands(Arc<[TraceDemand]>);

impl TraceDemand {
    /// The demand of the trace of this name.
    ///
    /// # Errors
    /// If it is too short, tells no times, or has nothing worth caching.
    pub fn new(name: impl Into<String>, series: DemandSeries) -> Result<Self, TraceDemandError> {
        let trace = name.into();
        let (windows, window, span) = (series.windows.len(), series.window, series.span);
        if span == Duration::ZERO {
            return Err(TraceDemandError::NoTimes(trace));
        }
        if windows < TRACE_WINDOWS_MIN {
            return Err(TraceDemandError::TooShort {
                trace,
                windows,
                window,
                span,
            });
        }
        let rwss_mean = sum(&series, |window| window.rwss_blocks) / real(windows as u64);
        if rwss_mean <= 0.0 {
            return Err(TraceDemandError::NoReuse { trace, window });
        }
        Ok(Self {
            name: trace,
            series,
            rwss_mean,
        })
    }

    /// What it says of a VM.
    pub fn facts(&self) -> TraceFacts {
        let windows = &self.series.windows;
        let peak = windows.iter().map(|window| window.rwss_blocks).max();
        TraceFacts {
            trace: self.name.clone(),
            windows: windows.len(),
            rwss_mean_bytes: count_near(self.rwss_mean * real(self.series.block.get())),
            peak: real(peak.unwrap_or(0)) / self.rwss_mean,
            wss_by_rwss: self.wss_by_rwss(),
            hits: self.reads().then(|| self.shape().hits(1.0)),
        }
    }

    pub(super) fn windows(&self) -> usize {
        self.series.windows.len()
    }

    /// Whether anything is read.
    pub(super) fn reads(&self) -> bool {
        self.series.windows.iter().any(|window| window.reads > 0)
    }

    /// The reuse working set of a window by the mean one. A series begins anew behind its end.
    pub(super) fn part(&self, window: usize) -> f64 {
        real(self.window(window).rwss_blocks) / self.rwss_mean
    }

    /// The working set by the reuse working set.
    pub(super) fn wss_by_rwss(&self) -> f64 {
        let wss = sum(&self.series, |window| window.wss_blocks);
        wss / sum(&self.series, |window| window.rwss_blocks)
    }

    /// Of the hits that a cache of the working set has within windows, the part that is left to one that lets a block in
    /// when it is used again: the first reuse misses.
    pub(super) fn reused_again(&self) -> f64 {
        let accesses = sum(&self.series, |window| window.accesses);
        let hits = accesses - sum(&self.series, |window| window.wss_blocks);
        let again = hits - sum(&self.series, |window| window.rwss_blocks);
        again / hits
    }

    /// The curve by parts of the reuse working set.
    pub(super) fn shape(&self) -> Shape {
        self.shape_by(|window| window.rwss_blocks)
    }

    /// The curve by parts of the working set.
    pub(super) fn shape_by_wss(&self) -> Shape {
        self.shape_by(|window| window.wss_blocks)
    }

    /// The curve of the whole trace by parts of the mean of `size`. A window counts by its accesses, as it does in the
    /// curve.
    fn shape_by(&self, size: fn(&DemandWindow) -> u64) -> Shape {
        let weighed = self.series.windows.iter();
        let weighed = weighed.map(|window| real(window.accesses) * real(size(window)));
        let mean = weighed.sum::<f64>() / sum(&self.series, |window| window.accesses);
        Shape::of(mean, |blocks| self.series.reads.miss_ratio(blocks))
    }

    fn window(&self, window: usize) -> &DemandWindow {
        &self.series.windows[window % self.windows()]
    }
}

fn sum(series: &DemandSeries, of: fn(&DemandWindow) -> u64) -> f64 {
    series.windows.iter().map(|window| real(of(window))).sum()
}

impl TraceDemands {
    /// These.
    ///
    /// # Errors
    /// If there is none, or none of them reads.
    pub fn new(traces: Vec<TraceDemand>) -> Result<Self, TraceDemandError> {
        if traces.is_empty() {
            return Err(TraceDemandError::NoTrace);
        }
        if !traces.iter().any(TraceDemand::reads) {
            return Err(TraceDemandError::NothingRead);
        }
        Ok(Self(traces.into()))
    }

    /// What each says of a VM.
    pub fn facts(&self) -> Vec<TraceFacts> {
        self.0.iter().map(TraceDemand::facts).collect()
    }

    /// Those that read.
    pub(super) fn reading(&self) -> Vec<&TraceDemand> {
        self.0.iter().filter(|trace| trace.reads()).collect()
    }

    /// A VM for each of these dice, of hosts with so many, for so many windows.
    pub(super) fn deal(
        &self,
        vms: usize,
        windows: usize,
        dice: impl Iterator<Item = Prng>,
    ) -> Vec<Demand> {
        let shapes: Vec<Shape> = self.0.iter().map(TraceDemand::shape).collect();
        let dealt: Vec<Dealt> = dice
            .map(|mut dice| Dealt::draw(self, vms, &mut dice))
            .collect();
        let scale = scale(&dealt, windows);
        let demand = |one: &Dealt| one.demand(shapes[one.place], scale, windows);
        dealt.iter().map(demand).collect()
    }
}

/// What a VM has drawn.
struct Dealt<'a> {
    trace: &'a TraceDemand,
    /// The trace's place.
    place: usize,
    shift: usize,
    /// What it needs on average, as a part of a host's flash.
    mean: f64,
}

impl<'a> Dealt<'a> {
    fn draw(traces: &'a TraceDemands, vms: usize, dice: &mut Prng) -> Self {
        // The first draw, as in a generated fleet: a seed's VMs are as large in both.
        let mean = demand::mean(vms, dice);
        let place = below(traces.0.len(), dice);
        let trace = &traces.0[place];
        Self {
            trace,
            place,
            shift: below(trace.windows(), dice),
            mean,
        }
    }

    /// What it needs in a window, as a part of a host's flash.
    fn part(&self, scale: f64, window: usize) -> f64 {
        (scale * self.mean * self.trace.part(self.shift + window)).min(1.0)
    }

    fn demand(&self, shape: Shape, scale: f64, windows: usize) -> Demand {
        let bytes = |window| count_near(self.part(scale, window) * real(CAPACITY.get()));
        let mean_bytes = self.trace.rwss_mean * real(self.trace.series.block.get());
        let copies = scale * self.mean * real(CAPACITY.get()) / mean_bytes;
        let reads = |window| {
            let reads = self.trace.window(self.shift + window).reads;
            (copies * real(reads) / real(WINDOW_S)).min(placement::limits::READS_PER_SECOND_MAX)
        };
        Demand {
            series: (0..windows)
                .map(|window| Bytes::new(bytes(window)))
                .collect(),
            reads: (0..windows).map(reads).collect(),
            shape,
        }
    }
}

/// A place in something of this length.
pub(super) fn below(bound: usize, dice: &mut Prng) -> usize {
    usize::try_from(dice.below(bound as u64)).expect("below a length")
}

/// By what all VMs are scaled so that over these windows they need together what their means say. Found step by step,
/// since what is cut from peaks has to be made up for.
fn scale(dealt: &[Dealt], windows: usize) -> f64 {
    let needed = |scale| {
        let of_vm =
            |one: &Dealt| -> f64 { (0..windows).map(|window| one.part(scale, window)).sum() };
        dealt.iter().map(of_vm).sum::<f64>() / real(windows as u64)
    };
    let wanted: f64 = dealt.iter().map(|one| one.mean).sum();
    let (mut scale, mut found) = (1.0, needed(1.0));
    for _ in 0..CORRECTIONS_MAX {
        // Nobody may need anything in these windows.
        if found <= 0.0 || (found / wanted - 1.0).abs() < 1e-3 {
            break;
        }
        let next = scale * wanted / found;
        let before = std::mem::replace(&mut found, needed(next));
        // All that need something may have the flash of a host by now.
        if (found / before - 1.0).abs() < 1e-6 {
            break;
        }
        scale = next;
    }
    scale
}

/// Small traces for tests.
#[cfg(test)]
pub(super) mod testkit {
    use super::*;
    use curves::{DemandSettings, demand_series};
    use trace::Options;

    pub(in crate::fleet) fn series(text: &str, window_s: u64) -> DemandSeries {
        let mut opened = trace::open(text.as_ref(), &Options::default()).unwrap();
        let block = Bytes::new(units::BLOCK_BYTES);
        let settings = DemandSettings::new(Duration::from_secs(window_s), block).unwrap();
        demand_series(&mut *opened.reader, &settings, &mut |_| {}).unwrap()
    }

    /// A loop over 50 blocks with ten reads a second, for 100 s; and a skewed one whose rate has a day and a night of 60 s.
    pub(in crate::fleet) const LOOP: &str =
        "gen:loop,requests=1000,blocks=50,reads=1,rate=10,arrival=fixed";
    const SWING: &str = "gen:diurnal,requests=20000,blocks=3000,rate=100,period=60s,seed=3";

    pub(in crate::fleet) fn traces() -> TraceDemands {
        let demand = |text: &str| TraceDemand::new(text, series(text, 10)).unwrap();
        TraceDemands::new(vec![demand(LOOP), demand(SWING)]).unwrap()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::settings::{Demanded, Settings};
    use crate::fleet::{Faults, Rule};
    use testkit::{LOOP, series, traces};

    fn fleet(seed: u64) -> Settings {
        Settings {
            hosts: 30,
            windows: 40,
            faults: Faults::NONE,
            demand: Demanded::Traces(traces()),
            ..Settings::new(Rule::None, seed)
        }
    }

    #[test]
    fn a_vm_is_its_trace_shifted_and_as_many_copies_as_its_mean_takes() {
        let traces = TraceDemands::new(vec![TraceDemand::new("loop", series(LOOP, 10)).unwrap()]);
        let vms = traces
            .unwrap()
            .deal(20, 9, [Prng::new(1), Prng::new(2)].into_iter());
        for vm in vms {
            // Each window of the loop needs its 50 blocks and reads 100.
            let copies = real(vm.rwss(0).get()) / (50.0 * 4096.0);
            assert!(vm.series.iter().all(|rwss| *rwss == vm.rwss(0)));
            let reads = copies * 100.0 / real(WINDOW_S);
            assert!((vm.reads_per_second(3) / reads - 1.0).abs() < 1e-6);
            // All of the loop hits but its first round; a share that lacks more than the step between two points hits
            // nothing.
            let half = Bytes::new(vm.rwss(0).get() / 2);
            assert!(vm.hits(0, half) < 1e-9);
            assert!((vm.hits(0, vm.rwss(0)) - 0.95).abs() < 1e-9);
        }
        // Of two accesses of each block in a window the second one hits, and is the first reuse.
        let looped = TraceDemand::new("loop", series(LOOP, 10)).unwrap();
        assert!(looped.reused_again().abs() < 1e-9);
        let twice = TraceDemand::new("loop", series(LOOP, 15)).unwrap();
        assert!((twice.reused_again() - 0.5).abs() < 1e-9);
    }

    #[test]
    fn the_fleet_needs_what_a_generated_one_of_the_seed_needs() {
        let needed = |settings: &Settings| -> u64 {
            let vms = demand::of_fleet(settings);
            vms.iter()
                .flat_map(|vm| &vm.series)
                .map(|rwss| rwss.get())
                .sum()
        };
        let traced = fleet(4);
        let generated = Settings {
            demand: Demanded::Generated,
            ..traced.clone()
        };
        let ratio = real(needed(&traced)) / real(needed(&generated));
        assert!((ratio - 1.0).abs() < 0.02, "{ratio}");
    }

    #[test]
    fn a_seed_deals_the_traces() {
        let deal = |seed| -> Vec<Vec<Bytes>> {
            let vms = demand::of_fleet(&fleet(seed)).into_iter();
            vms.map(|vm| vm.series).collect()
        };
        assert_eq!(deal(1), deal(1));
        assert_ne!(deal(1), deal(2));
        // Both are dealt, and not at one time: the loop is steady, the other one is not.
        let vms = deal(1);
        let steady = vms
            .iter()
            .filter(|vm| vm.iter().all(|rwss| *rwss == vm[0]))
            .count();
        assert!((200..400).contains(&steady), "{steady} of 600");
        let peaks = vms.iter().map(|vm| (0..6).max_by_key(|window| vm[*window]));
        let peaks: std::collections::BTreeSet<_> = peaks.collect();
        assert!(peaks.len() > 3, "{peaks:?}");
    }

    #[test]
    fn what_is_cut_from_a_peak_is_made_up_for() {
        let mut spike = series(LOOP, 10);
        for window in &mut spike.windows[1..] {
            window.rwss_blocks = 1;
        }
        spike.windows[0].rwss_blocks = 10_000;
        let spike = TraceDemands::new(vec![TraceDemand::new("spike", spike).unwrap()]).unwrap();
        let dealt = Dealt {
            trace: &spike.0[0],
            place: 0,
            shift: 0,
            mean: 0.2,
        };
        let dealt = [dealt];
        let scale = scale(&dealt, 9);
        let parts: Vec<f64> = (0..9).map(|window| dealt[0].part(scale, window)).collect();
        assert!((parts[0] - 1.0).abs() < 1e-9, "{parts:?}");
        assert!(
            (parts.iter().sum::<f64>() / 9.0 - 0.2).abs() < 1e-3,
            "{parts:?}"
        );
    }

    #[test]
    fn what_no_vm_can_be_made_of_is_refused_with_what_to_do() {
        let refused = |text: &str, window_s| {
            let error = TraceDemand::new("a.csv", series(text, window_s)).unwrap_err();
            error.to_string()
        };
        let short = refused(LOOP, 30);
        assert!(short.contains("3 whole windows of 30s in 99s"), "{short}");
        assert!(
            short.ends_with("or windows of demand of at most 16s"),
            "{short}"
        );
        let once = refused(
            "gen:sequential,requests=1000,blocks=5000,rate=10,arrival=fixed",
            10,
        );
        assert!(once.contains("no block is used twice within 10s"), "{once}");
        let timeless = DemandSeries {
            span: Duration::ZERO,
            ..series(LOOP, 10)
        };
        let error = TraceDemand::new("a.csv", timeless).unwrap_err();
        assert_eq!(error, TraceDemandError::NoTimes("a.csv".to_owned()));
        let writes = TraceDemand::new("w", series(&LOOP.replace("reads=1", "reads=0"), 10));
        assert_eq!(
            TraceDemands::new(vec![writes.unwrap()]),
            Err(TraceDemandError::NothingRead)
        );
        assert_eq!(
            TraceDemands::new(Vec::new()),
            Err(TraceDemandError::NoTrace)
        );
    }
}
