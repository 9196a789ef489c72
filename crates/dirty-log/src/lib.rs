//! The records of a disk's dirty log, in memory: what its origin lacks, and in which order it was
//! written.
//!
//! Under write-back the flash has bytes that the origin lacks. A [`DirtyLog`] knows which, in which
//! order they came and where one interval ends; [`Repeats`] knows what a recovery would bring to the
//! origin once more. Positions and slots come from outside: nothing here reads or writes.
//!
//! | part | what it is |
//! |---|---|
//! | [`DirtyLog`] | records, intervals, watermark, which record of a block is the newest |
//! | [`RecordNumber`] | which record of a log: older ones have lower numbers |
//! | `records` | where the log keeps them, in 24 bytes each at most |
//! | [`Erased`] | ranges that read as zeroes |
//! | [`Repeats`] | what the origin has and a recovery would write again |

#![forbid(unsafe_code)]

/// Blocks that one record erases at most, so that an erasure of gigabytes never holds up another disk: 65,536
/// probes of an index take a few milliseconds.
pub const ERASE_BLOCKS_MAX: u32 = 65_536;

mod erased;
mod log;
mod number;
mod record;
mod records;
mod repeats;

pub use erased::Erased;
pub use log::DirtyLog;
pub use number::RecordNumber;
pub use record::{Found, Record, What};
pub use repeats::Repeats;
