//! Limits of what the guests of a disk may ask in a second, and the requests that wait for them.
//!
//! ```text
//!  request ─► nothing waits, both buckets allow it ─► passes
//!     └─────► waits behind the earlier ones ── next_deadline() ─► take_due() ─► passes
//! ```
//!
//! A disk has a bucket of operations and one of bytes ([`Gcra`]); a request passes when both allow it.
//! Requests of a disk pass in the order in which they came. Pure: the clock is handed in.

#![forbid(unsafe_code)]

mod gcra;
mod waiting;

pub use gcra::Gcra;
pub use waiting::{Limits, Throttle, Throttled};
