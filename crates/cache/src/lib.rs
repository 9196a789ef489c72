//! The cache state machine of a shard: request or completion in, effects out.
//!
//! [`Cache`] serves guests' requests for disks whose *origin* is slow and far, from *flash* that
//! is fast and near. It is pure: its driver tells it what happened and when, and carries out the
//! [`Effect`]s that it gives. The same code runs in the daemon and in the deterministic world.
//!
//! ```text
//!            request, flash_done, origin_done, control, tick
//!                                │
//!  ┌─────────────────────────────▼──────────────────────────────┐
//!  │ Cache routes                                               │
//!  │ commands, attach     what the operator asks, begun, ended  │
//!  │ late_writes, retirement   flash that is late, or fails     │
//!  │ facts                what there is to see                  │
//!  ├────────────────────────────────────────────────────────────┤
//!  │ what sees a few parts for one event                        │
//!  │ reads  (GuestReads)  hits, misses, what is dirty, prefetch │
//!  │ writes (Through)     distrust durably, then the origin     │
//!  │ back   (BackRequests, Destager, Changes)   into the dirty  │
//!  │        log, on to the origin, under write-back and out     │
//!  │ origin_flushes       what a failed flush takes along       │
//!  │ admitter   what enters         division   shares, windows  │
//!  ├────────────────────────────────────────────────────────────┤
//!  │ what has a state of its own, and knows no Cache            │
//!  │ disks   under_way (Reads)   writes (Writes)   back (Backs) │
//!  │ jobs   fills   prefetches   tenants   views   ports        │
//!  │ flash_use   host_record   lateness   late_reads            │
//!  │ slow_reads   hints   scrub                                 │
//!  │ admission  verdicts, bytes that wait in memory for one     │
//!  │ block-store  what lies on flash: index, segments, journal, │
//!  │              dirty logs, recovery                          │
//!  └─────────────────────────────┬──────────────────────────────┘
//!                                ▼
//!              Effect: Flash, Origin, Reply, Retire, Reinstate, ControlDone
//! ```
//!
//! [`Recovery`] makes a [`Cache`] of what is on flash, in the same way: effects out, completions
//! in. [`format()`] makes an empty one. Only `block-store` knows how it lies there.
//!
//! Under the write policies `through` and `around` the origin has every byte that was
//! acknowledged, so the flash may be lost. Under `back` the flash alone has what is *dirty*: the
//! disk's log keeps those writes in the order in which they were accepted, until a destage has
//! brought them to the origin durably. Under every policy a clean block on flash is *trusted*
//! after a crash only if the segment table says so, and it says so only while the block surely
//! equals the origin's. The book tells it at length (`format.md`).

#![forbid(unsafe_code)]

mod admitter;
mod api;
mod back;
mod cache;
mod disks;
mod division;
mod fills;
mod flash_use;
mod foresight;
mod hints;
mod host_record;
mod jobs;
mod late_reads;
mod lateness;
mod lending;
mod limits;
mod loan;
mod origin_flushes;
mod ownership;
mod ports;
mod prefetches;
mod purpose;
mod reads;
mod record_loans;
mod recovery;
mod request;
mod scrub;
mod scrubbed;
mod shipment;
mod slow_reads;
mod stats;
mod tenants;
mod under_way;
mod views;
mod write_back;
mod writes;

use core_guards as guard;

pub use admission::Hint;
pub use api::{
    Command, Config, ControlError, ControlId, ControlOutcome, DropReason, Effect, OwnerRecord,
    Request, RequestId, Tenure, WritePolicy,
};
pub use block_io::Verb;
pub use block_store::{
    ColdReason, Committed, Damage, DirtyReport, FormatOptions, FoundBytes, FoundRecord, FoundWhat,
    LeftChunk, LockReason, LogReport, OpenError, RetainedUpdate, SegmentCounts, format,
};
pub use cache::{Cache, Facts, Guest, Kept, Mode, Status};
pub use foresight::Foreseen;
pub use hints::Hinted;
pub use loan::{Borrowed, LoanId, LoanRequest, NotLent, RecordsAsked};
pub use recovery::{Inspection, Recovered, Recovery};
pub use scrubbed::{ScrubPass, ScrubStatus, Scrubbed};
pub use shipment::{Shipment, Shipped, ShippedWhat};
pub use stats::{DiskStats, FlashWritten, NotAdmitted, Stats};
pub use tenants::TenantStatus;
pub use views::ViewStats;
pub use write_back::{DestageOrder, DestageState, DirtyStatus, Follower, OfDirty, WriteBack};
