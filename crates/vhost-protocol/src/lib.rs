//! vhost-user-blk without I/O: what QEMU says, what a guest puts into its rings, and what both
//! must look like to be believed.
//!
//! ```text
//!  QEMU ── socket ──► Header, Request::decode ──► (descriptors come beside, the shell has them)
//!  guest ─ memory ──► Queue::pop ─► Chain::read ─► blk::Call::read ─► a request for the disk
//!                     Queue::put, publish ◄────────────────────────── its answer
//!                     Inflight: what was taken and not answered, for whoever comes after a crash
//! ```
//!
//! Memory that a guest can write is reached through two small traits, [`Area`] (a ring's part,
//! one piece) and [`GuestMemory`] (all of it, by guest address), so that this crate neither maps
//! nor points. Invariants:
//! - Everything in guest memory is read once, into values of ours, and judged there; what the
//!   guest changes afterwards changes nothing that was judged.
//! - No message and no content of memory makes this crate panic, loop for longer than a
//!   [`limits`] entry says, or keep more than that.
//! - All numbers of the protocols are little-endian; the messages are in host order, which on
//!   the machines that we run on is the same, and is taken as little-endian.

#![forbid(unsafe_code)]

mod area;
pub mod blk;
mod chain;
mod config;
mod cursor;
mod dirty;
mod features;
mod inflight;
pub mod limits;
mod message;
mod queue;
mod region;

pub use area::{Area, GuestAddress, GuestMemory, Unmapped};
pub use chain::{BadChain, Chain, Segment, Segments};
pub use config::ConfigSpace;
pub use dirty::{DirtyBits, PAGE_BYTES};
pub use features::{Features, ProtocolFeatures};
pub use inflight::{BadInflight, Inflight};
pub use message::{
    Descriptors, Header, MessageError, Request, RingAddresses, RingDescriptor, encode, reply,
};
pub use queue::{BadQueue, Queue, QueueAreas};
pub use region::{BadRegion, Region, RegionTable, Span};
