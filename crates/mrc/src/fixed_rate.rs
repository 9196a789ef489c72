//! SHARDS at a fixed rate: the LRU curve from the blocks that a hash selects.
//!
//! Paper: Waldspurger, Park, Garthwaite and Ahmad, *Efficient MRC Construction with SHARDS*, FAST
//! 2015: sections 2.1 (spatially hashed sampling), 3.1 (fixed rate) and 3.3 (SHARDS-adj).
//!
//! Each sampled block stands for `1 / rate` blocks, so a depth in the sample's stack is divided by the
//! rate. **Adjustment**: the accesses sampled are more or fewer than the rate of all accesses, mostly
//! because a few hot blocks are in the sample or are not. Such blocks are found at shallow depths, so
//! the difference goes to the first bucket of the histogram.
//!
//! Memory grows with the sampled blocks: about 60 bytes each. Fixed-size sampling bounds it.

use crate::access::{ByKind, Counted, Kind, Writes};
use crate::curve::{Between, Curve};
use crate::sampled::{Sample, scaled};
use policy::sampling::{Run, Spatial};
use units::number::real;

/// A sampled LRU curve in the making, at a fixed rate.
#[derive(Clone, Debug)]
pub struct FixedRate {
    spatial: Spatial,
    writes: Writes,
    sample: Sample,
    /// Sampled accesses by depth in the sample - 1.
    depths: Vec<ByKind<u64>>,
    sampled: ByKind<u64>,
    accesses: ByKind<u64>,
}

impl FixedRate {
    /// No access yet.
    pub fn new(spatial: Spatial, writes: Writes) -> Self {
        Self {
            spatial,
            writes,
            sample: Sample::default(),
            depths: Vec::new(),
            sampled: ByKind::default(),
            accesses: ByKind::default(),
        }
    }

    /// Blocks that one request accesses.
    ///
    /// # Panics
    /// If the sample has 2^32 blocks.
    pub fn access(&mut self, kind: Kind, run: Run) {
        self.accesses.add(kind, run.count);
        let spatial = self.spatial;
        spatial.sampled(run, |block, _| self.one(kind, (run.volume, block)));
    }

    /// Blocks of a volume that as many requests access, in their order: the same as so many calls of
    /// [`Self::access`], faster.
    ///
    /// # Panics
    /// If the sample has 2^32 blocks.
    #[inline]
    pub fn access_each(&mut self, kind: Kind, volume: u32, blocks: impl Iterator<Item = u64>) {
        // Most blocks are not sampled: a hash and a comparison.
        let (spatial, values) = (self.spatial, self.spatial.of_volume(volume));
        let mut count = 0;
        for block in blocks {
            count += 1;
            if spatial.samples(values.value(block)) {
                self.one(kind, (volume, block));
            }
        }
        self.accesses.add(kind, count);
    }

    /// Blocks that leave the cache: discarded.
    pub fn remove(&mut self, run: Run) {
        self.sample.remove(self.spatial, run);
    }

    /// The curve of what was accessed so far.
    pub fn curve(&self, counted: Counted) -> Curve {
        let rate = self.spatial.rate();
        let expected = self.accesses.of(counted) * rate;
        let hits = (1..)
            .zip(&self.depths)
            .map(|(depth, count)| (scaled(depth, rate), count.of(counted)));
        let difference = (scaled(1, rate), expected - self.sampled.of(counted));
        // Without any reuse there is no bucket to correct: a scan stays a scan.
        let adjusted = (!self.depths.is_empty()).then_some(difference);
        Curve::from_hits(adjusted.into_iter().chain(hits), expected, Between::Line)
    }

    /// The part of all blocks that is sampled.
    pub fn rate(&self) -> f64 {
        self.spatial.rate()
    }

    /// Blocks in the sample.
    pub fn sampled_blocks(&self) -> u64 {
        self.sample.keys.len() as u64
    }

    /// Blocks that the trace touches, estimated.
    pub fn footprint_blocks(&self) -> u64 {
        units::number::count_near(real(self.sampled_blocks()) / self.rate())
    }

    /// Bytes of memory held.
    pub fn bytes(&self) -> usize {
        self.sample.bytes() + self.depths.capacity() * size_of::<ByKind<u64>>()
    }

    #[inline(never)]
    fn one(&mut self, kind: Kind, place: (u32, u64)) {
        self.sampled.add(kind, 1);
        // Written blocks count as touched even where writes leave the stack alone.
        let (key, _) = self.sample.keys.key(place);
        match (kind, self.writes) {
            (Kind::Write, Writes::Exclude) => return,
            (Kind::Write, Writes::Invalidate) => {
                self.sample.stack.remove(key);
                return;
            }
            (Kind::Read, _) | (Kind::Write, Writes::Allocate) => {}
        }
        if let Some(depth) = self.sample.stack.access(key) {
            let at = depth as usize - 1;
            if at >= self.depths.len() {
                self.depths.resize(at + 1, ByKind::default());
            }
            self.depths[at].add(kind, 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::{Request, exact, zipf_with_scans};

    fn sampled(rate: f64, writes: Writes, requests: &[Request]) -> FixedRate {
        let mut sampled = FixedRate::new(Spatial::new(rate, 7), writes);
        for request in requests {
            match *request {
                Request::Access(kind, run) => sampled.access(kind, run),
                Request::Discard(run) => sampled.remove(run),
            }
        }
        sampled
    }

    #[test]
    fn rate_one_is_exact() {
        let requests = zipf_with_scans(1, 2_000);
        for writes in [Writes::Allocate, Writes::Invalidate, Writes::Exclude] {
            let sampled = sampled(1.0, writes, &requests);
            let exact = exact(writes, &requests);
            for counted in [Counted::All, Counted::Reads] {
                let (sampled, exact) = (sampled.curve(counted), exact.curve(counted));
                for point in exact.points() {
                    assert_eq!(sampled.miss_ratio(point.blocks), point.miss_ratio);
                }
            }
        }
    }

    #[test]
    fn a_hundredth_of_the_blocks_gives_the_curve_within_two_hundredths() {
        let requests = zipf_with_scans(2, 60_000);
        let sampled = sampled(0.01, Writes::Allocate, &requests);
        let exact = exact(Writes::Allocate, &requests).curve(Counted::All);
        let sizes = crate::even_sizes(exact.blocks_max(), 200);
        let curve = sampled.curve(Counted::All);
        let error = curve.mean_absolute_error(&exact, &sizes);
        assert!(error < 0.02, "{error}");
        assert!(sampled.bytes() < 1 << 20);
    }

    #[test]
    fn single_blocks_are_sampled_as_their_runs_are() {
        let spatial = Spatial::new(0.1, 3);
        let new = || FixedRate::new(spatial, Writes::Allocate);
        let (mut singles, mut runs) = (new(), new());
        for first in (0..20_000).step_by(50).chain((0..20_000).step_by(100)) {
            for volume in 0..3 {
                singles.access_each(Kind::Read, volume, first..first + 50);
                let count = 50;
                runs.access(
                    Kind::Read,
                    Run {
                        volume,
                        first,
                        count,
                    },
                );
            }
        }
        assert!(runs.sampled_blocks() > 5_000);
        assert_eq!(singles.sampled_blocks(), runs.sampled_blocks());
        for counted in [Counted::All, Counted::Reads] {
            assert_eq!(singles.curve(counted), runs.curve(counted));
        }
    }

    #[test]
    fn blocks_that_are_only_written_belong_to_the_footprint() {
        let run = Run {
            volume: 0,
            first: 0,
            count: 500,
        };
        for writes in [Writes::Allocate, Writes::Invalidate, Writes::Exclude] {
            let mut sampled = FixedRate::new(Spatial::new(1.0, 1), writes);
            sampled.access(Kind::Write, run);
            assert_eq!(sampled.footprint_blocks(), 500);
        }
    }

    #[test]
    fn a_scan_has_no_hits_whatever_the_sample() {
        let scan = Run {
            volume: 0,
            first: 0,
            count: 1_000_000,
        };
        let mut sampled = FixedRate::new(Spatial::new(0.013, 1), Writes::Allocate);
        sampled.access(Kind::Read, scan);
        assert_eq!(sampled.curve(Counted::All).floor(), 1.0);
        let error = sampled.footprint_blocks().abs_diff(1_000_000);
        assert!(error < 10_000, "{error}");
    }
}
