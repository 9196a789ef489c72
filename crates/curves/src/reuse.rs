//! What a cache of exactly `RWS_N` would do, for `N` = 0, 1, 2 side by side: hits, room, flash writes.
//!
//! Paper: `CloudCache` (FAST 2016), section 4.1, figure 2, which caches the reuse working set and nothing
//! else. A block is cached while it was accessed more than `N` times in the window; an access to a cached block is a hit;
//! the access that makes it one of them writes it to flash, and so does every later write.
//!
//! One pass for all three. Without a window nothing ever leaves. Units: blocks; usage is the mean over
//! accesses, and the peak.

use policy::demand::{Demand, Exact, Reuses, Windows, WindowsError};
use policy::replacement::Dense;
use trace::{Op, Reader};
use units::{Bytes, Duration, Instant};

use crate::measure::CurveError;
use units::number::real;

/// The greatest `N` that is compared.
const N_MAX: usize = 2;

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReuseSettings {
    /// How long an access counts; `None` for ever.
    pub window: Option<Duration>,
    /// The unit of caching.
    pub block: Bytes,
}

/// A cache of `RWS_N`, over a whole trace.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ReuseRow {
    /// `N`.
    pub reuses: Reuses,
    /// Block accesses.
    pub accesses: u64,
    /// Of those, reads.
    pub reads: u64,
    /// Accesses to a cached block.
    pub hits: u64,
    /// Of those, reads.
    pub read_hits: u64,
    /// Blocks written to flash.
    pub flash_writes: u64,
    /// Cached blocks, mean over accesses.
    pub usage_mean: f64,
    /// Cached blocks, at most.
    pub usage_peak: u64,
}

impl ReuseRow {
    /// Hits by accesses.
    pub fn hit_ratio(&self) -> f64 {
        real(self.hits) / real(self.accesses.max(1))
    }

    /// Read hits by reads.
    pub fn read_hit_ratio(&self) -> f64 {
        real(self.read_hits) / real(self.reads.max(1))
    }

    /// Flash writes by accesses.
    pub fn flash_write_ratio(&self) -> f64 {
        real(self.flash_writes) / real(self.accesses.max(1))
    }
}

/// Accesses of a block within the window, as far as they matter.
#[derive(Clone, Copy, Default)]
struct Uses {
    times: [Instant; N_MAX + 1],
    held: u8,
}

impl Uses {
    /// How many there were before this one, which is added.
    fn add(&mut self, now: Instant, window: Option<Duration>) -> usize {
        let times = &self.times[..usize::from(self.held)];
        let found = window.map_or(times.len(), |window| {
            times.partition_point(|time| *time + window >= now)
        });
        self.times.rotate_right(1);
        self.times[0] = now;
        self.held = u8::try_from((found + 1).min(N_MAX + 1)).expect("a few");
        found
    }
}

/// The three rows of a trace. Requests are taken in its order; a time before an earlier one counts as that.
///
/// # Errors
/// If the trace cannot be read to its end.
///
/// # Panics
/// If the window is none that demand is measured over.
pub fn reuse_rows(
    reader: &mut dyn Reader,
    settings: &ReuseSettings,
) -> Result<[ReuseRow; N_MAX + 1], CurveError> {
    let mut pass = ReusePass::new(settings).expect("a window that demand is measured over");
    crate::requests::each(reader, settings.block, |now, op, keys| {
        pass.take(now, op, keys);
    })?;
    Ok(pass.rows())
}

struct ReusePass {
    window: Option<Duration>,
    uses: Vec<Uses>,
    exact: Option<Exact<Dense>>,
    rows: [ReuseRow; N_MAX + 1],
    usage: [f64; N_MAX + 1],
    /// Cached blocks, where nothing ever leaves.
    cached: [u64; N_MAX + 1],
    now: Instant,
}

impl ReusePass {
    fn new(settings: &ReuseSettings) -> Result<Self, WindowsError> {
        let windows = settings.window.map(|window| Windows::new(&[window]));
        let windows = windows.transpose()?;
        let mut rows = [ReuseRow::default(); N_MAX + 1];
        for (row, number) in rows.iter_mut().zip(0..) {
            row.reuses = Reuses::new(number).expect("a small N");
        }
        Ok(Self {
            window: settings.window,
            uses: Vec::new(),
            exact: windows.map(|windows| Exact::new(&windows, Dense::new())),
            rows,
            usage: [0.0; N_MAX + 1],
            cached: [0; N_MAX + 1],
            now: Instant::ZERO,
        })
    }

    fn take(&mut self, now: Instant, op: Op, keys: &[u32]) {
        self.now = self.now.max(now);
        for &key in keys {
            match op {
                Op::Read => self.access(key, false),
                Op::Write => self.access(key, true),
                Op::Discard | Op::WriteZeroes => self.remove(key),
                Op::Flush => {}
            }
        }
    }

    fn access(&mut self, key: u32, write: bool) {
        let at = key as usize;
        if at >= self.uses.len() {
            self.uses.resize(at + 1, Uses::default());
        }
        let found = self.uses[at].add(self.now, self.window);
        if let Some(exact) = &mut self.exact {
            exact.access(key, self.now);
            for (cached, row) in self.cached.iter_mut().zip(&self.rows) {
                let window = self.window.expect("there is a measure because of it");
                *cached = Demand::<u32>::rwss(exact, row.reuses, window, self.now);
            }
        } else if let Some(cached) = self.cached.get_mut(found) {
            *cached += 1;
        }
        for (n, row) in self.rows.iter_mut().enumerate() {
            let hit = found > n;
            row.accesses += 1;
            row.reads += u64::from(!write);
            row.hits += u64::from(hit);
            row.read_hits += u64::from(hit && !write);
            row.flash_writes += u64::from(found == n || (hit && write));
            row.usage_peak = row.usage_peak.max(self.cached[n]);
            self.usage[n] += real(self.cached[n]);
        }
    }

    fn remove(&mut self, key: u32) {
        let Some(uses) = self.uses.get_mut(key as usize) else {
            return;
        };
        if let Some(exact) = &mut self.exact {
            exact.remove(key);
        } else {
            for cached in &mut self.cached[..usize::from(uses.held)] {
                *cached -= 1;
            }
        }
        *uses = Uses::default();
    }

    fn rows(self) -> [ReuseRow; N_MAX + 1] {
        let mut rows = self.rows;
        for (row, usage) in rows.iter_mut().zip(self.usage) {
            row.usage_mean = usage / real(row.accesses.max(1));
        }
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(window: Option<u64>, stream: &[(u64, Op, u32)]) -> [ReuseRow; 3] {
        let settings = ReuseSettings {
            window: window.map(Duration::from_secs),
            block: Bytes::new(4096),
        };
        let mut pass = ReusePass::new(&settings).unwrap();
        for &(secs, op, key) in stream {
            pass.take(Instant::from_nanos(secs * 1_000_000_000), op, &[key]);
        }
        pass.rows()
    }

    const STREAM: [(u64, Op, u32); 6] = [
        (0, Op::Read, 0),
        (1, Op::Read, 1),
        (2, Op::Read, 0),
        (3, Op::Write, 0),
        (20, Op::Read, 0),
        (21, Op::Read, 1),
    ];

    #[test]
    fn for_ever_a_block_is_cached_from_its_access_number_n_plus_one() {
        let [all, once, twice] = rows(None, &STREAM);
        // All but the first of each: 4 hits, 3 of them reads; 2 fills and a write hit.
        assert_eq!((all.hits, all.read_hits, all.flash_writes), (4, 3, 3));
        assert_eq!((all.accesses, all.reads, all.usage_peak), (6, 5, 2));
        // 0 is admitted by its second access, hits at 3 and 20; 1 is admitted at 21.
        assert_eq!((once.hits, once.read_hits, once.flash_writes), (2, 1, 3));
        // 0 is admitted by the write at 3.
        assert_eq!(
            (twice.hits, twice.flash_writes, twice.usage_peak),
            (1, 1, 1)
        );
        // 1 2 2 2 2 2 and 0 0 1 1 1 2 blocks.
        assert!((all.usage_mean - 11.0 / 6.0).abs() < 1e-12);
        assert!((once.usage_mean - 5.0 / 6.0).abs() < 1e-12);
    }

    #[test]
    fn in_a_window_old_accesses_count_no_more() {
        let [all, once, _] = rows(Some(10), &STREAM);
        // At 20 and 21 nothing is left of what was before.
        assert_eq!((all.hits, all.flash_writes), (2, 5));
        assert_eq!((once.hits, once.flash_writes), (1, 2));
        assert_eq!(once.usage_peak, 1);
    }

    #[test]
    fn a_discarded_block_begins_anew() {
        let stream = [
            (0, Op::Read, 0),
            (1, Op::Read, 0),
            (2, Op::Discard, 0),
            (3, Op::Read, 0),
        ];
        for window in [None, Some(10)] {
            let [all, once, _] = rows(window, &stream);
            assert_eq!((all.hits, all.flash_writes, all.usage_peak), (1, 2, 1));
            assert_eq!((once.hits, once.flash_writes, once.usage_peak), (0, 1, 1));
        }
    }
}
