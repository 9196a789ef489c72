//! The LRU stack: at which depth each access finds its block, in one pass.
//!
//! Paper: F. Olken, *Efficient methods for calculating the success function of fixed space
//! replacement policies*, LBL-12370, 1981, after R. Mattson, J. Gecsei, D. Slutz and I. Traiger,
//! *Evaluation techniques for storage hierarchies*, IBM Systems Journal 9(2), 1970.
//!
//! All LRU caches of a stream nest: the cache of `n` blocks holds the top `n` of one stack. A block
//! found at depth `d` (1 is the top) is a hit in every cache of at least `d` blocks and a miss in
//! every smaller one, so one histogram of depths is the whole miss-ratio curve.
//!
//! Blocks that leave otherwise than by eviction (a discard, a write that goes around the cache)
//! leave a **hole**. In every cache that held the block there is now room, and the next block that
//! such a cache fetches fills it without evicting. So a hole keeps its place in the stack until an
//! access from below it (or of a new block) fills it; the hole then is where that block was:
//!
//! ```text
//!   top  a  b  (hole)  c  d     access d     d  a  b  c  (hole)
//!   caches of 4: miss, hole filled · caches of 5: hit, hole stays
//! ```
//!
//! Without holes, what lies below would move up into caches that had evicted it long ago, and the
//! curve would show hits that no cache has.
//!
//! Invariants: `newest[key]` is a live stamp or [`NONE`]; each live stamp belongs to one key or one
//! hole. Units: depths in blocks.

use crate::stamps::Stamps;
use std::collections::BinaryHeap;

/// A key that is not in the stack.
const NONE: u32 = u32::MAX;

/// Stamps for each block in the stack: more means fewer renumberings and more memory (about 0.2
/// bytes a stamp). At 4, renumbering is a tenth of the time and the stamps 0.7 bytes a block.
const STAMPS_A_BLOCK: u64 = 4;

/// The LRU stack of a stream of block keys. Keys are small numbers, given out densely.
#[derive(Clone, Debug)]
pub struct Stack {
    newest: Vec<u32>,
    stamps: Stamps,
    holes: BinaryHeap<u32>,
}

impl Default for Stack {
    fn default() -> Self {
        Self::new()
    }
}

impl Stack {
    /// An empty stack.
    pub fn new() -> Self {
        Self {
            newest: Vec::new(),
            stamps: Stamps::new(1),
            holes: BinaryHeap::new(),
        }
    }

    /// Accesses a block: returns the depth that it was found at, and puts it on top. `None` if it
    /// was not in the stack.
    ///
    /// # Panics
    /// If 2^32 - 2 blocks are in the stack already.
    pub fn access(&mut self, key: u32) -> Option<u32> {
        if self.stamps.is_full() {
            self.renumber();
        }
        let index = key as usize;
        if index >= self.newest.len() {
            self.cover(index);
        }
        let stamp = self.newest[index];
        self.newest[index] = self.stamps.hand_out();
        if stamp == NONE {
            self.fill_hole();
            return None;
        }
        // The stamp just handed out is live too; it takes the place of counting the block itself.
        let depth = self.stamps.live() - 1 - self.stamps.live_before(stamp);
        if self.holes.peek().is_some_and(|&hole| hole > stamp) {
            self.fill_hole();
            self.holes.push(stamp);
        } else {
            self.stamps.retire(stamp);
        }
        Some(depth)
    }

    /// Makes room for a key: a quarter more at a time.
    #[cold]
    fn cover(&mut self, index: usize) {
        if index >= self.newest.capacity() {
            let least = index + 1 - self.newest.len();
            self.newest.reserve_exact(least.max(self.newest.len() / 4));
        }
        self.newest.resize(index + 1, NONE);
    }

    /// Takes a block out, leaving a hole. False if it was not there.
    pub fn remove(&mut self, key: u32) -> bool {
        match self.take(key) {
            Some(stamp) => {
                self.holes.push(stamp);
                true
            }
            None => false,
        }
    }

    /// Takes a block out as if it had never been accessed. False if it was not there.
    pub fn forget(&mut self, key: u32) -> bool {
        match self.take(key) {
            Some(stamp) => {
                self.stamps.retire(stamp);
                true
            }
            None => false,
        }
    }

    /// Blocks in the stack.
    ///
    /// # Panics
    /// Never: each hole has a live stamp.
    pub fn len(&self) -> u32 {
        let holes = u32::try_from(self.holes.len()).expect("each hole has a stamp of 32 bits");
        self.stamps.live() - holes
    }

    /// True if no block is in the stack.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of memory held.
    pub fn bytes(&self) -> usize {
        self.newest.capacity() * size_of::<u32>()
            + self.holes.capacity() * size_of::<u32>()
            + self.stamps.bytes()
    }

    fn take(&mut self, key: u32) -> Option<u32> {
        let newest = self.newest.get_mut(key as usize)?;
        let stamp = std::mem::replace(newest, NONE);
        (stamp != NONE).then_some(stamp)
    }

    /// The topmost hole, if there is one, is filled.
    fn fill_hole(&mut self) {
        if let Some(hole) = self.holes.pop() {
            self.stamps.retire(hole);
        }
    }

    /// Gives the live stamps the lowest numbers, in the same order.
    fn renumber(&mut self) {
        let newest = self.newest.iter_mut().filter(|stamp| **stamp != NONE);
        for stamp in newest {
            *stamp = self.stamps.live_before(*stamp);
        }
        // Order is kept, so the heap stays a heap.
        let mut holes = std::mem::take(&mut self.holes).into_vec();
        for stamp in &mut holes {
            *stamp = self.stamps.live_before(*stamp);
        }
        self.holes = BinaryHeap::from(holes);
        let live = self.stamps.live();
        let room = STAMPS_A_BLOCK * u64::from(live);
        self.stamps.restart(live, room);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Access(u32),
        Remove(u32),
    }

    /// LRU caches of every size, kept one by one.
    struct Caches(Vec<Vec<u32>>);

    impl Caches {
        fn step(&mut self, step: Step) -> Vec<bool> {
            let caches = self.0.iter_mut().enumerate();
            caches
                .map(|(at, cache)| {
                    let (Step::Access(key) | Step::Remove(key)) = step;
                    let found = cache.iter().position(|held| *held == key);
                    if let Some(place) = found {
                        cache.remove(place);
                    }
                    if matches!(step, Step::Access(_)) {
                        cache.insert(0, key);
                        cache.truncate(at + 1);
                    }
                    found.is_some()
                })
                .collect()
        }
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = (0..24u32, 0..8u8).prop_map(|(key, dice)| match dice {
            0 | 1 => Step::Remove(key),
            _ => Step::Access(key),
        });
        proptest::collection::vec(step, 0..400)
    }

    proptest! {
        #[test]
        fn the_stack_says_of_every_cache_whether_it_hits(steps in steps()) {
            let mut stack = Stack::new();
            let mut caches = Caches(vec![Vec::new(); 26]);
            for step in steps {
                let hits = caches.step(step);
                match step {
                    Step::Access(key) => {
                        let depth = stack.access(key);
                        for (at, hit) in hits.iter().enumerate() {
                            let reached = depth.is_some_and(|depth| depth as usize <= at + 1);
                            prop_assert_eq!(reached, *hit);
                        }
                    }
                    Step::Remove(key) => prop_assert_eq!(stack.remove(key), hits[25]),
                }
                prop_assert_eq!(stack.len() as usize, caches.0[25].len());
            }
        }
    }

    /// The depth by looking at everything since.
    fn naive(stream: &[u32], at: usize) -> Option<u32> {
        let before = stream[..at].iter().rposition(|key| *key == stream[at])?;
        let mut between = stream[before + 1..at].to_vec();
        between.sort_unstable();
        between.dedup();
        u32::try_from(between.len() + 1).ok()
    }

    #[test]
    fn depths_are_right_across_many_renumberings() {
        let mut dice = units::Prng::new(3);
        let mut stack = Stack::new();
        let mut stream = Vec::new();
        for at in 0..400_000_usize {
            let key = match dice.below(3) {
                0 => dice.below(10),
                1 => dice.below(1000),
                _ => at as u64 % 700,
            };
            stream.push(u32::try_from(key).unwrap());
            let depth = stack.access(stream[at]);
            if at % 997 == 0 {
                assert_eq!(depth, naive(&stream, at));
            }
        }
    }

    #[test]
    fn a_hole_is_filled_by_what_comes_from_below_it() {
        let mut stack = Stack::new();
        for key in [4, 3, 2, 1, 0] {
            stack.access(key);
        }
        stack.remove(2);
        assert_eq!(stack.access(4), Some(5));
        assert_eq!(stack.access(3), Some(4));
        assert_eq!(stack.access(9), None);
        assert_eq!(stack.access(0), Some(4));
    }

    #[test]
    fn a_forgotten_block_leaves_no_hole() {
        let mut stack = Stack::new();
        for key in [4, 3, 2, 1, 0] {
            stack.access(key);
        }
        assert!(stack.forget(2));
        assert!(!stack.forget(2));
        assert_eq!(stack.access(4), Some(4));
        assert_eq!(stack.len(), 4);
    }
}
