//! Bringing a dirty log to its origin: what goes next, in which order, and how fast.
//!
//! ```text
//!  log ─► batch of one interval ─► each block once, sorted ─► read from flash, verified
//!           (2048 records)                                        │
//!  settled ◄─ origin flushed ◄─ interval over, or enough ◄─ written, several at a time
//! ```
//!
//! *In order*: nothing of an interval is written before the origin has all of the one before it
//! durably. The next batch is read while one is written. An interval that is one write is written
//! with FUA instead of a flush. *In any order*: whatever is newest, the longest runs first.
//!
//! What a refused write or flush of the origin leaves behind is not known, so everything since the
//! last flush that succeeded is written again, after a pause that grows.
//!
//! A [`Destage`] decides and does nothing: its driver reads the log, writes the origin and says what
//! has come of it.
//!
//! | part | what it is |
//! |---|---|
//! | [`Destage`] | the transfer of one log: a batch that is read, one that is written, the flush |
//! | `choose` | which records are the next batch |
//! | `plan` | what the records of a batch come to: each block once, neighbours together |
//! | `batch` | a batch on its way |
//! | [`carry()`] | in which order the steps come, whoever does them |
//! | [`WriteBack`] | what an operator can say: in which order, and when a log is due |
//! | `pace` | how many writes may be on their way, so that guests' reads do not suffer |
//! | [`ReadTimes`] | how long guests' reads take, beside what is usual |

#![forbid(unsafe_code)]

mod batch;
mod carry;
mod choose;
mod destage;
mod limits;
mod pace;
mod plan;
mod settings;
#[cfg(test)]
mod tests;
mod times;

pub use batch::{BatchId, BatchPage, BatchRead, Content, ReadId, Settles, Unfit};
pub use carry::{Carrier, carry};
pub use choose::Sequence;
pub use destage::{Batched, Destage, Failing, Flushed, Next, Paused, Write, WriteId};
pub use pace::{Go, Need, Pace};
pub use plan::{Piece, runs_of};
pub use settings::{DestageOrder, WriteBack};
pub use times::{ReadTimes, SampledReads};
