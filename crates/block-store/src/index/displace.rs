//! Making room: moving entries to their other bucket, as few as possible.

use super::bucket::{Bucket, WAYS};
use super::geometry::{Address, Geometry};

/// Buckets looked at before an insertion gives up. At 94 % load one in three buckets has room,
/// so that this many full ones in a row do not happen to keys that were not chosen for it.
const BUCKETS_SEEN_MAX: usize = 256;

/// A bucket that was reached, and the entry of its parent that could move there.
#[derive(Clone, Copy)]
struct Step {
    bucket: u32,
    /// Position in `steps` of the bucket it was reached from; itself for the two roots.
    parent: u16,
    /// Place of the moving entry in the parent's bucket.
    way: u8,
}

const _: () = assert!(BUCKETS_SEEN_MAX + WAYS < u16::MAX as usize);
const _: () = assert!(WAYS < u8::MAX as usize);

impl Step {
    fn new(bucket: usize, parent: usize, way: usize) -> Self {
        Self {
            bucket: u32::try_from(bucket).expect("a bucket number fits in 32 bits"),
            parent: u16::try_from(parent).expect("few buckets are seen"),
            way: u8::try_from(way).expect("a bucket has few places"),
        }
    }

    const fn bucket(self) -> usize {
        self.bucket as usize
    }

    fn parent(self) -> usize {
        usize::from(self.parent)
    }

    fn way(self) -> usize {
        usize::from(self.way)
    }
}

/// The breadth-first search for a free place, with its memory kept for the next one.
#[derive(Default)]
pub(super) struct Displacement {
    steps: Vec<Step>,
}

impl Displacement {
    pub(super) fn bytes(&self) -> usize {
        self.steps.capacity() * size_of::<Step>()
    }

    /// Frees a place in one of the two buckets of `address`, both full, and returns which; or
    /// changes nothing and returns `None`.
    ///
    /// No entry moves from a bucket at or above `swept` to one below it, so that the sweep under
    /// way misses none.
    pub(super) fn free_a_place(
        &mut self,
        buckets: &mut [Bucket],
        geometry: &Geometry,
        address: &Address,
        swept: usize,
    ) -> Option<usize> {
        self.steps.clear();
        self.add_root(address.home);
        if address.second != address.home {
            self.add_root(address.second);
        }
        let mut next = 0;
        while next < self.steps.len() && self.steps.len() < BUCKETS_SEEN_MAX {
            let from = self.steps[next].bucket();
            for way in 0..WAYS {
                let (to, _) = geometry.elsewhere(from, buckets[from].load(way));
                let hides_from_sweep = from >= swept && to < swept;
                // A bucket twice on one path would move an entry that has moved already.
                if hides_from_sweep || self.steps.iter().any(|step| step.bucket() == to) {
                    continue;
                }
                self.steps.push(Step::new(to, next, way));
                if buckets[to].len() < WAYS {
                    return Some(self.shift_along_path(buckets, geometry));
                }
            }
            next += 1;
        }
        None
    }

    fn add_root(&mut self, bucket: usize) {
        self.steps.push(Step::new(bucket, self.steps.len(), 0));
    }

    /// Moves the entries on the path to the last step, the last one first, and returns the root.
    /// A removal puts a bucket's last entry into the gap, which no later move on the path minds:
    /// each bucket gives one entry, and receives another only afterwards.
    fn shift_along_path(&self, buckets: &mut [Bucket], geometry: &Geometry) -> usize {
        let mut position = self.steps.len() - 1;
        loop {
            let step = self.steps[position];
            if step.parent() == position {
                return step.bucket();
            }
            let from = self.steps[step.parent()].bucket();
            let entry = buckets[from].load(step.way());
            let (to, moved) = geometry.elsewhere(from, entry);
            assert_eq!(to, step.bucket(), "the path leads where its entries can go");
            buckets[to].push(moved);
            buckets[from].remove(step.way());
            if geometry.is_stray(moved) {
                buckets[from].add_stray();
            } else {
                buckets[to].remove_stray();
            }
            position = step.parent();
        }
    }
}
