//! Which bits of a dirty log a write sets.
//!
//! One bit for each page of guest physical memory, the lowest bit of the first byte for page 0.
//! Pure arithmetic: the shell sets the bits, atomically, since QEMU clears them meanwhile.

use crate::GuestAddress;

/// Bytes of a page of the log, whatever the guest's own pages are.
pub const PAGE_BYTES: u64 = 4096;

/// The bits of a range, a byte of the log at a time.
#[derive(Clone, Debug)]
pub struct DirtyBits {
    page: u64,
    /// The last page, or none are left.
    last: Option<u64>,
}

impl DirtyBits {
    /// The bits that a write of `length` bytes at `at` sets; none for an empty one. A range that
    /// ends beyond the address space ends with it.
    pub fn new(at: GuestAddress, length: u64) -> Self {
        let last = length.checked_sub(1).map(|more| at.0.saturating_add(more));
        Self {
            page: at.0 / PAGE_BYTES,
            last: last.map(|last| last / PAGE_BYTES),
        }
    }
}

impl Iterator for DirtyBits {
    /// A byte of the log and the bits in it.
    type Item = (u64, u8);

    fn next(&mut self) -> Option<Self::Item> {
        let last = self.last?;
        let byte = self.page / 8;
        let mut bits = 0;
        loop {
            bits |= 1 << (self.page % 8);
            if self.page == last {
                self.last = None;
                break;
            }
            self.page += 1;
            if self.page.is_multiple_of(8) {
                break;
            }
        }
        Some((byte, bits))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bits(at: u64, length: u64) -> Vec<(u64, u8)> {
        DirtyBits::new(GuestAddress(at), length).collect()
    }

    #[test]
    fn a_write_marks_every_page_that_it_touches() {
        assert_eq!(bits(0, 1), [(0, 1)]);
        assert_eq!(bits(4095, 1), [(0, 1)]);
        assert_eq!(bits(4095, 2), [(0, 0b11)]);
        assert_eq!(bits(4096 * 6, 4096 * 4), [(0, 0b1100_0000), (1, 0b11)]);
        assert_eq!(bits(4096 * 8, 4096 * 8), [(1, 0xff)]);
    }

    #[test]
    fn nothing_written_is_nothing_marked() {
        assert_eq!(bits(4096, 0), []);
    }

    #[test]
    fn the_end_of_the_address_space_is_an_end() {
        assert_eq!(bits(u64::MAX, 9).len(), 1);
    }
}
