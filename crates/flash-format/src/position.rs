//! Where a record of a dirty log is.

/// Where a record is in the dirty log of its disk. Positions of a disk only rise.
///
/// A block is at the page that holds its bytes. Erasures have no page: those behind a block, or
/// behind their chunk's header, have its page and are counted from 1. So no two records of a
/// disk have the same position, and any position can be a watermark.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// Generation of the segment.
    pub generation: u64,
    /// Page of the segment.
    pub page: u16,
    /// Which erasure behind that page; 0 for what the page itself holds.
    pub erasure: u16,
}

impl Position {
    /// Before the first record of any log: no generation is 0.
    pub const START: Self = Self {
        generation: 0,
        page: 0,
        erasure: 0,
    };

    /// The record whose bytes are in this page.
    ///
    /// # Panics
    /// If no segment has such a page.
    pub fn of_page(generation: u64, page: u32) -> Self {
        Self {
            generation,
            page: u16::try_from(page).expect("a segment has at most 4096 pages"),
            erasure: 0,
        }
    }

    /// The erasure that comes next behind this record.
    ///
    /// # Panics
    /// Never: a chunk has few of them.
    pub fn next_erasure(self) -> Self {
        Self {
            erasure: self
                .erasure
                .checked_add(1)
                .expect("a chunk has few records"),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_erasure_is_behind_the_page_before_it_and_before_the_next() {
        let block = Position::of_page(5, 9);
        let first = block.next_erasure();
        let second = first.next_erasure();
        let order = [
            Position::START,
            Position::of_page(4, 4000),
            block,
            first,
            second,
            Position::of_page(5, 10),
        ];
        assert!(order.is_sorted_by(|a, b| a < b));
    }
}
