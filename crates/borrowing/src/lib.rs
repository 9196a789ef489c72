//! Reads of a disk that has come from another host, answered from the cache that it had there, without I/O.
//!
//! A disk comes with everything at its origin: what the other host, the *lender*, has cached of it is what the
//! origin has. So a read of the origin may be answered by the lender, as long as nothing was written here. That
//! is all there is to it, whatever the write policy: a [`Borrower`] stands before the origin and sees every
//! operation of it.
//!
//! ```text
//!            ┌── every block listed, none changed ──► Ask ──► lender ─► got ──► done
//!   read ────┤                                         └─ refused, late, gone ─┐
//!            └── else ─────────────────────────────────────────────────────────┴─► origin
//!   write, discard, zeroes: changed from now on ─────────────────────────────────► origin
//! ```
//!
//! A host that is about to get the disk can copy the cache ahead; the host that has it tells by its [`Changes`]
//! what of the copy is stale.
//!
//! Why it is as it is: decision 0029.

#![forbid(unsafe_code)]

mod blocks;
mod borrower;
mod bucket;
mod changes;
mod guard;
mod run;
mod without_origin;

pub use borrower::{Ask, Borrower, Ended, LATE_REST, LOAN_BLOCKS_MAX, LOAN_TIME_MAX, Manner};
pub use bucket::Bucket;
pub use changes::Changes;
#[cfg(feature = "mutants")]
pub use guard::{Guard, remove};
pub use run::Run;
pub use without_origin::without_origin;
