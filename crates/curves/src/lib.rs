//! Traces through miss-ratio curves: opens nothing, prints nothing, drives [`mrc`] with what a
//! [`trace::Reader`] reads.
//!
//! ```text
//!   Reader ─► Splitter ─► keys ─► mrc::Exact
//!         └─► runs of blocks ───► mrc::FixedRate, mrc::FixedSize, mrc::Miniature
//!                  one for the whole trace, or one a volume as well
//!         └─► keys, time ─► policy::demand ─► reuse working sets: rows, forecasts, a series by window
//! ```
//!
//! The sampled methods never split requests into blocks: see `mrc::Spatial`. Discards and write-zeroes
//! take blocks out of the cache; flushes do nothing to it.

#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(clippy::float_cmp, reason = "ratios of small counts are exact")
)]

mod demand;
mod exact;
mod facts;
mod forecasts;
mod measure;
mod requests;
mod reuse;
mod sampled;
mod window_ends;

pub use demand::{DemandSeries, DemandSettings, DemandWindow, demand_series};
pub use facts::Facts;
pub use forecasts::{ForecastRow, ForecastSettings, forecast_rows};
pub use measure::{CurveError, Curves, Measured, Method, Settings, VolumeCurves, measure};
pub use reuse::{ReuseRow, ReuseSettings, reuse_rows};
