//! Miniature simulation: the curve of any policy, from small caches that see a sample.
//!
//! Paper: C. Waldspurger, T. Saemundsson, I. Ahmad and N. Park, *Cache Modeling and Optimization using
//! Miniature Simulations*, USENIX ATC 2017.
//!
//! A cache of `S` blocks that sees every access behaves much as one of `rate x S` blocks that sees the
//! accesses to a `rate` of all blocks, whatever the policy. So each point of the curve costs a hundredth
//! of a simulation. As with SHARDS-adj the misses are divided by the accesses that the sample should have
//! had: those that it has too many or too few are hits on hot blocks. At rate 1 this is a simulation.
//!
//! Policies that know the future are not for streams: `hearth sim` runs them.

use crate::access::{ByKind, Counted, Kind, Writes};
use crate::curve::{Between, Curve, Point};
use crate::sampled::Keys;
use policy::replacement::{Capacity, Dense, Replacement, Setup, Spec};
use policy::sampling::{Run, Spatial};
use units::number::{count_near, real};

/// Why there are no miniature caches.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MiniatureError {
    /// The policy needs the whole trace before its first access.
    #[error("{0} knows the future, which a pass over a trace does not; run it with hearth sim")]
    KnowsFuture(&'static str),
    /// A size is too small to be scaled down, or too large for the policy.
    #[error(
        "a cache of {blocks} blocks is {scaled} at this rate, and {miniature_min} is the least that \
         says anything: sample more, or ask for larger sizes"
    )]
    Size {
        /// The size asked for.
        blocks: u64,
        /// What it would be.
        scaled: u64,
        /// The smallest miniature cache.
        miniature_min: u64,
    },
}

/// The smallest miniature cache: below, a policy with several queues has nothing to divide. A full
/// simulation (rate 1) may be of any size.
pub const MINIATURE_BLOCKS_MIN: u64 = 32;

/// Caches of several sizes under one policy, scaled down.
pub struct Miniature {
    spatial: Spatial,
    writes: Writes,
    keys: Keys,
    caches: Vec<Cache>,
    accesses: ByKind<u64>,
    run: Vec<u32>,
    hits: Vec<u8>,
}

struct Cache {
    /// What it stands for.
    blocks: u64,
    policy: Box<dyn Replacement<u32> + Send>,
    misses: ByKind<u64>,
}

impl Miniature {
    /// Empty caches of these sizes, which grow.
    ///
    /// # Errors
    /// If the policy needs the future, or a size does not scale down.
    pub fn new(
        spec: &Spec,
        sizes: &[u64],
        spatial: Spatial,
        writes: Writes,
    ) -> Result<Self, MiniatureError> {
        let about = spec.about();
        if about.knows_future {
            return Err(MiniatureError::KnowsFuture(about.name));
        }
        let is_whole = spatial.rate() >= 1.0;
        let cache = |&blocks: &u64| {
            let scaled = count_near(real(blocks) * spatial.rate());
            let miniature_min = if is_whole { 1 } else { MINIATURE_BLOCKS_MIN };
            let error = MiniatureError::Size {
                blocks,
                scaled,
                miniature_min,
            };
            if scaled < miniature_min {
                return Err(error);
            }
            let capacity = Capacity::new(scaled).map_err(|_| error)?;
            Ok(Cache {
                blocks,
                policy: spec.build(Setup::new(capacity, Dense::default())),
                misses: ByKind::default(),
            })
        };
        Ok(Self {
            spatial,
            writes,
            keys: Keys::default(),
            caches: sizes.iter().map(cache).collect::<Result<_, _>>()?,
            accesses: ByKind::default(),
            run: Vec::new(),
            hits: Vec::new(),
        })
    }

    /// Blocks that one request accesses.
    ///
    /// # Panics
    /// If the sample has 2^32 blocks.
    pub fn access(&mut self, kind: Kind, run: Run) {
        self.accesses.add(kind, run.count);
        self.run.clear();
        let spatial = self.spatial;
        spatial.sampled(run, |block, _| {
            self.run.push(self.keys.key((run.volume, block)).0);
        });
        match (kind, self.writes) {
            (Kind::Write, Writes::Exclude) => return,
            (Kind::Write, Writes::Invalidate) => return self.drop_run(),
            (Kind::Read, _) | (Kind::Write, Writes::Allocate) => {}
        }
        self.hits.resize(self.run.len(), 0);
        for cache in &mut self.caches {
            cache.policy.run(&self.run, &mut self.hits);
            let misses = self.hits.iter().map(|hit| u64::from(1 - hit)).sum();
            cache.misses.add(kind, misses);
        }
    }

    /// Blocks that leave the cache: discarded.
    pub fn remove(&mut self, run: Run) {
        self.run.clear();
        if run.count / 128 > self.keys.given() {
            self.run.extend(self.keys.keys_in(run));
        } else {
            let spatial = self.spatial;
            spatial.sampled(run, |block, _| {
                self.run.extend(self.keys.get((run.volume, block)));
            });
        }
        self.drop_run();
    }

    /// The miss ratios at the sizes asked for.
    ///
    /// # Panics
    /// If the sizes did not grow.
    pub fn curve(&self, counted: Counted) -> Curve {
        let expected = self.accesses.of(counted) * self.spatial.rate();
        let points = self.caches.iter().map(|cache| {
            let mut misses = cache.misses.of(counted);
            if counted == Counted::All && self.writes != Writes::Allocate {
                misses += real(self.accesses.0[Kind::Write.index()]) * self.spatial.rate();
            }
            Point {
                blocks: cache.blocks,
                miss_ratio: (misses / expected.max(f64::MIN_POSITIVE)).clamp(0.0, 1.0),
            }
        });
        Curve::new(points.collect(), Between::Line)
    }

    /// Blocks in the sample.
    pub fn sampled_blocks(&self) -> u64 {
        self.keys.len() as u64
    }

    /// Blocks that the trace touches, estimated.
    pub fn footprint_blocks(&self) -> u64 {
        count_near(real(self.sampled_blocks()) / self.spatial.rate())
    }

    /// The part of all blocks that is sampled.
    pub fn rate(&self) -> f64 {
        self.spatial.rate()
    }

    /// Bytes of memory held, the policies' own not counted.
    pub fn bytes(&self) -> usize {
        self.keys.bytes()
    }

    fn drop_run(&mut self) {
        for cache in &mut self.caches {
            for &key in &self.run {
                cache.policy.remove(key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::{Request, exact, zipf_with_scans};

    fn miniature(rate: f64, policy: &str, sizes: &[u64], writes: Writes) -> Miniature {
        let spec = policy.parse().unwrap();
        let mut caches = Miniature::new(&spec, sizes, Spatial::new(rate, 3), writes).unwrap();
        for request in zipf_with_scans(2, 30_000) {
            match request {
                Request::Access(kind, run) => caches.access(kind, run),
                Request::Discard(run) => caches.remove(run),
            }
        }
        caches
    }

    #[test]
    fn lru_at_rate_one_is_the_exact_curve() {
        for writes in [Writes::Allocate, Writes::Invalidate, Writes::Exclude] {
            let sizes = [1, 100, 5_000, 60_000];
            let miniature = miniature(1.0, "lru", &sizes, writes);
            let exact = exact(writes, &zipf_with_scans(2, 30_000));
            for counted in [Counted::All, Counted::Reads] {
                for blocks in sizes {
                    let difference = miniature.curve(counted).miss_ratio(blocks)
                        - exact.curve(counted).miss_ratio(blocks);
                    assert!(difference.abs() < 1e-9, "{writes:?} {counted:?} {blocks}");
                }
            }
        }
    }

    #[test]
    fn small_caches_behave_as_large_ones_do() {
        let sizes = [5_000, 20_000, 80_000];
        for policy in ["fifo", "arc", "sieve"] {
            let small = miniature(0.05, policy, &sizes, Writes::Allocate).curve(Counted::All);
            let large = miniature(1.0, policy, &sizes, Writes::Allocate).curve(Counted::All);
            let error = small.mean_absolute_error(&large, &sizes);
            assert!(error < 0.02, "{policy}: {error}");
        }
    }

    #[test]
    fn what_cannot_be_scaled_down_is_refused() {
        let new = |policy: &str, sizes: &[u64]| {
            let spec = policy.parse().unwrap();
            Miniature::new(&spec, sizes, Spatial::new(0.01, 0), Writes::Allocate).err()
        };
        assert_eq!(
            new("belady", &[10_000]),
            Some(MiniatureError::KnowsFuture("belady"))
        );
        assert!(matches!(
            new("lru", &[100]),
            Some(MiniatureError::Size { scaled: 1, .. })
        ));
        assert_eq!(new("lru", &[10_000]), None);
    }
}
