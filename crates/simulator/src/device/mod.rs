//! What flash and origin would have taken for the I/O of a run: a model of two devices.
//!
//! ```text
//!              arrivals, in order of time
//!                    │
//!                    ▼
//!   gate: one I/O after another, each holds it for max(1/iops, bytes/bandwidth)
//!                    │
//!                    ▼
//!   servers: `parallel` of them (or as many as it takes), the earliest free one takes the I/O
//!            and holds it for latency (fixed, or drawn) + bytes/bandwidth
//!                    │
//!                    ▼
//!              completion = start + latency + bytes/bandwidth
//! ```
//!
//! | file | what |
//! |---|---|
//! | [`distribution`] | latencies: fixed, exponential, log-normal |
//! | [`settings`] | a device's parameters, their text and presets |
//! | [`queue`] | one device: gate and servers |
//!
//! Times are nanoseconds since the run began; a wait at an IOPS cap is rounded to whole nanoseconds.

pub mod distribution;
pub mod queue;
pub mod settings;

pub use distribution::Latency;
pub use queue::{Device, Direction};
pub use settings::{DeviceError, DeviceSettings};
