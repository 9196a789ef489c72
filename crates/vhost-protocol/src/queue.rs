//! A split virtqueue, from the device's side.
//!
//! ```text
//!  available ring (the guest writes)          used ring (we write)
//!   0 flags │ 2 idx │ 4 heads[size] │ used_event     0 flags │ 2 idx │ 4 {id, len}[size] │ avail_event
//!                 ▲                                        ▲
//!   next_available┘ read up to here          next_used ────┘ written up to here, `published` seen
//! ```
//!
//! What is answered is put first and published together: one store makes a batch visible, and one
//! interrupt tells of it.
//!
//! Invariants:
//! - `next_available` never overtakes the guest's index, which is never believed to be more than
//!   the ring's size ahead.
//! - Heads that [`Queue::pop`] gives out are below the ring's size.
//! - After [`Queue::listen`] has said that there is nothing, the guest kicks when there is.

use crate::area::Area;
use crate::limits::QUEUE_SIZE_MAX;
use std::sync::atomic::{Ordering, fence};

const FLAGS: usize = 0;
const INDEX: usize = 2;
const ENTRIES: usize = 4;
const HEAD_BYTES: usize = 2;
const USED_BYTES: usize = 8;
const DESCRIPTOR_BYTES: usize = 16;

/// In the available ring's flags: do not interrupt.
const NO_INTERRUPT: u16 = 1;
/// In the used ring's flags: do not kick.
const NO_NOTIFY: u16 = 1;

/// Why a queue cannot be used, or not any longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadQueue {
    /// Not a power of two, zero, or too many.
    #[error("a queue cannot have {0} descriptors")]
    Size(u32),
    /// A part of the ring is not as long as the size needs.
    #[error("the queue's memory is too short")]
    Short,
    /// The guest says that there is more than fits.
    #[error("the guest's index is {ahead} ahead, of {size} at most")]
    Runaway {
        /// How far it is ahead.
        ahead: u16,
        /// How far it can be.
        size: u16,
    },
    /// A head that is no descriptor.
    #[error("the guest offers descriptor {head} of {size}")]
    Head {
        /// The head.
        head: u16,
        /// Descriptors that there are.
        size: u16,
    },
}

/// The three parts of a ring.
#[derive(Clone, Debug)]
pub struct QueueAreas<A> {
    /// The descriptors.
    pub descriptors: A,
    /// What the guest offers.
    pub available: A,
    /// What was answered.
    pub used: A,
}

impl<A> QueueAreas<A> {
    /// Bytes that each part must have: descriptors, available, used.
    pub fn bytes(size: u16) -> (usize, usize, usize) {
        let size = usize::from(size);
        (
            size * DESCRIPTOR_BYTES,
            ENTRIES + size * HEAD_BYTES + 2,
            ENTRIES + size * USED_BYTES + 2,
        )
    }
}

/// A split virtqueue that is being served.
#[derive(Debug)]
pub struct Queue<A> {
    areas: QueueAreas<A>,
    size: u16,
    by_index: bool,
    next_available: u16,
    /// Where the next answer goes.
    next_used: u16,
    /// What the guest sees.
    published: u16,
    /// What it saw when it was last told, or should have been.
    signalled: Option<u16>,
    /// We asked the guest not to kick.
    is_quiet: bool,
}

/// Whether `number` can be a queue's size.
///
/// # Errors
/// [`BadQueue::Size`].
pub(crate) fn check_size(number: u32) -> Result<u16, BadQueue> {
    match u16::try_from(number) {
        Ok(size) if size.is_power_of_two() && size <= QUEUE_SIZE_MAX => Ok(size),
        _ => Err(BadQueue::Size(number)),
    }
}

impl<A: Area> Queue<A> {
    /// Checks a size that was asked for.
    ///
    /// # Errors
    /// [`BadQueue::Size`].
    pub fn check_size(number: u32) -> Result<u16, BadQueue> {
        check_size(number)
    }

    /// A queue that goes on at the available index `base`, and in the used ring where that ring
    /// says. With `by_index`, notifications are asked for by index (`EVENT_IDX`).
    ///
    /// # Errors
    /// If the size is none, or the areas are shorter than it needs.
    pub fn new(
        areas: QueueAreas<A>,
        size: u16,
        base: u16,
        by_index: bool,
    ) -> Result<Self, BadQueue> {
        check_size(u32::from(size))?;
        let (descriptors, available, used) = QueueAreas::<A>::bytes(size);
        let is_short = areas.descriptors.len() < descriptors
            || areas.available.len() < available
            || areas.used.len() < used;
        if is_short {
            return Err(BadQueue::Short);
        }
        let next_used = areas.used.load_u16(INDEX);
        Ok(Self {
            areas,
            size,
            by_index,
            next_available: base,
            next_used,
            published: next_used,
            signalled: None,
            is_quiet: false,
        })
    }

    /// Descriptors of the ring.
    pub fn size(&self) -> u16 {
        self.size
    }

    /// The index of the entry that is read next.
    pub fn next_available(&self) -> u16 {
        self.next_available
    }

    /// Goes on reading at another index: what lies before was taken by somebody earlier.
    pub fn resume_at(&mut self, next_available: u16) {
        self.next_available = next_available;
    }

    /// The used index that the guest sees.
    pub fn used_index(&self) -> u16 {
        self.published
    }

    /// The parts of the ring.
    pub fn areas(&self) -> &QueueAreas<A> {
        &self.areas
    }

    /// The parts of the ring, to change how they are reached.
    pub fn areas_mut(&mut self) -> &mut QueueAreas<A> {
        &mut self.areas
    }

    /// Chains that the guest offers and that were not taken yet.
    ///
    /// # Errors
    /// [`BadQueue::Runaway`].
    pub fn waiting(&self) -> Result<u16, BadQueue> {
        let index = self.areas.available.load_u16(INDEX);
        let ahead = index.wrapping_sub(self.next_available);
        if ahead > self.size {
            let size = self.size;
            return Err(BadQueue::Runaway { ahead, size });
        }
        Ok(ahead)
    }

    /// The head of the next chain that the guest offers.
    ///
    /// # Errors
    /// [`BadQueue`]: the ring makes no sense any more.
    pub fn pop(&mut self) -> Result<Option<u16>, BadQueue> {
        if self.waiting()? == 0 {
            return Ok(None);
        }
        let place = usize::from(self.next_available % self.size);
        let head = self.areas.available.load_u16(ENTRIES + place * HEAD_BYTES);
        if head >= self.size {
            let size = self.size;
            return Err(BadQueue::Head { head, size });
        }
        self.next_available = self.next_available.wrapping_add(1);
        Ok(Some(head))
    }

    /// A descriptor's sixteen bytes, read once.
    ///
    /// # Panics
    /// If the ring has no such descriptor.
    pub fn descriptor(&self, index: u16) -> [u8; DESCRIPTOR_BYTES] {
        assert!(index < self.size, "a descriptor of the ring");
        let mut bytes = [0; DESCRIPTOR_BYTES];
        let at = usize::from(index) * DESCRIPTOR_BYTES;
        self.areas.descriptors.load(at, &mut bytes);
        bytes
    }

    /// Puts an answer in: `written` bytes of the chain's writable part were filled. The guest
    /// sees it after [`Queue::publish`].
    pub fn put(&mut self, head: u16, written: u32) {
        let place = usize::from(self.next_used % self.size);
        let entry = [u32::from(head), written].map(u32::to_le_bytes).concat();
        self.areas.used.store(ENTRIES + place * USED_BYTES, &entry);
        self.next_used = self.next_used.wrapping_add(1);
    }

    /// Shows the guest every answer that was put in.
    pub fn publish(&mut self) {
        if self.published != self.next_used {
            self.areas.used.store_u16(INDEX, self.next_used);
            self.published = self.next_used;
        }
    }

    /// Whether the guest wants to be interrupted for what was published since the last time that
    /// this was asked. Call it once after publishing.
    pub fn wants_interrupt(&mut self) -> bool {
        let before = self.signalled.replace(self.published);
        if before == Some(self.published) {
            return false;
        }
        // What we published must be seen before what the guest wants is looked at; the guest
        // does the same the other way round.
        fence(Ordering::SeqCst);
        if !self.by_index {
            return self.areas.available.load_u16(FLAGS) & NO_INTERRUPT == 0;
        }
        let Some(before) = before else { return true };
        let at = ENTRIES + usize::from(self.size) * HEAD_BYTES;
        let event = self.areas.available.load_u16(at);
        // Whether `event` is among the entries published since.
        self.published.wrapping_sub(event).wrapping_sub(1) < self.published.wrapping_sub(before)
    }

    /// Asks the guest not to kick: the ring is looked at anyway.
    pub fn be_quiet(&mut self) {
        if !self.is_quiet {
            self.is_quiet = true;
            if self.by_index {
                // An index that the guest has gone past.
                let at = ENTRIES + usize::from(self.size) * USED_BYTES;
                let passed = self.next_available.wrapping_sub(1);
                self.areas.used.store_u16(at, passed);
            } else {
                self.areas.used.store_u16(FLAGS, NO_NOTIFY);
            }
        }
    }

    /// Asks the guest to kick for the next chain. True if one has come meanwhile: then look again
    /// before waiting.
    ///
    /// # Errors
    /// [`BadQueue::Runaway`].
    pub fn listen(&mut self) -> Result<bool, BadQueue> {
        self.is_quiet = false;
        if self.by_index {
            let at = ENTRIES + usize::from(self.size) * USED_BYTES;
            self.areas.used.store_u16(at, self.next_available);
        } else {
            self.areas.used.store_u16(FLAGS, 0);
        }
        // The guest must see that before we look a last time.
        fence(Ordering::SeqCst);
        Ok(self.waiting()? > 0)
    }
}

#[cfg(test)]
mod tests;
