//! One tenant's demand: measured, over a window of its own, and predicted.
//!
//! ```text
//!   runs of blocks ─► Sampled | Exact ─┬─ RWSS_N of every window ─► Chooser ─► the tenant's window
//!                                      └─ WSS, RWSS_N of that window ─► Forecast each ─► predicted
//! ```
//!
//! Looked at whenever a window of the host ends, which is the smallest of all tenants': the tenant's own
//! window slides, so that every look sees the last `T` seconds, whatever the others' windows are.

use crate::settings::{Measure, Settings, Window};
use policy::allocation::Size;
use policy::demand::{Chooser, Demand, Exact, Reuses, Sampled, WindowSettingsError, Windows};
use policy::prediction::Forecast;
use policy::replacement::Hashed;
use units::{BlockIndex, Bytes, DiskSlot, Duration, Instant};

/// What a tenant was seen to want in its window, and is expected to want in the next.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Wants {
    /// Over how long.
    pub window: Duration,
    /// Blocks accessed in it.
    pub wss: u64,
    /// Blocks used again in it as often as the settings ask for.
    pub rwss: u64,
    /// `WSS` of the next window; `None` before the first has ended.
    pub wss_predicted: Option<f64>,
    /// `RWSS_N` of the next window.
    pub rwss_predicted: Option<f64>,
    /// Mean error of the predictions of `RWSS_N` so far, by what was observed.
    pub error: Option<f64>,
}

/// What a tenant wanted where it was until now, by the last window there.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Wanted {
    /// Blocks accessed.
    pub wss: u64,
    /// Blocks used again as often as the settings there ask for.
    pub rwss: u64,
    /// Reads a second.
    pub reads_a_second: f64,
    /// What each size of cache would hit of its reads, by rising size.
    pub curve: Vec<Size>,
}

enum Meter {
    Sampled(Sampled),
    Exact(Exact<Hashed<u64>>),
}

/// A tenant's demand.
pub(crate) struct Gauge {
    meter: Meter,
    chooser: Option<Chooser>,
    reuses: Reuses,
    wss: Forecast,
    rwss: Forecast,
    wants: Wants,
    /// `WSS` and `RWSS_N` elsewhere, and until when they count if they are more than what is seen here.
    wanted: Option<((u64, u64), Instant)>,
}

/// A block of any disk as a number.
fn name(disk: DiskSlot, block: u64) -> u64 {
    u64::from(disk.get()) << BlockIndex::BITS | block
}

impl Gauge {
    /// Nothing seen yet. The settings were checked.
    pub(crate) fn new(settings: &Settings) -> Result<Self, WindowSettingsError> {
        let (windows, chooser) = match &settings.window {
            Window::Fixed(length) => {
                let windows = Windows::new(&[*length]).expect("the settings were checked");
                (windows, None)
            }
            Window::Knee { lengths, settings } => (
                lengths.clone(),
                Some(Chooser::new(lengths.clone(), *settings)?),
            ),
        };
        let window = chooser.as_ref().map_or(windows.longest(), Chooser::window);
        let meter = match settings.measure {
            Measure::Sampled(blocks) => {
                Meter::Sampled(Sampled::new(&windows, blocks, settings.seed))
            }
            Measure::Exact => Meter::Exact(Exact::new(&windows, Hashed::new())),
        };
        let forecast = || Forecast::new(&settings.prediction, settings.filter.clone());
        Ok(Self {
            meter,
            chooser,
            reuses: settings.reuses,
            wss: forecast(),
            rwss: forecast(),
            wants: Wants {
                window,
                ..Wants::default()
            },
            wanted: None,
        })
    }

    /// A run of blocks is read or written.
    #[inline]
    pub(crate) fn access(&mut self, disk: DiskSlot, first: u64, count: u64, now: Instant) {
        let first = name(disk, first);
        match &mut self.meter {
            Meter::Sampled(sampled) => sampled.access_run(first, count, now),
            Meter::Exact(exact) => {
                for key in first..first + count {
                    exact.access(key, now);
                }
            }
        }
    }

    /// A run of blocks is discarded.
    pub(crate) fn remove(&mut self, disk: DiskSlot, first: u64, count: u64) {
        let first = name(disk, first);
        match &mut self.meter {
            Meter::Sampled(sampled) => sampled.remove_run(first, count),
            Meter::Exact(exact) => {
                for key in first..first + count {
                    exact.remove(key);
                }
            }
        }
    }

    /// The tenant comes from elsewhere, where it wanted this: it is expected to want as much here, until a window of its
    /// own has passed here.
    pub(crate) fn comes(&mut self, wanted: &Wanted, now: Instant) {
        let window = self.wants.window;
        // The window that runs began before it came.
        self.wanted = Some(((wanted.wss, wanted.rwss), now + window + window));
        let at_least = |predicted: &mut Option<f64>, blocks: u64| {
            let blocks = units::number::real(blocks);
            *predicted = Some(predicted.map_or(blocks, |predicted| predicted.max(blocks)));
        };
        at_least(&mut self.wants.wss_predicted, wanted.wss);
        at_least(&mut self.wants.rwss_predicted, wanted.rwss);
    }

    /// A window of the host has ended. `hit_ratio` is the live curve's.
    pub(crate) fn look(&mut self, now: Instant, hit_ratio: impl Fn(u64) -> f64) {
        if let Some(chooser) = &mut self.chooser {
            let sizes = match &mut self.meter {
                Meter::Sampled(sampled) => Demand::<u64>::ladder(sampled, self.reuses, now),
                Meter::Exact(exact) => exact.ladder(self.reuses, now),
            };
            chooser.observe(&sizes);
            self.wants.window = chooser.choose(hit_ratio).window;
        }
        let window = self.wants.window;
        let mut size = |reuses| match &mut self.meter {
            Meter::Sampled(sampled) => Demand::<u64>::rwss(sampled, reuses, window, now),
            Meter::Exact(exact) => exact.rwss(reuses, window, now),
        };
        let (mut wss, mut rwss) = (size(Reuses::NONE), size(self.reuses));
        self.wants.wss = wss;
        self.wants.rwss = rwss;
        // Of a tenant that has just come a part of its window is seen.
        self.wanted = self.wanted.filter(|(_, until)| now < *until);
        if let Some((wanted, _)) = self.wanted {
            (wss, rwss) = (wss.max(wanted.0), rwss.max(wanted.1));
        }
        self.wants.wss_predicted = Some(self.wss.observe(units::number::real(wss)));
        self.wants.rwss_predicted = Some(self.rwss.observe(units::number::real(rwss)));
        self.wants.error = self.rwss.error_mean();
    }

    /// Whether what it wanted elsewhere still counts.
    pub(crate) fn has_just_come(&self) -> bool {
        self.wanted.is_some()
    }

    pub(crate) fn wants(&self) -> &Wants {
        &self.wants
    }

    pub(crate) fn memory(&self) -> Bytes {
        let meter = match &self.meter {
            Meter::Sampled(sampled) => Demand::<u64>::memory(sampled),
            Meter::Exact(exact) => exact.memory(),
        };
        let chooser = self.chooser.as_ref().map_or(Bytes::ZERO, Chooser::memory);
        meter + chooser
    }
}
