//! A curve that is kept for months: [`FixedSize`] in generations.
//!
//! A sample of a fixed size never gives a block back: over months it fills with blocks that nobody has
//! asked for since, the rate falls with all that was ever touched, and of what is used now a handful is
//! left to draw the curve from. So there are two samples:
//!
//! ```text
//!   half-lives   0        4        8        12
//!   first        ├────────┼────────┤                  the older of the two answers;
//!   second                ├────────┼────────┤         it has seen at least 15/16 of what still counts
//!   third                          ├────────┼──
//! ```
//!
//! Each begins at rate 1, so a tenant whose footprint has shrunk is soon seen whole again. A generation
//! lasts while [`Live::fade`] brings its first accesses down to a sixteenth; without fading there is
//! one, and this is [`FixedSize`].
//!
//! Costs: both samples' memory, at most twice [`FixedSize::bytes`]; one hash for both, as they share a
//! seed.

use crate::access::{Counted, Kind, Writes};
use crate::curve::Curve;
use crate::fixed_size::FixedSize;
use policy::sampling::Run;

/// What the first accesses of a sample count when the next one takes its place beside it.
const GENERATION: f64 = 1.0 / 16.0;

/// A sampled LRU curve of recent accesses, for as long as anybody likes.
#[derive(Clone, Debug)]
pub struct Live {
    blocks_max: usize,
    seed: u64,
    writes: Writes,
    answers: FixedSize,
    /// Follows, from the second generation on.
    next: Option<FixedSize>,
    /// What an access from the beginning of this generation still counts.
    faded: f64,
}

impl Live {
    /// No access yet; neither sample will ever have more than `blocks_max` blocks.
    ///
    /// # Panics
    /// If `blocks_max` is 0.
    pub fn new(blocks_max: usize, seed: u64, writes: Writes) -> Self {
        Self {
            blocks_max,
            seed,
            writes,
            answers: FixedSize::new(blocks_max, seed, writes),
            next: None,
            faded: 1.0,
        }
    }

    /// Blocks that one request accesses.
    #[inline]
    pub fn access(&mut self, kind: Kind, run: Run) {
        let Some(next) = &mut self.next else {
            self.answers.access(kind, run);
            return;
        };
        self.answers.count(kind, run.count);
        next.count(kind, run.count);
        let (one, other) = (self.answers.spatial(), next.spatial());
        let wider = if one.rate() > other.rate() {
            one
        } else {
            other
        };
        wider.sampled(run, |block, value| {
            let place = (run.volume, block);
            self.answers.touch(kind, place, value);
            next.touch(kind, place, value);
        });
    }

    /// Blocks that leave the cache: discarded.
    pub fn remove(&mut self, run: Run) {
        self.answers.remove(run);
        if let Some(next) = &mut self.next {
            next.remove(run);
        }
    }

    /// Counts what was so far by this factor: 0.5 at the end of each hour halves the weight of what
    /// is an hour older.
    ///
    /// # Panics
    /// If the factor is not between 0 and 1.
    pub fn fade(&mut self, factor: f64) {
        self.answers.fade(factor);
        if let Some(next) = &mut self.next {
            next.fade(factor);
        }
        self.faded *= factor;
        if self.faded <= GENERATION {
            self.faded = 1.0;
            let fresh = FixedSize::new(self.blocks_max, self.seed, self.writes);
            if let Some(next) = self.next.replace(fresh) {
                self.answers = next;
            }
        }
    }

    /// The curve of what counts now.
    pub fn curve(&self, counted: Counted) -> Curve {
        self.answers.curve(counted)
    }

    /// The part of all blocks that is sampled now.
    pub fn rate(&self) -> f64 {
        self.answers.rate()
    }

    /// Blocks in the sample that answers.
    pub fn sampled_blocks(&self) -> u64 {
        self.answers.sampled_blocks()
    }

    /// Blocks that were touched since the sample that answers began, estimated.
    pub fn footprint_blocks(&self) -> u64 {
        self.answers.footprint_blocks()
    }

    /// Bytes of memory held, by both samples.
    pub fn bytes(&self) -> usize {
        self.answers.bytes() + self.next.as_ref().map_or(0, FixedSize::bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Prng;

    fn one(volume: u32, first: u64) -> Run {
        Run {
            volume,
            first,
            count: 1,
        }
    }

    /// A day: half the accesses to 20,000 hot blocks, half to blocks that are never seen again.
    fn day(dice: &mut Prng, scan: &mut u64, mut access: impl FnMut(Run)) {
        for _ in 0..100_000 {
            access(one(0, dice.below(20_000)));
            *scan += 1;
            access(one(1, *scan));
        }
    }

    /// Fades a sixteenth a day. After sixty days one sample of all time has 3 of the hot blocks, and
    /// this one some fifty.
    #[test]
    fn after_months_the_curve_is_still_drawn_from_what_is_used_now() {
        let (mut dice, mut scan) = (Prng::new(5), 0);
        let mut live = Live::new(1024, 3, Writes::Allocate);
        let mut forever = FixedSize::new(1024, 3, Writes::Allocate);
        for _ in 0..60 {
            day(&mut dice, &mut scan, |run| {
                live.access(Kind::Read, run);
                forever.access(Kind::Read, run);
            });
            live.fade(1.0 / 16.0);
            forever.fade(1.0 / 16.0);
        }
        assert!(live.footprint_blocks() < 300_000);
        assert!(forever.footprint_blocks() > 4_000_000);
        assert!(live.rate() > 10.0 * forever.rate());
        day(&mut dice, &mut scan, |run| live.access(Kind::Read, run));
        let curve = live.curve(Counted::All);
        // A hot block comes again after 40,000 accesses on average, by chance: half of them are hot and
        // touch 20,000 x (1 - 1/e) blocks, half are scans. Beyond five times that nearly all hits are in.
        assert!(
            (curve.hit_ratio(160_000) - 0.5).abs() < 0.06,
            "{}",
            curve.hit_ratio(160_000)
        );
        assert!(curve.hit_ratio(8_000) < 0.25, "{}", curve.hit_ratio(8_000));
    }

    #[test]
    fn a_small_tenant_is_seen_whole_again_after_a_large_scan() {
        let mut live = Live::new(1024, 3, Writes::Allocate);
        let scan = Run {
            volume: 1,
            first: 0,
            count: 1_000_000,
        };
        live.access(Kind::Read, scan);
        assert!(live.rate() < 0.002);
        for _ in 0..2 {
            live.fade(1.0 / 16.0);
            for block in 0..500 {
                live.access(Kind::Read, one(0, block));
                live.access(Kind::Read, one(0, block));
            }
        }
        assert!((live.rate() - 1.0).abs() < f64::EPSILON);
        assert_eq!(live.footprint_blocks(), 500);
        assert!((live.curve(Counted::All).hit_ratio(1) - 0.5).abs() < 0.05);
    }

    #[test]
    fn without_fading_it_is_one_sample() {
        let requests = crate::testkit::zipf_with_scans(2, 5_000);
        let mut live = Live::new(512, 9, Writes::Allocate);
        let mut one = FixedSize::new(512, 9, Writes::Allocate);
        for request in requests {
            match request {
                crate::testkit::Request::Access(kind, run) => {
                    live.access(kind, run);
                    one.access(kind, run);
                }
                crate::testkit::Request::Discard(run) => {
                    live.remove(run);
                    one.remove(run);
                }
            }
        }
        assert_eq!(live.curve(Counted::Reads), one.curve(Counted::Reads));
        assert_eq!(live.bytes(), one.bytes());
    }

    #[test]
    fn memory_stays_bounded_over_the_generations() {
        let mut live = Live::new(8192, 1, Writes::Allocate);
        let mut most = 0;
        for day in 0..5_u64 {
            for at in 0..40_000_u64 {
                let run = Run {
                    volume: 0,
                    first: (day * 40_000 + at) * 64,
                    count: 64,
                };
                live.access(Kind::Read, run);
            }
            most = most.max(live.bytes());
            live.fade(0.01);
        }
        assert!(most < 720_000, "{most}");
        assert!(most > 400_000, "{most}");
    }
}
