//! What lies on the flash of a shard: clean blocks, dirty logs, and the tables that say what of them may
//! be trusted after a crash.
//!
//! A [`Store`] knows no request and no origin. Its caller hands it blocks to keep, asks where they are,
//! has them read, distrusts and forgets them; the store appends them in chunks, reclaims segments,
//! commits its journal and writes checkpoints. It is pure: what is to be done comes out of its
//! [`Ports`], and what has been done goes in again. [`Recovery`] makes a store of what is on flash,
//! [`Inspection`] only looks, [`format()`] makes an empty one.
//!
//! ```text
//!        admit, take_for_write, read, write_back, tables_mut, facts ...
//!  ┌──────────────────────────────▼──────────────────────────────┐
//!  │ store      routes: calls to the modules below, completions  │
//!  ├─────────────────────────────────────────────────────────────┤
//!  │ reclaim    makes segments free          rest  rewritten     │
//!  │ writer     chunks, footers, checksums   dirty logs          │
//!  │ trust      what a recovery may believe  durability          │
//!  │ journal    group commit   checkpoint    disks  their table  │
//!  │ index      where each clean block is, exactly               │
//!  │ segment-log: segments, streams, what is reclaimed           │
//!  └──────────────────────────────┬──────────────────────────────┘
//!                                 ▼
//!     effects: flash, retained memory, flushes of origins
//!     notices: written, evicted, moved, failed          wake-ups
//! ```
//!
//! Each of these is a type with private state. It takes what it needs as arguments, or as a view of other
//! modules' state (`Copies`, `LogTables`, `Streams`), and asks for operations at the ports; what it
//! cannot do itself it says in what it returns. None knows the store.
//!
//! What is kept of a block is a parameter ([`Payload`]): 4 KiB with a checksum ([`Pages`]), or nothing
//! ([`Nothing`]). The simulator runs a store of the latter ([`simulated`]).
//!
//! A clean block on flash is *trusted* after a crash only if the segment table says so, and it says so
//! only while the block surely equals the origin's. The bytes are described in the book
//! (`format.md`).

#![forbid(unsafe_code)]

mod checkpoint;
mod chunks;
mod config;
mod copies;
mod dirty;
mod disks;
mod durability;
mod effects;
mod encryption;
mod facts;
mod format;
mod identity;
pub mod index;
mod intake;
mod journal;
mod limits;
mod lock;
mod payload;
mod ports;
mod reclaim;
mod recovery;
mod rest;
mod retained;
mod snapshot;
mod stats;
mod store;
mod table_writes;
mod trust;
mod trusted;
mod walk;
mod write_count;
mod writer;

use core_guards as guard;

pub use config::Config;
pub use dirty::{DirtyDisk, DirtyDisks};
pub use disks::{Served, slots};
pub use durability::Origins;
pub use effects::{Damage, Effect, Own, Purpose};
pub use encryption::Ciphers;
pub use facts::{Committed, SegmentCounts};
pub use format::{FormatOptions, format};
pub use intake::Intake;
pub use journal::{Journal, Ticket};
pub use lock::LockReason;
pub use payload::{Nothing, Pages};
pub use ports::{Payload, Ports, Tag};
pub use recovery::{
    ColdReason, DirtyReport, FoundBytes, FoundRecord, FoundWhat, Inspection, LeftChunk, LogReport,
    OpenError, Recovered, Recovery,
};
pub use retained::RetainedUpdate;
pub use segment_log::FlashWritten;
pub use stats::{NotTaken, Stats};
pub use store::simulated;
pub use store::{
    Condemning, Contents, Facts, Freeing, Location, Progress, Resident, Residents, SegmentUse,
    Shares, Store, TableChanges, Taken, WriteBack,
};
pub use write_count::WriteCount;
pub use writer::NoRoom;
