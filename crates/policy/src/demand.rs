//! How much flash a tenant has use for: working sets and reuse working sets over real time.
//!
//! Paper: D. Arteaga, J. Cabrera, J. Xu, S. Sundararaman and M. Zhao, *CloudCache: On-demand Flash
//! Cache Management for Cloud Computing*, FAST 2016, section 4.1.
//!
//! `RWS_N(t, T)`, the *reuse working set*, is the set of blocks accessed at least `N + 1` times in
//! `[t - T, t]`, reads and writes alike; `RWSS_N` is its size. `N = 0` is Denning's working set, whose
//! size is called `WSS`. A scan is in the working set and not in any reuse working set, which is why
//! `RWSS_1` says what is worth caching where `WSS` says what was touched.
//!
//! ```text
//!   accesses ─► Exact   (simulator: every block)     ─┐                    ┌─► Chooser: window at the knee
//!          └──► Sampled (daemon: a bounded sample)   ─┴─► sizes a window ──┤
//!                                                                          └─► prediction ─► allocation
//! ```
//!
//! One fact serves both: a block is in `RWS_N(t, T)` exactly if the access before its last `N` ones is
//! no older than `t - T`. So the last four times of each block are all that is kept, for every `N` up to
//! 3 and every window at once.
//!
//! Driven by: whoever watches a tenant's accesses. Time comes in with each call and never runs
//! backwards here: an earlier time counts as the latest one. Units: sizes in blocks, windows in time.

mod exact;
mod knee;
mod reuses;
mod sampled;
mod window;
mod windows;

pub mod limits;

pub use exact::Exact;
pub use knee::{HEIGHT_MIN, Knee, knee};
pub use reuses::{BadReuses, Reuses};
pub use sampled::Sampled;
pub use window::{Choice, Chooser, Rung, WindowSettings, WindowSettingsError};
pub use windows::{Windows, WindowsError};

use units::{Bytes, Duration, Instant};

/// A tenant's accesses, measured over sliding windows.
pub trait Demand<K>: Send {
    /// A block is read or written. Called for every access, hit or miss.
    fn access(&mut self, key: K, now: Instant);

    /// The block was discarded: what was done with it before counts no longer.
    fn remove(&mut self, key: K);

    /// Blocks accessed more than `reuses` times in the window that ends now: `RWSS_N`.
    ///
    /// # Panics
    /// If the window is not one that the measure was made for.
    fn rwss(&mut self, reuses: Reuses, window: Duration, now: Instant) -> u64;

    /// Blocks accessed in the window that ends now: `WSS`, which is `RWSS_0`.
    ///
    /// # Panics
    /// If the window is not one that the measure was made for.
    fn wss(&mut self, window: Duration, now: Instant) -> u64 {
        self.rwss(Reuses::NONE, window, now)
    }

    /// `RWSS_N` of every window, in the order of [`Windows`]; what [`Chooser::observe`] takes.
    fn ladder(&mut self, reuses: Reuses, now: Instant) -> Vec<u64>;

    /// All memory held.
    fn memory(&self) -> Bytes;
}
