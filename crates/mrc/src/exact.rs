//! The exact LRU curve: every access through the stack, every depth in a histogram.
//!
//! Paper: Olken 1981 (see [`crate::Stack`]), Mattson et al. 1970.
//!
//! One pass serves reads and writes at once: the histogram keeps them apart. Memory: 4 bytes a block
//! for its stamp, under 1 for the bits above, 16 for the histogram's two counts at a depth.
//!
//! Driven by: whoever splits requests into block keys, run by run in the trace's order.

use crate::access::{ByKind, Counted, Kind, Writes};
use crate::curve::{Between, Curve};
use crate::olken::Stack;

/// An exact LRU curve in the making.
#[derive(Clone, Debug)]
pub struct Exact {
    writes: Writes,
    stack: Stack,
    /// By depth - 1.
    depths: Vec<ByKind<u64>>,
    accesses: ByKind<u64>,
}

impl Exact {
    /// No access yet.
    pub fn new(writes: Writes) -> Self {
        Self {
            writes,
            stack: Stack::new(),
            depths: Vec::new(),
            accesses: ByKind::default(),
        }
    }

    /// Blocks that one request accesses, in its order. Keys are given out densely from 0.
    ///
    /// # Panics
    /// If there are more blocks than a [`Stack`] can hold.
    pub fn access(&mut self, kind: Kind, keys: &[u32]) {
        self.accesses.add(kind, keys.len() as u64);
        match (kind, self.writes) {
            (Kind::Write, Writes::Exclude) => {}
            (Kind::Write, Writes::Invalidate) => self.remove(keys),
            (Kind::Read, _) | (Kind::Write, Writes::Allocate) => {
                for &key in keys {
                    if let Some(depth) = self.stack.access(key) {
                        self.count(kind, depth as usize - 1);
                    }
                }
            }
        }
    }

    /// Blocks that leave the cache: discarded.
    pub fn remove(&mut self, keys: &[u32]) {
        for &key in keys {
            self.stack.remove(key);
        }
    }

    /// The curve of what was accessed so far.
    pub fn curve(&self, counted: Counted) -> Curve {
        let hits = (1..)
            .zip(&self.depths)
            .map(|(depth, count)| (depth, count.of(counted)));
        Curve::from_hits(hits, self.accesses.of(counted), Between::Stairs)
    }

    /// Accesses so far, of what a curve counts.
    pub fn accesses(&self, counted: Counted) -> u64 {
        let [reads, writes] = self.accesses.0;
        match counted {
            Counted::All => reads + writes,
            Counted::Reads => reads,
        }
    }

    /// Accesses that hit in a cache of this many blocks, as a count rather than a ratio.
    pub fn hits(&self, counted: Counted, blocks: u64) -> u64 {
        let depths = usize::try_from(blocks).unwrap_or(usize::MAX);
        let within = self.depths.iter().take(depths);
        within
            .map(|count| match counted {
                Counted::All => count.0[0] + count.0[1],
                Counted::Reads => count.0[0],
            })
            .sum()
    }

    /// Bytes of memory held.
    pub fn bytes(&self) -> usize {
        self.stack.bytes() + self.depths.capacity() * size_of::<ByKind<u64>>()
    }

    fn count(&mut self, kind: Kind, at: usize) {
        if at >= self.depths.len() {
            self.depths.resize(at + 1, ByKind::default());
        }
        self.depths[at].add(kind, 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exact(writes: Writes, stream: &[(Kind, u32)]) -> Exact {
        let mut exact = Exact::new(writes);
        for &(kind, key) in stream {
            exact.access(kind, &[key]);
        }
        exact
    }

    const STREAM: [(Kind, u32); 6] = [
        (Kind::Read, 0),
        (Kind::Write, 1),
        (Kind::Read, 1),
        (Kind::Write, 0),
        (Kind::Read, 2),
        (Kind::Read, 0),
    ];

    #[test]
    fn a_loop_hits_only_when_all_of_it_fits() {
        let mut exact = Exact::new(Writes::Allocate);
        for _ in 0..10 {
            exact.access(Kind::Read, &[0, 1, 2, 3]);
        }
        let curve = exact.curve(Counted::All);
        assert_eq!(curve.miss_ratio(3), 1.0);
        assert_eq!(curve.miss_ratio(4), 0.1);
        assert_eq!(exact.hits(Counted::All, 4), 36);
    }

    #[test]
    fn allocated_writes_serve_later_reads() {
        let exact = exact(Writes::Allocate, &STREAM);
        // 1 is read at depth 1, 0 is written at depth 2 and read at depth 2.
        assert_eq!(exact.curve(Counted::All).miss_ratio(1), 5.0 / 6.0);
        assert_eq!(exact.curve(Counted::All).miss_ratio(2), 0.5);
        assert_eq!(exact.curve(Counted::Reads).miss_ratio(2), 0.5);
        assert_eq!(exact.accesses(Counted::Reads), 4);
    }

    #[test]
    fn writes_around_the_cache_take_blocks_out_of_it() {
        let exact = exact(Writes::Invalidate, &STREAM);
        assert_eq!(exact.curve(Counted::Reads).floor(), 1.0);
    }

    #[test]
    fn excluded_writes_leave_the_reads_as_they_were() {
        let exact = exact(Writes::Exclude, &STREAM);
        // Reads are 0 1 2 0: the last hits at depth 3.
        assert_eq!(exact.curve(Counted::Reads).miss_ratio(2), 1.0);
        assert_eq!(exact.curve(Counted::Reads).miss_ratio(3), 0.75);
    }
}
