//! Memory with prefetch: what miners fetch into a small buffer, and what a guest has of it.
//!
//! ```text
//!   reads ─► Buffer (fifo, lru, ...) or Pool ── hit?
//!     │         ▲  │
//!     │         │  └─ left unread ─► Price
//!     └─► miners of the disk ─► guesses ─► Price ─► fetched, at once
//! ```
//!
//! The experiment of VIP, section 4.3.3: a buffer of a fixed size that holds what was read and what was fetched
//! ahead, under a replacement policy; hits, precision, requests. In place of that buffer the daemon's pool of frames can
//! be tried. Miners and price are the crate `prefetch`'s, as the daemon's are. A write or a discard takes its blocks out of
//! memory. What is fetched is there with the next request: the experiment tells what guesses are worth, not how long they
//! take.
//!
//! Units: blocks of 4 KiB. Hits of requests are reads of which every block was in memory.

mod buffer;
mod guests;
mod pool;
mod ram;
mod replay;
mod workload;

pub use ram::{RamError, RamPolicy};
pub use replay::{Experiment, Tally, Waste, replay};
pub use workload::Workload;
