//! Methods of prediction on a trace: how wrong they are, how much they would have allocated, and what a
//! cache that follows them would have hit.
//!
//! Paper: `CloudCache` (FAST 2016), section 4.4, figure 5, whose three metrics these are. At the end of each
//! window `RWSS_N` over it is observed and the next one predicted; a cache of that many blocks, LRU, which
//! admits a block accessed more than `N` times within the last window's length, runs through the next
//! window. Counted from the second window on: in the first nobody knows anything.
//!
//! Units: blocks, ratios 0 to 1.

use policy::demand::{Demand, Exact, Reuses, Windows, WindowsError};
use policy::prediction::{Filter, Forecast, Spec};
use policy::replacement::Dense;
use std::collections::BTreeMap;
use trace::{Op, Reader};
use units::{Bytes, Duration, Instant};

use crate::measure::CurveError;
use crate::window_ends::WindowEnds;
use units::number::real;

/// What is asked.
#[derive(Clone, Debug)]
pub struct ForecastSettings {
    /// The methods.
    pub methods: Vec<Spec>,
    /// Replaces outliers before each.
    pub filter: Filter,
    /// `N`.
    pub reuses: Reuses,
    /// The window's length.
    pub window: Duration,
    /// The unit of caching.
    pub block: Bytes,
}

/// One method on one trace.
#[derive(Clone, Debug, PartialEq)]
pub struct ForecastRow {
    /// The method.
    pub method: Spec,
    /// Windows predicted.
    pub windows: u32,
    /// Mean prediction error; `None` if there was nothing to predict.
    pub error: Option<f64>,
    /// Mean allocation.
    pub allocated_blocks: f64,
    /// Mean demand observed in the windows predicted.
    pub observed_blocks: f64,
    /// Block accesses in them.
    pub accesses: u64,
    /// Of those, hits.
    pub hits: u64,
}

impl ForecastRow {
    /// Hits by accesses.
    pub fn hit_ratio(&self) -> f64 {
        real(self.hits) / real(self.accesses.max(1))
    }
}

/// A row for each method, in their order. Windows without a single access are windows too.
///
/// # Errors
/// If the trace cannot be read to its end.
///
/// # Panics
/// If the window is none that demand is measured over.
pub fn forecast_rows(
    reader: &mut dyn Reader,
    settings: &ForecastSettings,
) -> Result<Vec<ForecastRow>, CurveError> {
    let mut pass = ForecastPass::new(settings).expect("a window that demand is measured over");
    crate::requests::each(reader, settings.block, |now, op, keys| {
        pass.take(now, op, keys);
    })?;
    Ok(pass.rows())
}

/// An LRU cache whose size changes.
#[derive(Default)]
struct Cache {
    blocks: u64,
    /// When each cached block was used last, counted in accesses.
    used: BTreeMap<u64, u32>,
    /// By key: its place in `used` and one more, 0 if it is not cached.
    places: Vec<u64>,
    clock: u64,
}

impl Cache {
    fn access(&mut self, key: u32, admits: bool) -> bool {
        let at = key as usize;
        if at >= self.places.len() {
            self.places.resize(at + 1, 0);
        }
        self.clock += 1;
        let hit = self.remove(key);
        if hit || admits {
            self.used.insert(self.clock, key);
            self.places[at] = self.clock + 1;
            self.resize(self.blocks);
        }
        hit
    }

    fn remove(&mut self, key: u32) -> bool {
        let place = self.places.get_mut(key as usize).map(std::mem::take);
        let place = place.and_then(|place| place.checked_sub(1));
        place.is_some_and(|place| self.used.remove(&place).is_some())
    }

    fn resize(&mut self, blocks: u64) {
        self.blocks = blocks;
        while self.used.len() as u64 > blocks {
            if let Some((_, key)) = self.used.pop_first() {
                self.places[key as usize] = 0;
            }
        }
    }
}

struct Entrant {
    forecast: Forecast,
    cache: Cache,
    row: ForecastRow,
}

struct ForecastPass {
    entrants: Vec<Entrant>,
    exact: Exact<Dense>,
    window: Duration,
    reuses: Reuses,
    /// The last `N + 1` uses of each block would do; of `N` reuses the measure is asked through these.
    uses: Vec<Vec<Instant>>,
    ends: WindowEnds,
    now: Instant,
}

impl ForecastPass {
    fn new(settings: &ForecastSettings) -> Result<Self, WindowsError> {
        let entrant = |method: &Spec| Entrant {
            forecast: Forecast::new(method, settings.filter.clone()),
            cache: Cache {
                blocks: u64::MAX,
                ..Cache::default()
            },
            row: ForecastRow {
                method: method.clone(),
                windows: 0,
                error: None,
                allocated_blocks: 0.0,
                observed_blocks: 0.0,
                accesses: 0,
                hits: 0,
            },
        };
        Ok(Self {
            entrants: settings.methods.iter().map(entrant).collect(),
            exact: Exact::new(&Windows::new(&[settings.window])?, Dense::new()),
            window: settings.window,
            reuses: settings.reuses,
            uses: Vec::new(),
            ends: WindowEnds::new(settings.window),
            now: Instant::ZERO,
        })
    }

    fn take(&mut self, now: Instant, op: Op, keys: &[u32]) {
        self.now = self.now.max(now);
        self.ends.pass(now);
        while let Some(end) = self.ends.ended() {
            self.window_ends(end);
        }
        for &key in keys {
            match op {
                Op::Read | Op::Write => self.access(key),
                Op::Discard | Op::WriteZeroes => self.remove(key),
                Op::Flush => {}
            }
        }
    }

    fn window_ends(&mut self, end: Instant) {
        let observed = Demand::<u32>::rwss(&mut self.exact, self.reuses, self.window, end);
        for entrant in &mut self.entrants {
            if let Some(predicted) = entrant.forecast.predicted() {
                entrant.row.windows += 1;
                entrant.row.allocated_blocks += predicted;
                entrant.row.observed_blocks += real(observed);
            }
            let next = entrant.forecast.observe(real(observed));
            entrant.cache.resize(blocks_near(next));
        }
    }

    fn access(&mut self, key: u32) {
        self.exact.access(key, self.now);
        let at = key as usize;
        if at >= self.uses.len() {
            self.uses.resize(at + 1, Vec::new());
        }
        let uses = &mut self.uses[at];
        uses.retain(|time| *time + self.window >= self.now);
        let enough = usize::from(self.reuses.get());
        let admits = uses.len() >= enough;
        if enough > 0 {
            uses.truncate(enough - 1);
            uses.insert(0, self.now);
        }
        for entrant in &mut self.entrants {
            let hit = entrant.cache.access(key, admits);
            if entrant.forecast.predicted().is_some() {
                entrant.row.accesses += 1;
                entrant.row.hits += u64::from(hit);
            }
        }
    }

    fn remove(&mut self, key: u32) {
        self.exact.remove(key);
        if let Some(uses) = self.uses.get_mut(key as usize) {
            uses.clear();
        }
        for entrant in &mut self.entrants {
            entrant.cache.remove(key);
        }
    }

    fn rows(self) -> Vec<ForecastRow> {
        let row = |entrant: Entrant| {
            let windows = f64::from(entrant.row.windows.max(1));
            ForecastRow {
                error: entrant.forecast.error_mean(),
                allocated_blocks: entrant.row.allocated_blocks / windows,
                observed_blocks: entrant.row.observed_blocks / windows,
                ..entrant.row
            }
        };
        self.entrants.into_iter().map(row).collect()
    }
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a float cast saturates, which is what is wanted"
)]
const fn blocks_near(value: f64) -> u64 {
    value.round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each second block 0 or 1 in turn; windows of 10 s.
    #[test]
    fn a_steady_demand_is_predicted_and_served_by_every_method() {
        let settings = ForecastSettings {
            methods: Spec::ALL
                .iter()
                .map(|about| about.name.parse().unwrap())
                .collect(),
            filter: Filter::default(),
            reuses: Reuses::ONE,
            window: Duration::from_secs(10),
            block: Bytes::new(4096),
        };
        let mut pass = ForecastPass::new(&settings).unwrap();
        for secs in 0..100 {
            let now = Instant::from_nanos(secs * 1_000_000_000);
            pass.take(now, Op::Read, &[u32::from(secs % 2 == 0)]);
        }
        for row in pass.rows() {
            assert_eq!(row.windows, 8, "{}", row.method);
            assert_eq!(row.error, Some(0.0), "{}", row.method);
            assert!((row.allocated_blocks - 2.0).abs() < 1e-9);
            assert_eq!((row.accesses, row.hits), (90, 90), "{}", row.method);
        }
    }

    #[test]
    fn a_wrong_time_stamp_does_not_take_for_ever() {
        let settings = ForecastSettings {
            methods: vec![Spec::default()],
            filter: Filter::default(),
            reuses: Reuses::ONE,
            window: Duration::from_secs(1),
            block: Bytes::new(4096),
        };
        let mut pass = ForecastPass::new(&settings).unwrap();
        pass.take(Instant::ZERO, Op::Read, &[1]);
        pass.take(Instant::from_nanos(u64::MAX / 2), Op::Read, &[1]);
        assert!(pass.rows()[0].windows <= 1_001);
    }

    #[test]
    fn a_cache_that_shrinks_lets_the_blocks_used_longest_ago_go() {
        let mut cache = Cache {
            blocks: 3,
            ..Cache::default()
        };
        for key in [0, 1, 2, 0] {
            cache.access(key, true);
        }
        cache.resize(2);
        assert!(cache.access(2, false));
        assert!(!cache.access(1, false));
        assert!(!cache.access(1, false));
        assert!(cache.access(0, false));
        cache.resize(0);
        assert!(!cache.access(0, true));
        assert!(!cache.access(0, true));
    }
}
