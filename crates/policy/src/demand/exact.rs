//! Demand exactly: every block, every window, for the simulator.
//!
//! Each access is an event in a log, oldest first, which all windows share; a window is a place in that
//! log, before which events have left it, and four counters. An access that finds `m` accesses of its
//! block in the window makes the block a member of `RWS_m`; an event that leaves and was followed by
//! `m - 1` of the same block takes it out of `RWS_(m-1)`.
//!
//! ```text
//!   log:   a b a c a b ... a         ordinal of each event: how many of its block came before
//!          ▲   ▲                     accesses since = block's count - ordinal
//!   24 h ──┘   └── 1 min
//! ```
//!
//! Invariant: `sizes[n]` of a window is the number of blocks with more than `n` accesses in it.
//! Memory: 16 bytes for each access of the longest window, 40 for each block ever seen and its place in
//! the index. CPU: constant for each access, window and `N`, amortized.

use super::limits::TIMES;
use super::{Demand, Reuses, Windows};
use crate::replacement::{Index, Key, Place};
use std::collections::VecDeque;
use units::{Bytes, Duration, Instant};

/// The exact measure. `I` finds a block's row by its key.
#[derive(Clone, Debug)]
pub struct Exact<I> {
    index: I,
    rows: Vec<Row>,
    log: VecDeque<Event>,
    /// Events that have left the log's front for good.
    gone: u64,
    windows: Vec<State>,
    now: Instant,
}

#[derive(Clone, Copy, Debug)]
struct Row {
    /// Latest first; the first `held` are times.
    times: [Instant; TIMES],
    held: u8,
    /// Accesses so far, modulo 2^32, with a jump at each removal.
    count: u32,
}

#[derive(Clone, Copy, Debug)]
struct Event {
    time: Instant,
    row: u32,
    ordinal: u32,
}

#[derive(Clone, Debug)]
struct State {
    length: Duration,
    /// The first event that has not left the window, counted from the beginning of all.
    next: u64,
    sizes: [u64; TIMES],
}

/// More than any `N` + 1: an event from before a removal looks followed by so many.
const REMOVED: u32 = 64;
const _: () = assert!(REMOVED as usize > TIMES);

impl<I> Exact<I> {
    /// No access yet.
    pub fn new(windows: &Windows, index: I) -> Self {
        let state = |length: &Duration| State {
            length: *length,
            next: 0,
            sizes: [0; TIMES],
        };
        Self {
            index,
            rows: Vec::new(),
            log: VecDeque::new(),
            gone: 0,
            windows: windows.as_slice().iter().map(state).collect(),
            now: Instant::ZERO,
        }
    }

    /// Lets what is too old leave each window.
    fn advance(&mut self, now: Instant) {
        self.now = self.now.max(now);
        for window in &mut self.windows {
            let Some(begin) = begin(self.now, window.length) else {
                continue;
            };
            let at = usize::try_from(window.next - self.gone).expect("the log is in memory");
            for event in self.log.range(at..) {
                if event.time >= begin {
                    break;
                }
                let since = self.rows[event.row as usize]
                    .count
                    .wrapping_sub(event.ordinal);
                if let Some(size) = window.sizes.get_mut(since as usize) {
                    *size -= 1;
                }
                window.next += 1;
            }
        }
        let kept = self.windows.iter().map(|window| window.next).min();
        let leave = kept.map_or(0, |kept| kept - self.gone);
        self.log
            .drain(..usize::try_from(leave).expect("the log is in memory"));
        self.gone += leave;
    }
}

/// When the window that ends now begins; `None` if it reaches back before the clock's origin.
fn begin(now: Instant, length: Duration) -> Option<Instant> {
    let nanos = now.as_nanos().checked_sub(length.as_nanos())?;
    Some(Instant::from_nanos(nanos))
}

impl Row {
    const NEW: Self = Self {
        times: [Instant::ZERO; TIMES],
        held: 0,
        count: 0,
    };

    /// Accesses since `begin`, as far as times are kept.
    fn since(&self, begin: Option<Instant>) -> usize {
        let times = &self.times[..usize::from(self.held)];
        times.partition_point(|time| begin.is_none_or(|begin| *time >= begin))
    }
}

impl<K: Key, I: Index<K> + Send> Demand<K> for Exact<I> {
    fn access(&mut self, key: K, now: Instant) {
        self.advance(now);
        let at = if let Some(place) = self.index.get(key) {
            place.to_usize()
        } else {
            let row = u32::try_from(self.rows.len()).expect("fewer than 2^32 blocks");
            self.index.insert(key, Place(row));
            self.rows.push(Row::NEW);
            row as usize
        };
        let row = &mut self.rows[at];
        for window in &mut self.windows {
            let found = row.since(begin(self.now, window.length));
            if let Some(size) = window.sizes.get_mut(found) {
                *size += 1;
            }
        }
        row.times.rotate_right(1);
        row.times[0] = self.now;
        row.held = (row.held + 1).min(super::limits::REUSES_MAX + 1);
        row.count = row.count.wrapping_add(1);
        let event = Event {
            time: self.now,
            row: u32::try_from(at).expect("rows are counted in 32 bits"),
            ordinal: row.count,
        };
        self.log.push_back(event);
    }

    fn remove(&mut self, key: K) {
        let Some(place) = self.index.get(key) else {
            return;
        };
        let row = &mut self.rows[place.to_usize()];
        for window in &mut self.windows {
            let found = row.since(begin(self.now, window.length));
            for size in &mut window.sizes[..found] {
                *size -= 1;
            }
        }
        row.held = 0;
        row.count = row.count.wrapping_add(REMOVED);
    }

    fn rwss(&mut self, reuses: Reuses, window: Duration, now: Instant) -> u64 {
        self.advance(now);
        let state = self.windows.iter().find(|state| state.length == window);
        let state = state.expect("the window is one of those that were asked for");
        state.sizes[reuses.index()]
    }

    fn ladder(&mut self, reuses: Reuses, now: Instant) -> Vec<u64> {
        self.advance(now);
        let sizes = self.windows.iter().map(|state| state.sizes[reuses.index()]);
        sizes.collect()
    }

    fn memory(&self) -> Bytes {
        let bytes = size_of::<Self>()
            + self.index.memory_bytes()
            + self.rows.capacity() * size_of::<Row>()
            + self.log.capacity() * size_of::<Event>()
            + self.windows.capacity() * size_of::<State>();
        Bytes::new(bytes as u64)
    }
}
