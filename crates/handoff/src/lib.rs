//! Handing the disks of a VM from one host to another, without I/O: events in, actions out.
//!
//! Two hosts list the same disks. One of them is their *owner*: its cache is named by the owner's record,
//! and it alone writes to the origin. The other *stands by* until a guest of its own asks to write; then it
//! *claims* the disks, and the owner *grants* them:
//!
//! ```text
//!   owner                                                       standby
//!   Owning ◄────────────────────── Claim ────────────────────── Claiming ◄── a guest asks
//!     │ its guest has stopped, says the evidence
//!   Stopping: settle ► close ► decide       a request, a failure
//!     │  the decision is durable       └──► Refuse ───────────► waits, claims again
//!   Giving: record ► unlock ─────────────── Grant ────────────► Taking: lock, open, compare the record
//!     │                                                           │
//!   Standby, remembers whom it gave them                        Owning, with the next epoch
//! ```
//!
//! It is a two-phase commit. The owner coordinates it, the *decision* is a small file of the owner's host, and
//! the owner's record is the register in which the outcome stands: its epoch only rises. No clock decides
//! anything. The disks of a VM are one unit: one claim, one decision, one grant.
//!
//! The machine is [`Ownership`]. A host has one for each unit; both roles are states of the same machine,
//! since a unit comes back the way it went. [`Evidence`] collects what says that the owner's guest has stopped. A
//! [`Gate`] says of each request of the guests whether it is carried out, waits or fails. `tests/model.rs` walks through every order of events of two
//! hosts, with crashes, lost links and writes whose outcome is not known. Why it is as it is: decision 0027.
//! What the origin lacks may go along with the disks: [`Shipping`] and [`Keeping`] say when the other host has all of it. Base images have no owner: [`Image`]
//! says if those of two hosts are the same.

#![forbid(unsafe_code)]

mod event;
mod evidence;
mod gate;
mod guard;
mod image;
mod message;
mod ownership;
mod partners;
mod shipping;

pub use event::{Action, Client, Decision, Event, Found, Holder, Record, TakeError};
pub use evidence::{
    Accepts, Evidence, INCOMING_READS, INCOMING_WAITS, SILENCE, Traces, Verdict, verdict_of,
};
pub use gate::{Gate, Hold, IncomingClient, Look, Notice, Passage, Wants};
#[cfg(feature = "mutants")]
pub use guard::{Guard, remove};
pub use image::{Image, ImageDiffers, sampled_of};
pub use message::{Message, Refusal};
pub use ownership::{Ownership, Role};
pub use partners::{Heard, Partners, Word, first};
pub use shipping::{Came, Keeping, Kept, Question, Shipping, Stretch};
