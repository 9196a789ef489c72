//! Which blocks lie beside each other on their disk.
//!
//! The simulator numbers blocks in the order in which they are first asked for, so a number says nothing
//! about its neighbours. The daemon asks for them by their places; here they are remembered by region
//! ([`REGION_BLOCKS`]): 4 bytes for each number, and 8 and a little for each that has a place.

use segment_log::REGION_BLOCKS;
use units::{BlockIndex, DiskSlot, Map};

/// A number of which no place is known has this region.
const NOWHERE: u32 = 0;

/// The regions of all disks, and the numbers of the blocks in each.
#[derive(Default)]
pub(crate) struct Neighbours {
    /// By number: its region.
    region_of: Vec<u32>,
    /// By disk and place: the region. The first is 1.
    regions: Map<(DiskSlot, u64), u32>,
    /// By region, from 1: which block of it, and its number, in the order of the blocks.
    keys: Vec<Vec<(u8, u32)>>,
}

impl Neighbours {
    /// The blocks of a request lie beside each other, from `first`. What is known already stays.
    #[inline]
    pub(crate) fn note(&mut self, disk: DiskSlot, first: BlockIndex, keys: &[u32]) {
        // New numbers are larger than all before.
        let is_new = |key: &u32| *key as usize >= self.region_of.len();
        if keys.iter().any(is_new) {
            self.enter(disk, first, keys);
        }
    }

    #[cold]
    #[inline(never)]
    fn enter(&mut self, disk: DiskSlot, first: BlockIndex, keys: &[u32]) {
        let mut block = first.get();
        let mut keys = keys;
        while !keys.is_empty() {
            // Up to the end of the region: it is looked up once.
            let left = REGION_BLOCKS - block % REGION_BLOCKS;
            let count = keys
                .len()
                .min(usize::try_from(left).expect("regions are small"));
            let (here, behind) = keys.split_at(count);
            self.enter_region(disk, block, here);
            block += left;
            keys = behind;
        }
    }

    /// The same where all of them lie in one region.
    fn enter_region(&mut self, disk: DiskSlot, first: u64, keys: &[u32]) {
        let next = u32::try_from(self.keys.len() + 1).expect("fewer regions than numbers");
        let place = (disk, first / REGION_BLOCKS);
        let region = *self.regions.entry(place).or_insert(next);
        if region == next {
            self.keys.push(Vec::with_capacity(keys.len()));
        }
        let there = &mut self.keys[region as usize - 1];
        for (block, key) in (first..).zip(keys) {
            let at = *key as usize;
            if self.region_of.len() <= at {
                self.region_of.resize(at + 1, NOWHERE);
            }
            if self.region_of[at] != NOWHERE {
                continue;
            }
            let within = u8::try_from(block % REGION_BLOCKS).expect("regions are small");
            if there.last().is_none_or(|(last, _)| *last < within) {
                there.push((within, *key));
            } else {
                there.insert(
                    there.partition_point(|(other, _)| *other < within),
                    (within, *key),
                );
            }
            self.region_of[at] = region;
        }
    }

    fn region(&self, key: u32) -> u32 {
        self.region_of.get(key as usize).copied().unwrap_or(NOWHERE)
    }

    fn of_region(&self, region: u32) -> &[(u8, u32)] {
        let at = (region as usize).checked_sub(1);
        at.map_or(&[], |at| &self.keys[at])
    }

    /// The numbers in the regions of two blocks, these among them, in the order of the blocks; none of a
    /// block whose place is not known.
    pub(crate) fn around(&self, first: u32, last: u32) -> impl Iterator<Item = u32> {
        let (one, other) = (self.region(first), self.region(last));
        let other = if one == other { NOWHERE } else { other };
        let both = self.of_region(one).iter().chain(self.of_region(other));
        both.map(|(_, key)| *key)
    }

    pub(crate) fn bytes(&self) -> usize {
        let lists: usize = self.keys.iter().map(Vec::capacity).sum();
        self.region_of.capacity() * size_of::<u32>()
            + lists * size_of::<(u8, u32)>()
            + self.keys.capacity() * size_of::<Vec<(u8, u32)>>()
            + self.regions.capacity() * size_of::<((DiskSlot, u64), u32)>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn around(neighbours: &Neighbours, first: u32, last: u32) -> Vec<u32> {
        neighbours.around(first, last).collect()
    }

    /// Blocks 62 to 65: two in the first region, two in the second. Block 3 comes later, and another disk
    /// has regions of its own.
    #[test]
    fn blocks_of_one_region_know_each_other_whenever_they_came() {
        let mut neighbours = Neighbours::default();
        let (one, other) = (DiskSlot::new(0), DiskSlot::new(1));
        neighbours.note(one, BlockIndex::new(REGION_BLOCKS - 2), &[0, 1, 2, 3]);
        neighbours.note(other, BlockIndex::new(3), &[4]);
        neighbours.note(one, BlockIndex::new(3), &[5]);
        assert_eq!(around(&neighbours, 1, 1), [5, 0, 1]);
        assert_eq!(around(&neighbours, 5, 0), [5, 0, 1]);
        assert_eq!(around(&neighbours, 1, 2), [5, 0, 1, 2, 3]);
        assert_eq!(around(&neighbours, 4, 4), [4]);
        assert!(
            around(&neighbours, 6, 6).is_empty(),
            "nobody said where it is"
        );
        assert_eq!(around(&neighbours, 6, 4), [4]);
    }

    #[test]
    fn a_block_that_comes_again_is_named_once() {
        let mut neighbours = Neighbours::default();
        for keys in [&[0, 1][..], &[1, 2], &[2, 2]] {
            neighbours.note(DiskSlot::new(0), BlockIndex::new(keys[0].into()), keys);
        }
        assert_eq!(around(&neighbours, 0, 0), [0, 1, 2]);
    }
}
