//! The pool of 4 KiB frames in memory in front of a shard's flash: one bound for all that a cache holds of blocks in
//! memory.
//!
//! ```text
//!   a key ─► row { key, tenant, kind } ─► frame: the block's bytes
//!
//!   kind     why it is there               leaves when
//!   staged   admission said Stage          admission says so
//!   ahead    prefetched, not used yet      used · changed · not read for long · the oldest of its tenant, for another or for a
//!                                          staged block
//!   hot      read, and worth a frame       its policy says so · changed · for a staged or prefetched block
//! ```
//!
//! - A block has one frame at most, of one kind.
//! - **A frame equals the origin's bytes, or is gone.** The pool knows no bytes: its owner puts in what surely equals the
//!   origin's, and says [`Frames::change`] the moment a change to the block arrives.
//! - **Losing a frame costs speed only**, so a pool that is full lets the oldest go, or does not take a newcomer.
//! - **The bound counts everything**: frames, rows, the places of the bytes. All tables are taken when the pool is made or
//!   resized ([`Frames::new`]); [`Frames::memory`] is never above [`Frames::size`].
//! - What is staged goes first: admission has divided that part already, and the pool has a frame for each block that may
//!   be staged ([`Settings`]). All others are for hot blocks; prefetched ones have a quarter of all at most, of those that
//!   are free or hot. Each tenant has its share of both ([`Frames::divide`]).
//! - A prefetched block has a label: whose guess it was. The pool says how many left unread, by label.
//! - Which block is hot a policy says, one for each tenant ([`policy::memory`]).
//!
//! **Pure.** No clock, no dice; the same calls leave the same frames.

#![forbid(unsafe_code)]

mod counts;
mod kind;
mod pool;
mod settings;
mod tenants;

pub use counts::AheadCounts;
pub use kind::{Kind, LABELS};
pub use pool::{AHEAD_PARTS, Ahead, Frames};
pub use settings::{Part, Settings};
