//! The drives under a file: which they are, what the kernel and the drives themselves say of their health, and what
//! of that an operator should know.
//!
//! ```text
//!   path ─► place (st_dev, /sys/dev/block, partitions, slaves) ─► Storage ─► Drive ..
//!                                                                              │ device
//!                          smartctl --json -a DEVICE ─► smart (pure) ─► Smart ◄┘
//!                                                                              └─► judge (pure) ─► Concern ..
//! ```
//!
//! `smartctl` is somebody else's program that talks to hardware: it may be missing, lack rights, hang, or print
//! anything. Each of these is a [`Smart::Unknown`] that says what to do, and none of them holds up the caller for longer
//! than [`limits::ANSWER_TIME_MAX`].
//!
//! Units: bytes, degrees Celsius, percent of what the maker says the drive endures.

#![forbid(unsafe_code)]

mod ask;
mod judge;
pub mod limits;
mod place;
mod smart;

pub use ask::{Asker, Program};
pub use judge::{Concern, ConcernCode, judge};
pub use place::{Drive, DriveKind, Storage, drives_under};
pub use smart::{Health, Smart};
