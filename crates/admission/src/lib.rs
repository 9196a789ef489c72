//! What enters the flash of a cache: the verdicts of its tenancy, and what waits in memory for one.
//!
//! ```text
//!   request ─► arrives ─────────► Arrival, which goes with each question about its blocks
//!   each block:
//!     on flash ───────────► hit
//!     staged ─────────────► staged_hit ─► stays | goes to flash | is gone
//!     neither, its bytes
//!     at hand ────────────► missed ─────► admit | stage | refuse
//!   written while cached ─► rewrites      written while in memory, erased ─► change
//!   reclaim dropped it ───► evicted       bytes went to flash ──────────► charge
//!
//!   window ends ──────────► tick ─► shares have changed
//!   after each of these ──► next_let_in ─► what left staging for flash, until there is no more
//! ```
//!
//! [`AdmissionControl`] has three states. *Open*: there are no tenants, and nobody is asked. *Tenants*: a
//! [`Tenancy`](tenancy::Tenancy) gives the verdicts. *Closed*: its settings contradict each other, so
//! nothing enters the flash, since it is not known what may.
//!
//! **What waits** is a type of the owner's: the bytes of a block in the daemon, nothing in the simulator.
//! A staged block is in staging until the tenancy sends it off, its owner takes it out, or it is let in.
//! What is let in is asked for with [`AdmissionControl::next_let_in`], in the order of the verdicts; a
//! block that then finds no room is given back with [`AdmissionControl::withheld`].
//!
//! The blocks are in a pool of [`frames`](frames::Frames) with those that were prefetched, and with copies of what is
//! read often enough.
//!
//! **A frame equals the origin's bytes, or is gone**: the same rule as for a fill that is admitted, kept in
//! the same places. A block is staged when its fill has come and nothing was written to it meanwhile, or
//! when the origin has acknowledged all of it and nothing else was written to it meanwhile. Its owner
//! takes it out ([`AdmissionControl::change`]) the moment a change to it arrives.
//!
//! **Pure.** Time comes in with each call. Nothing here fails or waits but a change of settings, which is
//! refused as a whole.

#![forbid(unsafe_code)]

mod control;
mod hints;
mod key;
mod saved;

pub use control::AdmissionControl;
pub use frames::Kind;
pub use hints::{Hint, Hints};
pub use key::Key;
