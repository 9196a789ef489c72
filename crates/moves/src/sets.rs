//! A cache that replaces in place: least recently used first, within sets of neighbouring blocks, as flash caches of
//! the Linux kernel do it (`EnhanceIO`, flashcache).
//!
//! A run of as many neighbouring blocks as a set has places belongs to one set. Where the runs of a file lie on its
//! disk is drawn by a seed: as a file system spreads extents, some sets have more of the hot blocks than others.

use units::Prng;

/// No place, no block.
const NONE: u32 = u32::MAX;

/// Such a cache.
pub(crate) struct Sets {
    /// Each set, the block that was used last at its end.
    lists: Vec<Vec<u32>>,
    ways: usize,
    /// By run of blocks: its set.
    of_run: Vec<u32>,
    /// By block: when it was used last.
    used: Vec<u64>,
    uses: u64,
}

impl Sets {
    /// An empty one of `capacity` blocks for a file of `blocks`, in sets of `ways`, whose runs are spread over a
    /// disk that is `spread` times as long as the file; below 1 they lie there one after the other.
    pub(crate) fn new(capacity: u32, blocks: u32, ways: u32, spread: f64, seed: u64) -> Self {
        let ways = ways.clamp(1, capacity.max(1));
        let count = (capacity / ways).max(1);
        let runs = blocks.div_ceil(ways);
        let room = units::number::count_up(f64::from(runs) * spread.max(1.0));
        let mut places: Vec<u64> = (0..room).collect();
        let mut dice = Prng::new(seed);
        let shuffled = if spread < 1.0 { 0 } else { places.len() };
        for last in (1..shuffled).rev() {
            let other = dice.below(last as u64 + 1);
            places.swap(last, usize::try_from(other).unwrap_or(last));
        }
        let set_of = |place: u64| u32::try_from(place % u64::from(count)).unwrap_or(0);
        Self {
            lists: vec![Vec::new(); count as usize],
            ways: ways as usize,
            of_run: places.into_iter().take(runs as usize).map(set_of).collect(),
            used: vec![0; blocks as usize],
            uses: 0,
        }
    }

    fn set(&mut self, block: u32) -> &mut Vec<u32> {
        let run = block as usize / self.ways;
        &mut self.lists[self.of_run[run] as usize]
    }

    /// Whether a block is in it; it was used.
    pub(crate) fn touch(&mut self, block: u32) -> bool {
        if self.used[block as usize] == 0 {
            return false;
        }
        self.uses += 1;
        self.used[block as usize] = self.uses;
        true
    }

    /// A block comes in; which one leaves for it.
    pub(crate) fn insert(&mut self, block: u32) -> Option<u32> {
        if self.touch(block) {
            return None;
        }
        let ways = self.ways;
        let mut oldest = (u64::MAX, NONE, 0);
        let used = std::mem::take(&mut self.used);
        let set = self.set(block);
        if set.len() == ways {
            for (at, one) in set.iter().enumerate() {
                oldest = oldest.min((used[*one as usize], *one, at));
            }
            set.swap_remove(oldest.2);
        }
        set.push(block);
        self.used = used;
        self.uses += 1;
        self.used[block as usize] = self.uses;
        if oldest.1 == NONE {
            return None;
        }
        self.used[oldest.1 as usize] = 0;
        Some(oldest.1)
    }

    /// A block leaves, if it is there.
    pub(crate) fn remove(&mut self, block: u32) {
        if self.used[block as usize] == 0 {
            return;
        }
        self.used[block as usize] = 0;
        let set = self.set(block);
        set.retain(|one| *one != block);
    }

    /// When a block that is in it was used last.
    pub(crate) fn age(&self, block: u32) -> u64 {
        self.used[block as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_block_of_a_set_leaves() {
        let mut sets = Sets::new(4, 8, 4, 1.0, 1);
        for block in 0..4 {
            assert_eq!(sets.insert(block), None);
        }
        assert!(sets.touch(0));
        assert_eq!(sets.insert(4), Some(1));
        assert!(!sets.touch(1) && sets.touch(4));
        sets.remove(2);
        assert_eq!(sets.insert(5), None, "a place was free");
    }
}
