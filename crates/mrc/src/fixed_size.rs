//! SHARDS of a fixed size: the LRU curve from a bounded number of sampled blocks.
//!
//! Paper: Waldspurger, Park, Garthwaite and Ahmad, *Efficient MRC Construction with SHARDS*, FAST
//! 2015: sections 3.2 (fixed size) and 3.3 (SHARDS-adj).
//!
//! The sample begins at rate 1. When it has one block too many, the block with the largest hash value
//! leaves, and the limit falls to just below that value: the rate falls as the footprint grows, and a
//! block that has left never comes back.
//!
//! The paper rescales the whole histogram whenever the rate falls. Here each access is counted with the
//! weight `1 / rate` of its own moment instead, which is the same curve without the passes over it.
//! Depths, scaled by the same rate, go into a histogram of logarithmic buckets ([`Buckets`]), so that
//! memory is bounded in all: see [`FixedSize::bytes`]. 8,192 blocks take about 0.3 MiB.
//!
//! Of a sampled block's value the upper 32 bits are kept: half the memory, and blocks that these do not
//! tell apart leave together, one more in a thousand times.
//!
//! Driven by: the trace tools, and online by [`crate::Live`]. [`FixedSize::fade`] lets the past count
//! less.

use crate::access::{ByKind, Counted, Kind, Writes};
use crate::buckets::Buckets;
use crate::curve::{Between, Curve};
use crate::sampled::{Place, Sample, scaled};
use policy::sampling::{Run, Spatial};
use std::collections::BinaryHeap;
use units::number::real;

/// A sampled LRU curve in the making, of a bounded number of blocks.
#[derive(Clone, Debug)]
pub struct FixedSize {
    spatial: Spatial,
    writes: Writes,
    sample: Sample,
    /// Upper halves of values, and keys, of the sampled blocks, the one with the largest value on top.
    values: BinaryHeap<(u32, u32)>,
    blocks_max: usize,
    hits: Buckets,
    /// Sampled accesses, each with the weight of its moment.
    sampled: ByKind<f64>,
    accesses: ByKind<f64>,
}

impl FixedSize {
    /// No access yet; the sample will never have more than `blocks_max` blocks.
    ///
    /// # Panics
    /// If `blocks_max` is 0.
    pub fn new(blocks_max: usize, seed: u64, writes: Writes) -> Self {
        assert!(blocks_max > 0, "a sample has a block");
        Self {
            spatial: Spatial::new(1.0, seed),
            writes,
            sample: Sample::default(),
            values: BinaryHeap::new(),
            blocks_max,
            hits: Buckets::default(),
            sampled: ByKind::default(),
            accesses: ByKind::default(),
        }
    }

    /// Blocks that one request accesses.
    pub fn access(&mut self, kind: Kind, run: Run) {
        self.count(kind, run.count);
        let spatial = self.spatial;
        spatial.sampled(run, |block, value| {
            self.touch(kind, (run.volume, block), value);
        });
    }

    /// So many blocks were accessed, sampled or not.
    pub(crate) fn count(&mut self, kind: Kind, blocks: u64) {
        self.accesses.add(kind, real(blocks));
    }

    /// A block was accessed that is sampled if its value says so: the limit may just have fallen.
    #[inline]
    pub(crate) fn touch(&mut self, kind: Kind, place: Place, value: u64) {
        if self.spatial.samples(value) {
            self.one(kind, place, value);
        }
    }

    /// Which blocks are sampled.
    pub(crate) const fn spatial(&self) -> Spatial {
        self.spatial
    }

    /// Blocks that leave the cache: discarded.
    pub fn remove(&mut self, run: Run) {
        self.sample.remove(self.spatial, run);
    }

    /// The curve of what was accessed so far.
    pub fn curve(&self, counted: Counted) -> Curve {
        let difference = self.accesses.of(counted) - self.sampled.of(counted);
        let first = scaled(1, self.spatial.rate());
        let mut hits: Vec<(u64, f64)> = self
            .hits
            .iter()
            .map(|(blocks, weight)| (blocks, weight.of(counted)))
            .collect();
        if !hits.is_empty() {
            let at = hits.partition_point(|(blocks, _)| *blocks < first);
            hits.insert(at, (first, difference));
        }
        Curve::from_hits(hits, self.accesses.of(counted), Between::Line)
    }

    /// The part of all blocks that is sampled now.
    pub fn rate(&self) -> f64 {
        self.spatial.rate()
    }

    /// Blocks in the sample.
    pub fn sampled_blocks(&self) -> u64 {
        self.sample.keys.len() as u64
    }

    /// Blocks that were touched, estimated.
    pub fn footprint_blocks(&self) -> u64 {
        units::number::count_near(real(self.sampled_blocks()) / self.rate())
    }

    /// Counts what was so far by this factor: 0.5 at the end of each hour halves the weight of what
    /// is an hour older. The stack keeps all it knows.
    ///
    /// # Panics
    /// If the factor is not between 0 and 1.
    pub fn fade(&mut self, factor: f64) {
        assert!((0.0..=1.0).contains(&factor), "the past counts less");
        self.hits.scale(factor);
        for weight in self.sampled.0.iter_mut().chain(&mut self.accesses.0) {
            *weight *= factor;
        }
    }

    /// Bytes of memory held. Bounded: by the size of the sample, and by 64 buckets an octave of
    /// depths.
    pub fn bytes(&self) -> usize {
        self.sample.bytes() + self.hits.bytes() + self.values.capacity() * size_of::<(u32, u32)>()
    }

    fn one(&mut self, kind: Kind, place: Place, value: u64) {
        let rate = self.spatial.rate();
        self.sampled.add(kind, rate.recip());
        // Written blocks count as touched even where writes leave the stack alone.
        let key = match self.sample.keys.get(place) {
            Some(key) => key,
            None if self.has_room_for(value) => self.sample_new(place, value),
            None => return,
        };
        match (kind, self.writes) {
            (Kind::Write, Writes::Exclude) => {}
            (Kind::Write, Writes::Invalidate) => {
                self.sample.stack.remove(key);
            }
            (Kind::Read, _) | (Kind::Write, Writes::Allocate) => {
                if let Some(depth) = self.sample.stack.access(key) {
                    self.hits.add(scaled(depth, rate), kind, rate.recip());
                }
            }
        }
    }

    fn sample_new(&mut self, place: Place, value: u64) -> u32 {
        let (key, _) = self.sample.keys.key(place);
        if self.values.len() == self.values.capacity() {
            let more = (self.values.len() / 4).max(64);
            self.values
                .reserve_exact(more.min(self.blocks_max - self.values.len()));
        }
        self.values.push((upper(value), key));
        key
    }

    /// Lowers the limit until a block of this value fits into the sample, or is above it itself.
    fn has_room_for(&mut self, value: u64) -> bool {
        let value = upper(value);
        while self.sample.keys.len() >= self.blocks_max {
            let Some(&(largest, _)) = self.values.peek() else {
                return false;
            };
            let lowered = largest.max(value);
            // Blocks of equal value leave together: the limit cannot part them.
            while let Some(&(held, key)) = self.values.peek()
                && held == lowered
            {
                self.values.pop();
                self.sample.keys.release(key);
                self.sample.stack.forget(key);
            }
            // A value of 0 alone in the sample is the smallest sample there is.
            self.spatial.lower_below((u64::from(lowered) << 32).max(1));
            if value == lowered {
                return false;
            }
        }
        true
    }
}

#[allow(clippy::cast_possible_truncation, reason = "the upper half is meant")]
const fn upper(value: u64) -> u32 {
    (value >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::{Request, exact, zipf_with_scans};

    fn sampled(blocks_max: usize, writes: Writes, requests: &[Request]) -> FixedSize {
        let mut sampled = FixedSize::new(blocks_max, 7, writes);
        for request in requests {
            match *request {
                Request::Access(kind, run) => sampled.access(kind, run),
                Request::Discard(run) => sampled.remove(run),
            }
        }
        sampled
    }

    #[test]
    fn a_sample_that_holds_everything_is_exact_up_to_its_buckets() {
        let requests = zipf_with_scans(1, 20_000);
        let sampled = sampled(1 << 20, Writes::Invalidate, &requests);
        let exact = exact(Writes::Invalidate, &requests);
        assert_eq!(sampled.rate(), 1.0);
        for counted in [Counted::All, Counted::Reads] {
            let (sampled, exact) = (sampled.curve(counted), exact.curve(counted));
            for point in exact.points().iter().filter(|point| point.blocks < 128) {
                let difference = sampled.miss_ratio(point.blocks) - point.miss_ratio;
                assert!(difference.abs() < 1e-9, "{point:?}: {difference}");
            }
            assert!((sampled.floor() - exact.floor()).abs() < 1e-9);
        }
    }

    #[test]
    fn a_few_thousand_blocks_give_the_curve_within_two_hundredths() {
        let requests = zipf_with_scans(2, 60_000);
        let sampled = sampled(4096, Writes::Allocate, &requests);
        let exact = exact(Writes::Allocate, &requests).curve(Counted::All);
        let sizes = crate::even_sizes(exact.blocks_max(), 200);
        let curve = sampled.curve(Counted::All);
        let error = curve.mean_absolute_error(&exact, &sizes);
        assert!(error < 0.02, "{error}");
    }

    #[test]
    fn memory_stays_bounded_however_much_is_touched() {
        let mut sampled = FixedSize::new(1024, 1, Writes::Allocate);
        for at in 0..200_000_u64 {
            let run = Run {
                volume: 0,
                first: at * 64 % 9_000_000,
                count: 64,
            };
            sampled.access(Kind::Read, run);
            assert!(sampled.sampled_blocks() <= 1024);
            assert!(sampled.bytes() < 160_000, "{}", sampled.bytes());
        }
        let error = sampled.footprint_blocks().abs_diff(9_000_000);
        assert!(error < 600_000, "{error}");
    }

    #[test]
    fn what_has_faded_counts_less_than_what_is_new() {
        let run = |first| Run {
            volume: 0,
            first,
            count: 10,
        };
        let mut sampled = FixedSize::new(100, 1, Writes::Allocate);
        for _ in 0..100 {
            sampled.access(Kind::Read, run(0));
        }
        sampled.fade(0.0);
        sampled.access(Kind::Read, run(10));
        assert_eq!(sampled.curve(Counted::All).floor(), 1.0);
        sampled.access(Kind::Read, run(0));
        assert_eq!(sampled.curve(Counted::All).miss_ratio(20), 0.5);
    }

    #[test]
    fn a_sample_of_one_block_still_ends() {
        let sampled = sampled(1, Writes::Allocate, &zipf_with_scans(5, 50));
        assert!(sampled.sampled_blocks() <= 1);
        assert!(sampled.curve(Counted::All).floor() >= 0.0);
    }
}
