//! A storage medium in memory, with a volatile write cache and a power switch, and a plan of
//! faults: what `device::memory`, `origin::memory` and both `faulty` wrappers are made of.
//!
//! Everything random comes from a [`units::Prng`]; the same seed and the same calls give the
//! same bytes, the same order of completions and the same faults.
//!
//! ```text
//!   submit ─► pending ─(due)─► volatile image ─(flush, fua)─► durable image
//!                │                   │                             │
//!   crash: each pending or unflushed write is kept, lost or torn ──┘
//! ```

#![forbid(unsafe_code)]

mod at_once;
mod faults;
mod image;
mod injector;
mod limits;
mod medium;

pub use at_once::{FlashBytes, carry_out, flash_done, medium_verb};
pub use faults::{Fault, Faults, Kind};
pub use image::{Image, WriteMark};
pub use injector::Injector;
pub use medium::{Medium, MediumOptions, Session};
