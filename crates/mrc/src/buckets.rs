//! A histogram of sizes in logarithmic buckets, so that it stays small whatever the sizes are.
//!
//! Sizes below 128 have a bucket each; above, each octave has 64 of one width, so that a size is known
//! to 1.6 % or better. A bucket is named by its largest size.

use crate::access::{ByKind, Kind};

const FINE_BITS: u32 = 6;
const FINE: u64 = 1 << FINE_BITS;

/// Weights by size.
#[derive(Clone, Debug, Default)]
pub(crate) struct Buckets {
    weights: Vec<ByKind<f64>>,
}

impl Buckets {
    /// Adds a weight at a size.
    pub(crate) fn add(&mut self, size: u64, kind: Kind, weight: f64) {
        let at = index(size);
        if at >= self.weights.len() {
            self.weights.resize(at + 1, ByKind::default());
        }
        self.weights[at].add(kind, weight);
    }

    /// The largest size of each bucket that is not empty, and its weights.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, ByKind<f64>)> + '_ {
        let buckets = self.weights.iter().enumerate();
        buckets
            .filter(|(_, weight)| weight.0 != [0.0, 0.0])
            .map(|(at, weight)| (largest(at), *weight))
    }

    /// Multiplies all weights.
    pub(crate) fn scale(&mut self, factor: f64) {
        for weight in self.weights.iter_mut().flat_map(|weight| &mut weight.0) {
            *weight *= factor;
        }
    }

    /// Bytes of memory held.
    pub(crate) const fn bytes(&self) -> usize {
        self.weights.capacity() * size_of::<ByKind<f64>>()
    }
}

fn index(size: u64) -> usize {
    let octave = (size | 1).ilog2().saturating_sub(FINE_BITS);
    // Within its octave a size has 7 bits, the top one set; octave 0 has those below as well.
    usize::try_from(u64::from(octave) * FINE + (size >> octave)).expect("at most 59 octaves")
}

fn largest(index: usize) -> u64 {
    let index = index as u64;
    let octave = (index / FINE).saturating_sub(1);
    let top = index - octave * FINE;
    ((u128::from(top + 1) << octave) - 1)
        .try_into()
        .unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_size_is_in_a_bucket_that_ends_close_above_it(size: u64) {
            let end = largest(index(size));
            prop_assert!(end >= size);
            prop_assert!(end - size <= size / 64);
            prop_assert_eq!(index(end), index(size));
            if let Some(next) = end.checked_add(1) {
                prop_assert_eq!(index(next), index(size) + 1);
            }
        }
    }

    #[test]
    fn small_sizes_have_buckets_of_their_own() {
        for size in 0..128 {
            assert_eq!(largest(index(size)), size);
        }
        assert_eq!(largest(index(128)), 129);
    }

    #[test]
    fn weights_come_back_by_rising_size() {
        let mut buckets = Buckets::default();
        buckets.add(1000, Kind::Read, 2.0);
        buckets.add(3, Kind::Write, 1.0);
        buckets.add(1001, Kind::Read, 2.0);
        buckets.scale(0.5);
        let all: Vec<_> = buckets
            .iter()
            .map(|(size, weight)| (size, weight.0))
            .collect();
        assert_eq!(all, [(3, [0.0, 0.5]), (1007, [2.0, 0.0])]);
    }
}
