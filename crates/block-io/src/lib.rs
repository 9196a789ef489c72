//! The words between the pure core and the shell: buffers, what guests ask, operations on flash
//! and on an origin, and their outcomes.
//!
//! The core hands out [`FlashOp`]s and [`OriginOp`]s; a device or an origin carries them out
//! in any order and hands each back as a [`FlashDone`] or [`OriginDone`] with the same
//! [`Token`]. A buffer that is being read into travels with its operation and comes back with
//! the completion, so that nobody else can touch it while the kernel may.

#![forbid(unsafe_code)]

mod buf;
mod cipher;
mod error;
mod failure;
mod guest;
mod guest_buffer;
mod ops;
mod syncs;

pub use buf::{Buf, BufPool, PAGE_BYTES, Payload, Registration, Slice};
pub use cipher::BlockCipher;
pub use error::IoError;
pub use failure::{ErrorNumbers, Extent, FailureKind};
pub use guest::Verb;
pub use guest_buffer::{BounceBuffers, GuestBuffer, Place};
pub use ops::{
    FlashDone, FlashOp, FlashVerb, OriginDone, OriginGeometry, OriginOp, OriginVerb, Token,
};
pub use syncs::{Since, Syncs};
