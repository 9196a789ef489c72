//! The pool of 4 KiB frames in memory in front of a shard's flash: one bound for all that a cache holds of blocks in
//! memory.
//!
//! ```text
//!   a key ─► row { key, tenant, kind } ─► frame: the block's bytes
//!
//!   kind     why it is there               leaves when
//!   staged   admission said Stage          admission says so
//!   ahead    prefetched, not used yet      used · changed · the oldest of its tenant, for another or for a staged block
//! ```
//!
//! - A block has one frame at most, of one kind.
//! - **A frame equals the origin's bytes, or is gone.** The pool knows no bytes: its owner puts in what surely equals the
//!   origin's, and says [`Frames::change`] the moment a change to the block arrives.
//! - **Losing a frame costs speed only**, so a pool that is full lets the oldest go, or does not take a newcomer.
//! - **The bound counts everything**: frames, rows, the places of the bytes. All tables are taken when the pool is made or
//!   resized ([`Frames::new`]); [`Frames::memory`] is never above [`Frames::size`].
//! - What is staged goes first: admission has divided that part already. Prefetched blocks have a quarter of the frames
//!   at most, and each tenant its share of that quarter ([`Frames::divide`]).
//!
//! **Pure.** No clock, no dice; the same calls leave the same frames.

#![forbid(unsafe_code)]

mod ahead;
mod pool;
mod tenants;

pub use ahead::AheadCounts;
pub use pool::{Frames, Kind};
