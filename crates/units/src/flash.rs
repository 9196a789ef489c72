//! Where on flash.

use std::fmt;

/// A place for one block on a cache's flash: a page of its segments. Slot 0 is the first page of
/// the first segment, which holds a header
/// and never a block, so zero can stand for "nowhere".
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlashSlot(u32);

impl FlashSlot {
    /// The slot with this number.
    ///
    /// # Panics
    /// If the number is zero.
    pub const fn new(number: u32) -> Self {
        assert!(number != 0, "flash slot 0 never holds a block");
        Self(number)
    }

    /// The slot with this number, or `None` for zero.
    pub const fn checked_new(number: u32) -> Option<Self> {
        if number == 0 {
            None
        } else {
            Some(Self(number))
        }
    }

    /// The number as a table index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// The slot `pages` further.
    ///
    /// # Panics
    /// If that lies beyond the last 32-bit slot.
    pub const fn advance(self, pages: u32) -> Self {
        Self(
            self.0
                .checked_add(pages)
                .expect("slots are 32-bit page numbers"),
        )
    }

    /// The number.
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl fmt::Debug for FlashSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "s{}", self.0)
    }
}
