//! A keyed permutation of the extents of a volume.
//!
//! Source: a balanced Feistel network with a hash as its round function, as in M. Luby, C. Rackoff, *How to construct
//! pseudorandom permutations from pseudorandom functions*, SIAM J. Comput. 17 (1988); ten rounds, since the
//! domain is small (NIST SP 800-38G uses ten for the same reason).
//!
//! ```text
//!   extents   0 ......... 2^28 ─────────────── 2^44
//!             permuted among     permuted among
//!             themselves         themselves: cycle walking
//! ```
//!
//! The first 256 TiB stay there, so that an anonymous disk has a size that a disk can have.

use super::key::{Key, Purpose};

/// The bits of the number of an extent in the first part of a volume.
const NEAR_BITS: u32 = 28;
/// The bits of the number of any extent.
const FAR_BITS: u32 = 44;
/// How often halves are mixed.
const ROUNDS: u8 = 10;

/// The permutation of one volume.
#[derive(Clone, Debug)]
pub(super) struct Permutation {
    key: Key,
}

impl Permutation {
    /// That of the volume that this key was made for.
    pub(super) const fn new(key: Key) -> Self {
        Self { key }
    }

    /// The extent that stands for this one.
    ///
    /// # Panics
    /// Beyond 2^44 extents, which no offset reaches.
    pub(super) fn of(&self, extent: u64) -> u64 {
        assert!(extent >> FAR_BITS == 0, "an offset is below 2^64 bytes");
        if extent >> NEAR_BITS == 0 {
            return self.mixed(extent, NEAR_BITS);
        }
        // The walk stays in the cycle of an extent that is far, so it ends at one.
        let mut far = self.mixed(extent, FAR_BITS);
        while far >> NEAR_BITS == 0 {
            far = self.mixed(far, FAR_BITS);
        }
        far
    }

    fn mixed(&self, number: u64, bits: u32) -> u64 {
        let half = bits / 2;
        let mask = (1 << half) - 1;
        let (mut left, mut right) = (number >> half, number & mask);
        for round in 0..ROUNDS {
            let mut text = [0; 10];
            text[0] = round;
            // Both networks of a volume have the same key.
            text[1] = u8::from(bits == FAR_BITS);
            text[2..].copy_from_slice(&right.to_le_bytes());
            let mixed = self.key.number(Purpose::Round, &text) & mask;
            (left, right) = (right, left ^ mixed);
        }
        left << half | right
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn permutation(seed: u8) -> Permutation {
        Permutation::new(Key::new([seed; 32]))
    }

    #[test]
    fn different_extents_have_different_places() {
        let permutation = permutation(1);
        let near = 0..5000;
        let far = (1 << NEAR_BITS)..(1 << NEAR_BITS) + 500;
        let places: BTreeSet<u64> = near.clone().map(|extent| permutation.of(extent)).collect();
        assert_eq!(places.len(), 5000);
        assert!(places.iter().all(|place| place >> NEAR_BITS == 0));
        let places: BTreeSet<u64> = far.map(|extent| permutation.of(extent)).collect();
        assert_eq!(places.len(), 500);
        assert!(places.iter().all(|place| place >> NEAR_BITS != 0));
    }

    #[test]
    fn a_small_network_is_a_permutation_of_all() {
        let permutation = permutation(2);
        let all: BTreeSet<u64> = (0..1 << 12)
            .map(|number| permutation.mixed(number, 12))
            .collect();
        assert_eq!(all.len(), 1 << 12);
    }

    #[test]
    fn another_key_gives_other_places() {
        let (one, other) = (permutation(1), permutation(2));
        let same = (0..1000).filter(|extent| one.of(*extent) == other.of(*extent));
        assert!(same.count() < 3);
        assert_eq!(one.of(7), permutation(1).of(7));
    }
}
