//! Traces through caches: what would this cache do for that workload?
//!
//! ```text
//!   trace ─► engine ─► runs: cache ─► counters ─► result ─► table, JSON, csv, Parquet
//!            one reading,      │         │                  report
//!            many threads      └─► latency, series
//! ```
//!
//! | module | what |
//! |---|---|
//! | [`study`] | policies x sizes over a trace: what is asked, and the passes it takes |
//! | `memory`, `plan` | what runs take, and which of them go at once |
//! | `engine` | one reading of a trace feeds many runs on many cores |
//! | `cache` | caches under simulation: policies over blocks in place, the daemon's log of segments |
//! | `account` | one run: counts, samples, latency |
//! | [`mod@prefetch`] | memory in front of all of that, and what miners fetch into it |
//! | [`device`], [`latency`] | how long the I/O of a run would have taken |
//! | [`extents`] | a sample of a trace, for caches that look at neighbours |
//! | [`gather`] | writes gathered in memory, flushes honoured and not |
//! | [`fleet`] | hosts whose flash is balanced by moves of VMs, each VM a series of demand and a curve |
//! | [`result`], [`columns`] | what a run answers, and the columns of every table of it |
//! | [`csv`], [`mod@parquet`], [`manifest`], [`report`] | files that are written of it |
//!
//! Results are the same on every run and for every number of threads: dice are decided by a seed, and no
//! run shares anything with another.

#![forbid(unsafe_code)]

mod account;
mod cache;
pub mod columns;
mod counters;
pub mod csv;
mod destaged;
pub mod device;
mod engine;
mod error;
pub mod extents;
pub mod fleet;
mod future;
pub mod gather;
mod heat;
pub mod latency;
pub mod manifest;
mod memory;
mod number;
mod outcome;
pub mod parquet;
mod plan;
pub mod policy;
pub mod prefetch;
pub mod report;
pub mod result;
mod series;
mod size;
pub mod study;
mod tier;
mod warmup;
mod write_policy;

pub use cache::{divided_log, simulated_store, write_back};
pub use counters::Counters;
pub use error::SimError;
pub use heat::{Heat, HeatMap};
pub use latency::{Arrival, LatencySettings};
pub use manifest::{Manifest, TraceFile};
pub use plan::{Limits, Plan};
pub use policy::{Admission, Host, Policy, Staging};
pub use result::RunResult;
pub use series::{Axis, Interval, Sample, Series, VmSample};
pub use size::{CacheSize, SizeError};
pub use study::{Failure, Observer, Study, StudyResult};
pub use tenancy::{Measure, Settings as HostSettings, Spare, Window};
pub use tier::Tier;
pub use warmup::Warmup;
pub use write_policy::{WriteMiss, WritePolicy};
