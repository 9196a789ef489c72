//! Demand from a bounded sample of the blocks: the daemon's measure.
//!
//! Blocks are chosen by a hash of where they are ([`Spatial`]), so that all accesses to a block are seen
//! or none; the sizes found are divided by the rate. Of each block in the sample the last four times
//! are kept, which answers every window and every `N` by one pass over the sample.
//!
//! **The rate adapts**, in steps of a quarter octave. Blocks not used for the longest window leave. If
//! the sample is full all the same, the rate falls a step and the blocks above its limit leave. If it is
//! less than a third full, the rate rises; but what has just come into the sample has no past yet:
//!
//! ```text
//!   level 0 ─ all blocks          since[0]: never yet
//!   level 4 ─ half of them        since[4]: 14:20    ◄── answers windows that begin after 14:20
//!   level 8 ─ a quarter           since[8]: 09:00    ◄── answers the longer ones
//! ```
//!
//! so each window is answered from the highest level that has been followed for all of it.
//!
//! Invariants: at most `blocks_max` rows; a block is in the sample only if its value is within the limit;
//! `since` never grows from a level to the next. Units: times in ticks of 2^20 ns (about a millisecond),
//! modulo 2^32. Memory: 29 bytes a block of the sample at most, table included, see [`Sampled::bound`].
//! CPU: a hash for each 128 neighbours of an access; what a sampled block costs more, and the error, is
//! measured in the book.

use super::limits::{SAMPLE_BLOCKS_MAX, SAMPLE_BLOCKS_MIN, TIMES};
use super::{Demand, Reuses, Windows};
use crate::sampling::{Run, Spatial, mix};
use units::number::{count_near, real};
use units::{Bytes, Duration, Instant, Table};

const TICK_BITS: u32 = 20;

/// The age of an access that never was: more than the longest window, less than what wraps.
const NEVER: u32 = 1 << 30;
const _: () = assert!(super::limits::WINDOW_MAX.as_nanos() >> TICK_BITS < NEVER as u64);

/// Levels of a quarter octave each: the lowest rate is 2^-31.
const LEVELS: usize = 125;

/// The longest window is swept this often: blocks stay that much too long at most.
const SWEEPS_A_WINDOW: u64 = 8;

/// The sampled measure.
#[derive(Clone, Debug)]
pub struct Sampled {
    seed: u64,
    spatial: Spatial,
    level: usize,
    /// From when on the blocks of each level at or below the present one have been followed.
    since: Box<[u64; LEVELS]>,
    rows: Vec<Row>,
    /// Places of rows by key.
    table: Table<u32>,
    blocks_max: usize,
    windows: Vec<Duration>,
    longest: u64,
    now: u64,
    swept: u64,
}

#[derive(Clone, Copy, Debug)]
struct Row {
    key: u64,
    /// Latest first.
    times: [u32; TIMES],
}

impl Sampled {
    /// No access yet; the sample will never have more than `blocks_max` blocks.
    ///
    /// # Panics
    /// If `blocks_max` is not from [`SAMPLE_BLOCKS_MIN`] to [`SAMPLE_BLOCKS_MAX`].
    pub fn new(windows: &Windows, blocks_max: u32, seed: u64) -> Self {
        assert!(
            (SAMPLE_BLOCKS_MIN..=SAMPLE_BLOCKS_MAX).contains(&blocks_max),
            "a sample has from {SAMPLE_BLOCKS_MIN} to {SAMPLE_BLOCKS_MAX} blocks"
        );
        Self {
            seed,
            spatial: Spatial::new(1.0, seed),
            level: 0,
            since: Box::new([0; LEVELS]),
            rows: Vec::new(),
            table: Table::new(),
            blocks_max: blocks_max as usize,
            windows: windows.as_slice().to_vec(),
            longest: windows.longest().as_nanos() >> TICK_BITS,
            now: 0,
            swept: 0,
        }
    }

    /// All memory that a sample of so many blocks can come to hold.
    pub fn bound(blocks_max: u32) -> Bytes {
        let rows = blocks_max as usize * size_of::<Row>();
        // A table of places fills to seven eighths, has a power of two of them, and a byte of its own each.
        let places = (blocks_max as usize * 8 / 7 + 1).next_power_of_two();
        let table = places * (size_of::<u32>() + 1) + 64;
        let rest = size_of::<Self>() + size_of::<[u64; LEVELS]>();
        let windows = super::limits::WINDOWS_MAX * size_of::<Duration>();
        Bytes::new((rows + table + rest + windows) as u64)
    }

    /// A run of blocks is read or written: the same as so many calls of [`Demand::access`], faster.
    pub fn access_run(&mut self, first: u64, count: u64, now: Instant) {
        self.advance(now);
        let run = Run {
            volume: 0,
            first,
            count,
        };
        let spatial = self.spatial;
        spatial.sampled(run, |key, value| {
            // The limit may have fallen since the run began.
            if self.spatial.samples(value) {
                self.touch(key, value);
            }
        });
    }

    /// A run of blocks was discarded: the same as so many calls of [`Demand::remove`], in time that
    /// does not grow with the run, which may be a whole disk.
    pub fn remove_run(&mut self, first: u64, count: u64) {
        if count / 128 > self.rows.len() as u64 {
            self.retain(|row| !(row.key >= first && row.key - first < count));
            return;
        }
        let run = Run {
            volume: 0,
            first,
            count,
        };
        let spatial = self.spatial;
        spatial.sampled(run, |key, _| self.forget(key));
    }

    /// The part of all blocks that is sampled now.
    pub fn rate(&self) -> f64 {
        self.spatial.rate()
    }

    /// Blocks in the sample.
    pub fn sampled_blocks(&self) -> u64 {
        self.rows.len() as u64
    }

    fn touch(&mut self, key: u64, value: u64) {
        let now = wrap(self.now);
        let found = self
            .table
            .find(mix(key), |&at| self.rows[at as usize].key == key);
        if let Some(&at) = found {
            let times = &mut self.rows[at as usize].times;
            times.rotate_right(1);
            times[0] = now;
            return;
        }
        if self.rows.len() == self.blocks_max {
            self.make_room();
            if !self.spatial.samples(value) {
                return;
            }
        }
        let mut times = [now.wrapping_sub(NEVER); TIMES];
        times[0] = now;
        if self.rows.len() == self.rows.capacity() {
            // A quarter more at a time, and never more than the bound.
            let more = (self.rows.len() / 4).max(64);
            self.rows
                .reserve_exact(more.min(self.blocks_max - self.rows.len()));
        }
        let at = u32::try_from(self.rows.len()).expect("samples are counted in 32 bits");
        self.rows.push(Row { key, times });
        let rows = &self.rows;
        self.table
            .insert_unique(mix(key), at, |&at| mix(rows[at as usize].key));
    }

    fn forget(&mut self, key: u64) {
        let rows = &self.rows;
        let found = self
            .table
            .find_entry(mix(key), |&at| rows[at as usize].key == key);
        let Ok(entry) = found else {
            return;
        };
        let (at, _) = entry.remove();
        self.rows.swap_remove(at as usize);
        let last = u32::try_from(self.rows.len()).expect("samples are counted in 32 bits");
        if let Some(moved) = self.rows.get(at as usize) {
            let place = self.table.find_mut(mix(moved.key), |&place| place == last);
            *place.expect("each row has a place") = at;
        }
    }

    /// The clock goes on; from time to time the sample is swept.
    fn advance(&mut self, now: Instant) {
        self.now = self.now.max(now.as_nanos() >> TICK_BITS);
        if self.now - self.swept > self.longest / SWEEPS_A_WINDOW {
            self.sweep();
            self.raise();
        }
    }

    /// Drops the blocks that no window reaches back to.
    fn sweep(&mut self) {
        let all_old = self.now - self.swept > u64::from(NEVER);
        self.swept = self.now;
        let (now, longest) = (wrap(self.now), wrap(self.longest));
        self.retain(|row| {
            for time in &mut row.times {
                if now.wrapping_sub(*time) > NEVER {
                    *time = now.wrapping_sub(NEVER);
                }
            }
            !all_old && now.wrapping_sub(row.times[0]) <= longest
        });
    }

    /// The sample is full: what is old leaves, and if that is not enough the rate falls.
    fn make_room(&mut self) {
        self.sweep();
        while self.rows.len() > self.blocks_max * 7 / 8 && self.level + 1 < LEVELS {
            self.level += 1;
            self.spatial = Spatial::new(rate(self.level), self.seed);
            let spatial = self.spatial;
            self.retain(|row| spatial.samples(spatial.value(0, row.key)));
        }
        // At the lowest rate there is no other way left; no disk is so large.
        while self.rows.len() >= self.blocks_max {
            self.forget(self.rows[0].key);
        }
    }

    /// If the sample is less than a third full the rate rises, to what would fill two thirds of it.
    fn raise(&mut self) {
        let expected = |level: usize| real(self.rows.len() as u64) * rate(level) / self.rate();
        if self.level == 0 || self.rows.len() > self.blocks_max / 3 {
            return;
        }
        let room = real(self.blocks_max as u64) * 2.0 / 3.0;
        let mut level = self.level;
        while level > 0 && expected(level - 1) <= room {
            level -= 1;
        }
        for since in &mut self.since[level..self.level] {
            *since = self.now;
        }
        self.level = level;
        self.spatial = Spatial::new(rate(level), self.seed);
    }

    /// Keeps these rows, and finds them again.
    fn retain(&mut self, keep: impl FnMut(&mut Row) -> bool) {
        let before = self.rows.len();
        self.rows.retain_mut(keep);
        if self.rows.len() == before {
            return;
        }
        self.table.clear();
        for (at, row) in (0..).zip(&self.rows) {
            let hash = |&at: &u32| mix(self.rows[at as usize].key);
            self.table.insert_unique(mix(row.key), at, hash);
        }
    }

    /// The highest level that was followed for all of a window.
    fn level_of(&self, window: u64) -> usize {
        let followed = |level: &usize| {
            let since = self.since[*level];
            since == 0 || since + window <= self.now
        };
        (self.level..LEVELS).find(followed).unwrap_or(LEVELS - 1)
    }

    fn size(&self, reuses: Reuses, window: Duration) -> u64 {
        let ticks = window.as_nanos() >> TICK_BITS;
        let level = self.level_of(ticks);
        let (now, ticks) = (wrap(self.now), wrap(ticks));
        let within = |row: &&Row| now.wrapping_sub(row.times[reuses.index()]) <= ticks;
        if level == self.level {
            let count = self.rows.iter().filter(within).count();
            return count_near(real(count as u64) / self.rate());
        }
        let spatial = Spatial::new(rate(level), self.seed);
        let followed = |row: &&Row| spatial.samples(spatial.value(0, row.key));
        let count = self.rows.iter().filter(within).filter(followed).count();
        count_near(real(count as u64) / spatial.rate())
    }
}

/// The rate of a level, the same to the last bit on every machine.
fn rate(level: usize) -> f64 {
    const QUARTERS: [f64; 4] = [
        1.0,
        0.840_896_415_253_714_5,
        std::f64::consts::FRAC_1_SQRT_2,
        0.594_603_557_501_360_5,
    ];
    let octave = i32::try_from(level / 4).expect("few levels");
    QUARTERS[level % 4] * 2.0_f64.powi(-octave)
}

/// Ticks modulo 2^32.
#[allow(
    clippy::cast_possible_truncation,
    reason = "ages are below 2^32 ticks, so the low bits tell them"
)]
const fn wrap(ticks: u64) -> u32 {
    ticks as u32
}

impl<K: Into<u64> + Send> Demand<K> for Sampled {
    fn access(&mut self, key: K, now: Instant) {
        self.access_run(key.into(), 1, now);
    }

    fn remove(&mut self, key: K) {
        self.forget(key.into());
    }

    fn rwss(&mut self, reuses: Reuses, window: Duration, now: Instant) -> u64 {
        assert!(
            self.windows.contains(&window),
            "the window is one of those that were asked for"
        );
        self.advance(now);
        self.size(reuses, window)
    }

    fn ladder(&mut self, reuses: Reuses, now: Instant) -> Vec<u64> {
        self.advance(now);
        let sizes = self.windows.iter().map(|window| self.size(reuses, *window));
        sizes.collect()
    }

    fn memory(&self) -> Bytes {
        let bytes = size_of::<Self>()
            + size_of::<[u64; LEVELS]>()
            + self.windows.capacity() * size_of::<Duration>()
            + self.rows.capacity() * size_of::<Row>()
            + self.table.allocation_size();
        Bytes::new(bytes as u64)
    }
}
