//! What retained memory is told of dirty logs, as far as they are not on flash yet.
//!
//! To a guest an accepted write is in its disk's cache, which does not lose its power when our
//! process ends. So each record is told, before the write is answered, to memory that a later
//! process finds again ([`RetainedUpdate`]); when its chunk is on flash its place is free again.
//!
//! ```text
//!  chunk opened: Begin ─► each record: Push ─► ... ─► chunk written: Clear
//! ```

use block_io::Slice;
use flash_format::{RECORD_BYTES, RETAINED_HEAD_BYTES};

/// A change of retained memory. It is carried out at once, before any reply that comes behind it
/// is sent.
#[derive(Clone, Debug)]
pub enum RetainedUpdate {
    /// A chunk begins in a place; nothing of what was there before counts.
    Begin {
        /// Which place: below [`crate::Config::retained_places`].
        place: u32,
        /// What it is.
        head: [u8; RETAINED_HEAD_BYTES],
    },
    /// Another record.
    Push {
        /// Of the chunk in this place.
        place: u32,
        /// What it is.
        record: [u8; RECORD_BYTES],
        /// The 4 KiB of the block, and which of the chunk's blocks it is, from 0.
        page: Option<(u32, Slice)>,
    },
    /// The chunk is on flash: nothing in the place counts any more.
    Clear {
        /// Which place.
        place: u32,
    },
}
