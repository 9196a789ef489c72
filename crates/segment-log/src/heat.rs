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

/// Blocks whose heat is remembered while they are being rewritten: the requests that can be in
/// flight at a time fit many times over. A power of two.
const REMEMBERED_MAX: usize = 4096;
const _: () = assert!(REMEMBERED_MAX.is_power_of_two());

/// Bits of a place that hold a heat.
const HEAT_BITS: u32 = 2;
const _: () = assert!((HEAT_LIMIT as u32) < 1 << HEAT_BITS);

/// The heat of blocks that were forgotten a moment ago, because they are being rewritten: their
/// new copies inherit it. Each block has one place, which the next one there takes.
pub(crate) struct Remembered {
    /// Bits of the block's name, and its heat below them: 4 bytes, since the memory of a small cache
    /// is felt. Two names in 2^42 look alike, and then a block is warm by mistake. Empty places have
    /// no heat.
    places: Box<[u32]>,
}

impl Remembered {
    pub(crate) fn new() -> Self {
        Self {
            places: vec![0; REMEMBERED_MAX].into_boxed_slice(),
        }
    }

    /// The block's place, and what of its name is kept there. The place is the highest bits of a
    /// product, which all of the name's bits reach; the name, those that come next.
    fn place_of(disk: DiskSlot, block: BlockIndex) -> (usize, u32) {
        const PLACE_BITS: u32 = REMEMBERED_MAX.ilog2();
        let name = u64::from(disk.get()) << BlockIndex::BITS | block.get();
        let mixed = (name ^ (name >> 29)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let place = mixed >> (u64::BITS - PLACE_BITS);
        let kept = mixed << PLACE_BITS >> (u64::BITS - u32::BITS + HEAT_BITS);
        (
            usize::try_from(place).expect("a few bits"),
            u32::try_from(kept).expect("30 bits") << HEAT_BITS,
        )
    }

    pub(crate) fn remember(&mut self, disk: DiskSlot, block: BlockIndex, heat: u8) {
        assert!(heat <= HEAT_LIMIT, "no block is hotter than the limit");
        let (place, name) = Self::place_of(disk, block);
        self.places[place] = name | u32::from(heat);
    }

    /// The block's heat, once.
    pub(crate) fn recall(&mut self, disk: DiskSlot, block: BlockIndex) -> Option<u8> {
        let (place, name) = Self::place_of(disk, block);
        let heat = self.places[place] ^ name;
        // Bits of another name are left above the heat.
        let heat = u8::try_from(heat)
            .ok()
            .filter(|heat| (1..=HEAT_LIMIT).contains(heat))?;
        self.places[place] = name;
        Some(heat)
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
    fn heat_is_recalled_once_and_only_for_the_block_it_was() {
        let mut remembered = Remembered::new();
        let (disk, block) = (DiskSlot::new(3), BlockIndex::new(77));
        assert_eq!(remembered.recall(disk, block), None);
        remembered.remember(disk, block, 2);
        assert_eq!(remembered.recall(DiskSlot::new(4), block), None);
        assert_eq!(remembered.recall(disk, block), Some(2));
        assert_eq!(remembered.recall(disk, block), None);
        // Its place is taken by what comes later.
        remembered.remember(disk, block, 2);
        for other in 0..100_000 {
            remembered.remember(DiskSlot::new(0), BlockIndex::new(other), 1);
        }
        assert_eq!(remembered.recall(disk, block), None);
    }
}
