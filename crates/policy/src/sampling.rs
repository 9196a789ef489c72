//! Which blocks a sample keeps: decided by a hash of where the block is, so that all accesses to a
//! block are sampled or none, and decided for a whole request at once.
//!
//! Paper: C. Waldspurger, N. Park, A. Garthwaite and I. Ahmad, *Efficient MRC Construction with
//! SHARDS*, FAST 2015, section 2: a block is sampled if `hash(block) mod P < T`, at rate `T / P`.
//!
//! Ours differs in how the hash is made. The paper hashes each block by itself; at a rate of 1 % that
//! is a hundred hashes for each block that is kept. Here blocks are hashed in groups of 128
//! neighbours, and a group's hash deals out the values of its blocks:
//!
//! ```text
//!   value of a block, 64 bits:   | place in the group's own order | the group's fraction |
//!                                 \____ 7 bits, each once ________/ \____ 57 bits ______/
//! ```
//!
//! Each block's value is uniform, so the sample is as unbiased as the paper's, and a lower limit keeps
//! a part of what a higher limit kept, as fixed-size sampling needs. But a group's values are spread
//! evenly, so of 128 neighbours 1 % is one or two and never none or six: a stratified sample. Blocks
//! near each other are mostly accessed alike, so the sample's error is smaller. And which blocks of a
//! group are sampled is known from one hash, whatever the length of the request.

use units::number::{count_near, real};

/// Blocks of one volume that one request touches, lowest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Which volume, as the trace numbers them.
    pub volume: u32,
    /// Its first block.
    pub first: u64,
    /// How many blocks.
    pub count: u64,
}

/// Blocks that share a hash.
const GROUP: u64 = 1 << GROUP_BITS;
const GROUP_BITS: u32 = 7;
const PLACE_MASK: u64 = GROUP - 1;
const FRACTION_BITS: u32 = 64 - GROUP_BITS;

/// Decides which blocks are sampled.
#[derive(Clone, Copy, Debug)]
pub struct Spatial {
    seed: u64,
    /// The largest value that is sampled.
    limit: u64,
}

/// How a group deals out values to its blocks.
#[derive(Clone, Copy)]
struct Deal {
    /// Exchanged with a block's number in the group, exclusive or.
    swap: u64,
    /// Odd, so that multiplying by it permutes the places.
    stride: u64,
    /// The low 57 bits of all values.
    fraction: u64,
}

impl Spatial {
    /// Samples this part of all blocks.
    ///
    /// # Panics
    /// If the rate is not above 0 and at most 1.
    pub fn new(rate: f64, seed: u64) -> Self {
        assert!(rate > 0.0 && rate <= 1.0, "a rate is above 0, at most 1");
        let limit = if rate >= 1.0 {
            u64::MAX
        } else {
            // A rate of a few 2^-64 would round to nothing; one value in 2^64 is what is left then.
            count_near(rate * TWO_TO_64).max(1) - 1
        };
        Self { seed, limit }
    }

    /// The part of all blocks that is sampled.
    pub fn rate(&self) -> f64 {
        (real(self.limit) + 1.0) / TWO_TO_64
    }

    /// Samples only blocks with values below this one's from now on.
    ///
    /// # Panics
    /// If `value` is 0: nothing would be sampled any more.
    pub fn lower_below(&mut self, value: u64) {
        assert!(value > 0, "something is always sampled");
        self.limit = self.limit.min(value - 1);
    }

    /// True if a block of this value is sampled.
    #[inline]
    pub const fn samples(&self, value: u64) -> bool {
        value <= self.limit
    }

    /// What tells the values of one volume's blocks: for many requests of one block, its hash is made once.
    #[inline]
    pub const fn of_volume(&self, volume: u32) -> VolumeValues {
        VolumeValues(self.volume(volume))
    }

    /// The value of a block, whether it is sampled or not.
    #[inline]
    pub const fn value(&self, volume: u32, block: u64) -> u64 {
        self.of_volume(volume).value(block)
    }

    /// What the groups of a volume are hashed with.
    #[inline]
    const fn volume(&self, volume: u32) -> u64 {
        mix(self.seed ^ (volume as u64 + 1).wrapping_mul(VOLUMES_APART))
    }

    /// Calls `visit` with the number and the value of each sampled block of a run, lowest first.
    #[inline]
    pub fn sampled(&self, run: Run, mut visit: impl FnMut(u64, u64)) {
        // Most requests are of one block that is not sampled: a hash and a comparison.
        if run.count == 1 {
            let value = self.value(run.volume, run.first);
            if self.samples(value) {
                visit(run.first, value);
            }
        } else {
            self.sampled_of_many(run, visit);
        }
    }

    #[inline(never)]
    fn sampled_of_many(&self, run: Run, mut visit: impl FnMut(u64, u64)) {
        let Some(last) = run.count.checked_sub(1) else {
            return;
        };
        let last = run.first.saturating_add(last);
        let volume = self.volume(run.volume);
        for group in run.first >> GROUP_BITS..=last >> GROUP_BITS {
            let deal = Deal::new(volume, group);
            let begin = group << GROUP_BITS;
            let low = run.first.saturating_sub(begin);
            let high = (last - begin).min(PLACE_MASK);
            if low == high {
                let value = deal.value(low);
                if value <= self.limit {
                    visit(begin + low, value);
                }
                continue;
            }
            let mut places =
                deal.below(self.limit) & (u128::MAX << low) & (u128::MAX >> (127 - high));
            while places != 0 {
                let place = u64::from(places.trailing_zeros());
                visit(begin + place, deal.value(place));
                places &= places - 1;
            }
        }
    }
}

/// The values of one volume's blocks under one seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VolumeValues(u64);

impl VolumeValues {
    /// The value of a block, whether it is sampled or not.
    #[inline]
    pub const fn value(self, block: u64) -> u64 {
        Deal::new(self.0, block >> GROUP_BITS).value(block & PLACE_MASK)
    }
}

const TWO_TO_64: f64 = 18_446_744_073_709_551_616.0;
/// Any odd constant without pattern: consecutive volumes get seeds far apart.
const VOLUMES_APART: u64 = 0x9e37_79b9_7f4a_7c15;

impl Deal {
    #[inline]
    const fn new(volume: u64, group: u64) -> Self {
        let bits = mix(group.wrapping_add(volume));
        Self {
            swap: bits & PLACE_MASK,
            stride: (bits >> GROUP_BITS) & PLACE_MASK | 1,
            fraction: bits >> (2 * GROUP_BITS) << GROUP_BITS,
        }
    }

    /// The value of the block at this place.
    #[inline]
    const fn value(self, place: u64) -> u64 {
        let order = ((place ^ self.swap) * self.stride) & PLACE_MASK;
        order << FRACTION_BITS | self.fraction
    }

    /// The places whose values are at most `limit`, a bit each.
    fn below(self, limit: u64) -> u128 {
        if limit == u64::MAX {
            return u128::MAX;
        }
        // Newton's iteration for the inverse modulo 2^7: an odd number is its own modulo 2^3, and each
        // step doubles the bits that are right.
        let mut inverse = self.stride;
        for _ in 0..2 {
            inverse = inverse.wrapping_mul(2_u64.wrapping_sub(self.stride.wrapping_mul(inverse)));
        }
        let whole = limit >> FRACTION_BITS;
        let partial = limit & ((1 << FRACTION_BITS) - 1) >= self.fraction;
        let mut places = 0;
        for order in 0..whole + u64::from(partial) {
            let place = ((order.wrapping_mul(inverse)) & PLACE_MASK) ^ self.swap;
            places |= 1_u128 << place;
        }
        places
    }
}

/// A permutation of 64 bits in which each bit of the result depends on all bits of the argument
/// (two rounds of xor-shift and multiply; the constants are Stafford's thirteenth variant).
#[inline]
pub const fn mix(bits: u64) -> u64 {
    let bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn blocks(spatial: &Spatial, run: Run) -> Vec<(u64, u64)> {
        let mut blocks = Vec::new();
        spatial.sampled(run, |block, value| blocks.push((block, value)));
        blocks
    }

    fn run(first: u64, count: u64) -> Run {
        Run {
            volume: 3,
            first,
            count,
        }
    }

    proptest! {
        #[test]
        fn a_run_samples_what_its_blocks_sample_one_by_one(
            first in 0..2_000_u64, count in 0..600_u64, rate in 0.001..1.0, seed: u64,
        ) {
            let spatial = Spatial::new(rate, seed);
            let whole = blocks(&spatial, run(first, count));
            let single: Vec<_> = (first..first + count)
                .flat_map(|block| blocks(&spatial, run(block, 1)))
                .collect();
            prop_assert_eq!(whole, single);
        }

        #[test]
        fn a_lower_limit_keeps_a_part(seed: u64, cut in 1..u64::MAX) {
            let mut spatial = Spatial::new(1.0, seed);
            let all = blocks(&spatial, run(0, 1000));
            spatial.lower_below(cut);
            let kept: Vec<_> = all.into_iter().filter(|(_, value)| *value < cut).collect();
            prop_assert_eq!(blocks(&spatial, run(0, 1000)), kept);
        }
    }

    #[test]
    fn rate_one_samples_everything() {
        let spatial = Spatial::new(1.0, 1);
        assert!((spatial.rate() - 1.0).abs() < f64::EPSILON);
        let all = blocks(&spatial, run(5, 1000));
        assert!((5..1005).eq(all.iter().map(|(block, _)| *block)));
    }

    #[test]
    fn a_group_has_its_share_give_or_take_one() {
        let spatial = Spatial::new(0.01, 9);
        for group in 0..1000 {
            let sampled = blocks(&spatial, run(group * GROUP, GROUP)).len();
            assert!((1..=2).contains(&sampled));
        }
    }

    #[test]
    fn each_place_of_a_group_is_sampled_equally_often() {
        for rate in [0.001, 0.01, 0.3] {
            let spatial = Spatial::new(rate, 4);
            let mut seen = vec![0_u32; 128];
            spatial.sampled(run(0, 100_000 * GROUP), |block, _| {
                seen[usize::try_from(block % GROUP).unwrap()] += 1;
            });
            let expected = 100_000.0 * rate;
            for count in seen {
                // Five standard deviations of a count that is at worst Poisson's.
                assert!((f64::from(count) - expected).abs() < 5.0 * expected.sqrt());
            }
        }
    }

    #[test]
    fn volumes_and_seeds_are_sampled_apart() {
        let sample = |seed, volume| {
            let run = Run {
                volume,
                first: 0,
                count: 100_000,
            };
            blocks(&Spatial::new(0.01, seed), run)
        };
        let same = |one: &[(u64, u64)], other: &[(u64, u64)]| {
            one.iter()
                .filter(|(block, _)| other.binary_search_by_key(block, |(at, _)| *at).is_ok())
                .count()
        };
        let base = sample(1, 0);
        assert!((900..1100).contains(&base.len()));
        assert!(same(&base, &sample(1, 1)) < 30);
        assert!(same(&base, &sample(2, 0)) < 30);
    }

    #[test]
    fn the_last_blocks_that_have_numbers_are_sampled_without_overflow() {
        let spatial = Spatial::new(1.0, 1);
        assert_eq!(blocks(&spatial, run(u64::MAX - 9, 100)).len(), 10);
    }
}
