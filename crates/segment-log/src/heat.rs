//! How warm blocks are, in four bits each.
//!
//! A block's *mark* is a number below 16 that the index keeps with its slot. A segment counts its
//! *rounds*, modulo 16: it is in round 0 when it is opened, and each time that it is spared the next
//! one begins. A block's heat is how far its mark is ahead of its segment's round:
//!
//! ```text
//!             round                            heat = (mark − round) mod 16, if that is at most 3
//!               ▼                                   = 0 otherwise
//!  mark  ..  5  6  7  8  9  10 ..
//!  heat  ..  0  0  1  2  3   0 ..
//! ```
//!
//! So sparing a segment cools all of its blocks by one without touching any of them: no walk, and
//! in the daemon no read of the footer that says which blocks they are. A block that nobody asks
//! for falls behind, and looks warm again once its segment has been spared thirteen times since:
//! for three rounds, until it falls behind again. Measured on all traces that is worth less than a
//! thousandth of the hits; what matters is that segment and block agree, and they do: a segment
//! counts its live blocks by mark, not by heat.

use policy::reclaim::HEAT_LIMIT;
use units::{BlockIndex, DiskSlot};

/// How many marks there are: they have four bits.
pub const MARKS: u8 = 16;

const _: () = assert!(HEAT_LIMIT * 2 < MARKS);

/// The heat of a block with this mark in a segment in this round.
#[inline]
pub(crate) const fn heat_of(mark: u8, round: u8) -> u8 {
    let ahead = mark.wrapping_sub(round) % MARKS;
    if ahead <= HEAT_LIMIT { ahead } else { 0 }
}

/// The mark that is this heat in a segment in this round.
#[inline]
pub(crate) const fn mark_of(heat: u8, round: u8) -> u8 {
    assert!(heat <= HEAT_LIMIT, "no block is hotter than the limit");
    (round + heat) % MARKS
}

/// A segment's live blocks by mark.
pub(crate) type Census = [u16; MARKS as usize];

/// Live blocks of this heat; of heat 0 all that are not warm.
pub(crate) fn count_of(census: &Census, round: u8, heat: u8) -> u32 {
    let marks = (0..MARKS).zip(census);
    let those = marks.filter(|(mark, _)| heat_of(*mark, round) == heat);
    those.map(|(_, count)| u32::from(*count)).sum()
}

/// Live blocks that are warm.
pub(crate) fn warm(census: &Census, round: u8) -> u32 {
    let ahead = 1..=HEAT_LIMIT;
    ahead
        .map(|heat| u32::from(census[usize::from(mark_of(heat, round))]))
        .sum()
}

/// Blocks of which it is known whether they were warm, while they are being written: the requests that can
/// be in flight at a time fit many times over. A power of two.
const WRITTEN_MAX: usize = 4096;
const _: () = assert!(WRITTEN_MAX.is_power_of_two());

/// Bits of a place that are not the block's name: one says that it was warm.
const SPARE_BITS: u32 = 2;
const WARM: u32 = 1;

/// Which of the blocks that were forgotten a moment ago, because they are being written, were warm. Each
/// block has one place, which the next one there takes.
pub(crate) struct Written {
    /// Bits of the block's name, and below them whether it was warm: 4 bytes, since the memory of a small
    /// cache is felt. Two names in 2^42 look alike, and then a block was warm by mistake.
    places: Box<[u32]>,
}

impl Written {
    pub(crate) fn new() -> Self {
        Self {
            places: vec![0; WRITTEN_MAX].into_boxed_slice(),
        }
    }

    /// The block's place, and what of its name is kept there. The place is the highest bits of a
    /// product, which all of the name's bits reach; the name, those that come next.
    fn place_of(disk: DiskSlot, block: BlockIndex) -> (usize, u32) {
        const PLACE_BITS: u32 = WRITTEN_MAX.ilog2();
        let name = u64::from(disk.get()) << BlockIndex::BITS | block.get();
        let mixed = (name ^ (name >> 29)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let place = mixed >> (u64::BITS - PLACE_BITS);
        let kept = mixed << PLACE_BITS >> (u64::BITS - u32::BITS + SPARE_BITS);
        (
            usize::try_from(place).expect("a few bits"),
            u32::try_from(kept).expect("30 bits") << SPARE_BITS,
        )
    }

    pub(crate) fn forget(&mut self, disk: DiskSlot, block: BlockIndex, warm: bool) {
        let (place, name) = Self::place_of(disk, block);
        self.places[place] = name | (WARM * u32::from(warm));
    }

    /// Whether the block was warm; false if another one has taken its place.
    pub(crate) fn was_warm(&self, disk: DiskSlot, block: BlockIndex) -> bool {
        let (place, name) = Self::place_of(disk, block);
        self.places[place] == name | WARM
    }

    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.places)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_cools_every_block_by_one_and_the_cold_stay_cold() {
        let mark = mark_of(2, 15);
        assert_eq!(mark, 1);
        let heats: Vec<u8> = [15, 0, 1, 2, 3].map(|round| heat_of(mark, round)).into();
        assert_eq!(heats, [2, 1, 0, 0, 0]);
        assert_eq!(heat_of(mark, 14), 3, "thirteen rounds after it went cold");
    }

    #[test]
    fn a_census_counts_by_heat() {
        let mut census = Census::default();
        // Round 6: marks 7 and 9 are heat 1 and 3; 6 and 2 are cold.
        (census[7], census[9], census[6], census[2]) = (5, 2, 10, 1);
        assert_eq!(warm(&census, 6), 7);
        let counts: Vec<u32> = (0..=3).map(|heat| count_of(&census, 6, heat)).collect();
        assert_eq!(counts, [11, 5, 0, 2]);
        assert_eq!(warm(&census, 7), 2, "one round later mark 7 is cold");
    }

    #[test]
    fn whether_a_block_was_warm_is_known_of_that_block_until_another_takes_its_place() {
        let mut written = Written::new();
        let (disk, block) = (DiskSlot::new(3), BlockIndex::new(77));
        assert!(!written.was_warm(disk, block));
        written.forget(disk, block, true);
        assert!(written.was_warm(disk, block));
        assert!(!written.was_warm(DiskSlot::new(4), block));
        written.forget(disk, block, false);
        assert!(!written.was_warm(disk, block));
        written.forget(disk, block, true);
        for other in 0..100_000 {
            written.forget(DiskSlot::new(0), BlockIndex::new(other), true);
        }
        assert!(!written.was_warm(disk, block));
    }
}
