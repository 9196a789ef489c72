//! `io_uring` with a safe face: a shard's one way to files, sockets and other threads.
//!
//! A [`Ring`] belongs to one thread. Every component that does I/O holds a [`Source`], a
//! mailbox on the ring: it submits [`Op`]s with tokens of its choice and pops [`Completion`]s.
//! The thread's loop calls [`Ring::submit_and_wait`] once a turn, which is one system call for
//! everything queued where turns are rare and a few where they come briskly, and asks [`Ring::take_ready`] whose mailboxes have something in them.
//!
//! ```text
//!  component ── Source::submit(token, Op) ──► slab (owns fd, Buf, Slices) ──► SQ ─┐
//!                                                                                 │ one
//!  component ◄─ Source::pop() ◄── mailbox of the source ◄── slab gives back ◄─ CQ ◄┘ enter
//!  other threads ── Sender::send ── eventfd ──► Mailbox (a source like any other)
//! ```
//!
//! Invariants:
//! - Whatever the kernel may read or write (buffers, message headers, descriptors) is owned
//!   by the slab from submission until its completion has been reaped; nobody else can reach
//!   it meanwhile. Dropping a source or the ring never shortens that.
//! - Every operation submitted is completed exactly once, with success, failure or `ECANCELED`,
//!   unless its source was dropped. A [`Source::signal`] is no such operation: only its failure is told.
//! - Results are the kernel's: a short transfer is reported as such and judged by the caller.

mod durable;
mod flight;
mod foreign;
mod limits;
mod mailbox;
mod op;
mod pace;
mod registered;
mod ring;
mod setup;
mod signals;
mod wait;
mod watch;

pub use durable::{FileSyncs, writes_through};
pub use foreign::Foreign;
pub use limits::{PIECES_MAX, SEND_SLICES_MAX};
pub use mailbox::{Mailbox, SendError, Sender, mailbox};
pub use op::{Completion, Op};
pub use ring::{Ring, Source, SourceId};
pub use watch::{Unwatched, Watch};
