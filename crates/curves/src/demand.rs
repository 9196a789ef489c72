//! What a trace says of its demand: working sets by window, and the curve of its reads, in one pass.
//!
//! ```text
//!   0            window         2 windows                    the trace's end
//!   ├──────────────┼──────────────┼── ... ──┼──────────┤─ ─ ─ ┤
//!     rwss, wss,     rwss, wss,                          not whole: left out of the series,
//!     accesses       accesses                            but part of the curve
//! ```
//!
//! Driven by: whoever makes other workloads of a trace's, such as a simulated fleet. Units: blocks.

use mrc::{Counted, Curve, Exact as Stack, Kind, Writes};
use policy::demand::{Demand, Exact, Reuses, Windows, WindowsError};
use policy::replacement::Dense;
use trace::{Op, Reader};
use units::{Bytes, Duration, Instant};

use crate::measure::CurveError;
use crate::window_ends::WindowEnds;

/// What is asked of a trace.
#[derive(Clone, Debug, PartialEq)]
pub struct DemandSettings {
    windows: Windows,
    block: Bytes,
}

/// One window of a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DemandWindow {
    /// Blocks that were accessed twice or more: `RWSS_1`.
    pub rwss_blocks: u64,
    /// Blocks that were accessed.
    pub wss_blocks: u64,
    /// Block accesses, reads and writes.
    pub accesses: u64,
    /// Block accesses that are reads.
    pub reads: u64,
}

/// The demand of a trace.
#[derive(Clone, Debug, PartialEq)]
pub struct DemandSeries {
    /// Its whole windows, one after the other. A longer silence than a thousand windows is cut.
    pub windows: Vec<DemandWindow>,
    /// How long each is.
    pub window: Duration,
    /// The unit of caching.
    pub block: Bytes,
    /// Time from the first request to the last; zero in formats without times.
    pub span: Duration,
    /// Miss ratios of the reads of the whole trace under LRU; writes stay in the cache.
    pub reads: Curve,
}

impl DemandSettings {
    /// Windows of this length, blocks of this size.
    ///
    /// # Errors
    /// If the window is none that demand is measured over.
    pub fn new(window: Duration, block: Bytes) -> Result<Self, WindowsError> {
        Ok(Self {
            windows: Windows::new(&[window])?,
            block,
        })
    }
}

/// Reads a trace to its end. `progress` hears of the requests read so far.
///
/// # Errors
/// If the trace cannot be read to its end.
pub fn demand_series(
    reader: &mut dyn Reader,
    settings: &DemandSettings,
    progress: &mut dyn FnMut(u64),
) -> Result<DemandSeries, CurveError> {
    let mut pass = DemandPass::new(settings);
    let mut requests = 0;
    crate::requests::each(reader, settings.block, |now, op, keys| {
        pass.take(now, op, keys);
        requests += 1;
        progress(requests);
    })?;
    Ok(DemandSeries {
        reads: pass.stack.curve(Counted::Reads),
        windows: pass.ended,
        window: pass.window,
        block: settings.block,
        span: pass.now - Instant::ZERO,
    })
}

struct DemandPass {
    window: Duration,
    exact: Exact<Dense>,
    stack: Stack,
    ends: WindowEnds,
    now: Instant,
    /// Accesses and reads of the window that has not ended yet.
    current: DemandWindow,
    ended: Vec<DemandWindow>,
}

impl DemandPass {
    fn new(settings: &DemandSettings) -> Self {
        let window = settings.windows.longest();
        Self {
            window,
            exact: Exact::new(&settings.windows, Dense::new()),
            stack: Stack::new(Writes::Allocate),
            ends: WindowEnds::new(window),
            now: Instant::ZERO,
            current: DemandWindow::default(),
            ended: Vec::new(),
        }
    }

    fn take(&mut self, now: Instant, op: Op, keys: &[u32]) {
        self.now = self.now.max(now);
        self.ends.pass(now);
        while let Some(end) = self.ends.ended() {
            self.window_ends(end);
        }
        let blocks = keys.len() as u64;
        match op {
            Op::Read => {
                self.current.reads += blocks;
                self.access(Kind::Read, keys);
            }
            Op::Write => self.access(Kind::Write, keys),
            Op::Discard | Op::WriteZeroes => {
                self.stack.remove(keys);
                for &key in keys {
                    self.exact.remove(key);
                }
            }
            Op::Flush => {}
        }
    }

    fn access(&mut self, kind: Kind, keys: &[u32]) {
        self.current.accesses += keys.len() as u64;
        self.stack.access(kind, keys);
        for &key in keys {
            self.exact.access(key, self.now);
        }
    }

    fn window_ends(&mut self, end: Instant) {
        let (exact, window) = (&mut self.exact, self.window);
        self.ended.push(DemandWindow {
            rwss_blocks: Demand::<u32>::rwss(exact, Reuses::ONE, window, end),
            wss_blocks: Demand::<u32>::wss(exact, window, end),
            ..std::mem::take(&mut self.current)
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace::Options;

    const fn settings() -> (Duration, Bytes) {
        (Duration::from_secs(10), Bytes::new(4096))
    }

    fn series(stream: &[(u64, Op, u32)]) -> Vec<DemandWindow> {
        let (window, block) = settings();
        let mut pass = DemandPass::new(&DemandSettings::new(window, block).unwrap());
        for &(secs, op, key) in stream {
            pass.take(Instant::from_nanos(secs * 1_000_000_000), op, &[key]);
        }
        pass.ended
    }

    #[test]
    fn a_window_has_the_blocks_that_were_used_in_it() {
        let windows = series(&[
            (0, Op::Read, 0),
            (1, Op::Write, 0),
            (2, Op::Read, 1),
            (15, Op::Read, 1),
            (45, Op::Read, 1),
            (46, Op::Read, 1),
        ]);
        let window = |rwss_blocks, wss_blocks, accesses, reads| DemandWindow {
            rwss_blocks,
            wss_blocks,
            accesses,
            reads,
        };
        let silent = DemandWindow::default();
        // The window that begins at 40 is not whole.
        assert_eq!(
            windows,
            [window(1, 2, 3, 2), window(0, 1, 1, 1), silent, silent]
        );
    }

    #[test]
    fn a_loop_wants_all_of_it_and_hits_with_that() {
        let text = "gen:loop,requests=1000,blocks=50,reads=1,rate=10,arrival=fixed";
        let mut opened = trace::open(text.as_ref(), &Options::default()).unwrap();
        let (window, block) = settings();
        let settings = DemandSettings::new(window, block).unwrap();
        let mut heard = 0;
        let found = demand_series(&mut *opened.reader, &settings, &mut |n| heard = n).unwrap();
        assert_eq!(heard, 1000);
        assert_eq!(found.windows.len(), 9);
        assert_eq!(found.windows[4].rwss_blocks, 50);
        assert_eq!(found.windows[4].accesses, 100);
        assert_eq!(found.reads.miss_ratio(49), 1.0);
        assert_eq!(found.reads.miss_ratio(50), 0.05);
        assert_eq!(found.span, Duration::from_nanos(99_900_000_000));
    }

    #[test]
    fn a_window_that_nobody_measures_is_refused() {
        let (_, block) = settings();
        let error = DemandSettings::new(Duration::from_nanos(1), block);
        assert!(matches!(error, Err(WindowsError::OutOfRange(_))));
    }
}
