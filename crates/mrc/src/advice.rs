//! What follows from a curve: what size pays, what it does to latency and to the flash, or why no
//! size does.
//!
//! ```text
//!   behaviour, workload, costs ─► Outlook of a size  (outlook.rs: arithmetic, no opinion)
//!   candidates, behaviour ─► where it is level        (sizes.rs)
//!   outlooks ─► Advice: size, verdict, reasons       (verdict.rs: thresholds, named)
//!   outlook of a size, memory in front ─► MemoryOutlook  (memory.rs)
//! ```
//!
//! Everything here is arithmetic on means: no queues, no bursts, unless the behaviour brings times of a model that has
//! them. A request that misses waits for the origin; filling the cache happens behind its back. Units: blocks, bytes, seconds, and days of 86,400
//! of them.

mod memory;
mod outlook;
mod sizes;
mod verdict;

pub use memory::MemoryOutlook;
pub use outlook::{
    Behaviour, BySize, Costs, Drive, Endurance, FlashWrites, Outlook, Prices, Rates, Scenario,
    Times, Workload, WriteMode,
};
pub use sizes::{Sizes, candidates};
pub use verdict::{Advice, Caution, Obstacle, Verdict, advise, limits};
