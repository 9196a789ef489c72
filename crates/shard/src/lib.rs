//! One thread with one cache, its disks and their clients: the loop around the pure core.
//!
//! ```text
//!   control threads ── ShardHandle ──► mailbox ┐
//!   clients ◄─► dyn frontend::Connection ──────┤      ┌────────────┐
//!   flash   ◄─► Timed<device::Device> ─────────┼─────►│ the turn   │◄──► cache::Cache
//!   origins ◄─► Timed<origin::Origin> ─────────┘ ring └────────────┘  requests, completions in
//!                                                                     effects out
//! ```
//!
//! A shard never waits for anything but its ring. What may block (reaching an origin, writing
//! the state directory while the flash fails) happens on other threads and comes back as a
//! message. A shard with nothing to do sleeps until the earliest deadline of what it drives,
//! or for ever: no polling.
//!
//! When the flash cannot be used, at the start or later, the shard goes on without it: requests go
//! to their origins, the reason is in its status and in the log, and clean blocks on the flash will
//! not be believed again (`retirement.rs` says how that is remembered). A disk under `back` whose
//! dirty bytes are on that flash is first emptied into its origin, or refused.

#![forbid(unsafe_code)]

mod asker;
mod borrowed;
mod cache_record;
mod client;
mod clients;
mod commands;
mod control;
mod deadlines;
mod disk;
mod disks;
mod error;
mod failures;
mod flash;
mod guest_tell;
mod guest_words;
mod images;
mod jobs;
mod latency;
mod limits;
mod lost_blocks;
mod memory;
mod open;
mod others_origin;
mod own_requests;
mod owner_records;
mod owners;
mod progress;
mod records;
mod requests;
mod retained;
mod retirement;
mod roaming_words;
mod shard;
mod slow_flash;
mod sources;
mod spec;
mod standbys;
mod standstill;
mod status;
mod tap;
mod throttles;
mod tripwire;

pub use control::{
    Attached, AttachedImage, DetachHandle, GuestHandle, ImageHandle, LimitHandle, ScrubHandle,
    ShardHandle,
};
pub use error::{Reply, ShardError, SpawnError};
pub use frontend::Offer;
pub use guest_tell::GuestTell;
pub use latency::{Bucket, Histogram, ReadWrite};
pub use owners::{
    Attachment, ClusterRecords, Folders, Holder, LockWatch, Owner, OwnerError, OwnerFile, Replaced,
    Settled, StoredRecord, SystemError, Unreached, Vouched, host_name, read_record,
};
pub use retirement::RecordError;
pub use shard::Shard;
pub use spec::{DiskSpec, ShardConfig};
pub use standbys::{StandbyNeeds, StandbyTell, Watched};
pub use status::{
    DiskPhase, DiskStatus, FrontEndStatus, GuestLatency, Opening, RequestTimes, ShardStatus,
};
pub use tap::{Tap, TapEvent, TapVerb};
