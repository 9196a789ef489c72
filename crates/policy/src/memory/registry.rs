//! The policies by name: a line each.

use super::frequency;
use super::kept::Kept;
use super::{Hot, Share};
use crate::registry::registry;
use crate::replacement::{Hashed, Key, Setup};
use crate::replacement::{lru, s3_fifo, w_tiny_lfu};

registry! {
    s3_fifo::S3Fifo(s3_fifo::Config),
    w_tiny_lfu::WTinyLfu(w_tiny_lfu::Config),
    lru::Lru(lru::Config),
    frequency::Frequency(frequency::Config),
}

impl Default for Spec {
    /// S3-FIFO: the most hits of the four at a hundredth of the blocks (mean of five traces).
    fn default() -> Self {
        Self(Chosen::S3Fifo(s3_fifo::Config::default()))
    }
}

impl Spec {
    /// The policy at work for a VM with this share.
    pub fn build<K: Key>(&self, share: Share) -> Box<dyn Hot<K>> {
        let setup = || Setup::new(share.frames, Hashed::new());
        match &self.0 {
            Chosen::S3Fifo(config) => Box::new(Kept(s3_fifo::S3Fifo::new(config, setup()))),
            Chosen::WTinyLfu(config) => Box::new(Kept(w_tiny_lfu::WTinyLfu::new(config, setup()))),
            Chosen::Lru(config) => Box::new(Kept(lru::Lru::new(config, setup()))),
            Chosen::Frequency(config) => Box::new(frequency::Frequency::new(config, share)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{TABLE_BYTES_FIXED, TABLE_BYTES_MAX};
    use super::*;
    use crate::replacement::Capacity;
    use proptest::prelude::*;
    use std::collections::BTreeSet;
    use units::{Bytes, Prng};

    fn all(frames: u64) -> Vec<Box<dyn Hot<u64>>> {
        let share = Share::new(Capacity::new(frames).unwrap());
        let names = Spec::ALL.iter().map(|about| about.name);
        names
            .map(|name| name.parse::<Spec>().unwrap().build(share))
            .collect()
    }

    #[test]
    fn s3_fifo_is_the_default() {
        assert_eq!(Spec::default().to_string(), "s3-fifo");
    }

    proptest! {
        /// Each policy beside the set of blocks that it has named: never more than frames, each leaves once.
        #[test]
        fn a_policy_names_who_leaves(
            frames in 1u64..12,
            steps in prop::collection::vec((0u8..8, 0u64..24), 0..300),
        ) {
            for mut policy in all(frames) {
                let mut framed = BTreeSet::new();
                for &(what, key) in &steps {
                    if what == 0 {
                        policy.remove(key);
                        framed.remove(&key);
                    } else if framed.contains(&key) {
                        policy.hit(key);
                    } else {
                        let mut left = Vec::new();
                        if policy.read(key, &mut left) {
                            framed.insert(key);
                        }
                        for key in left {
                            prop_assert!(framed.remove(&key));
                        }
                    }
                    prop_assert!(framed.len() as u64 <= frames);
                    prop_assert_eq!(policy.len() as usize, framed.len());
                }
            }
        }
    }

    /// Reads and removals without end, at each of some sizes around powers of two.
    #[test]
    fn memory_stays_within_what_a_frame_may_cost() {
        for frames in [1, 100, 1000, 1100, 2000, 7000, 7200] {
            for mut policy in all(frames) {
                let (mut dice, mut framed) = (Prng::new(frames), BTreeSet::new());
                let most = Bytes::new(frames * TABLE_BYTES_MAX) + TABLE_BYTES_FIXED;
                for _ in 0..frames * 30 {
                    let key = dice.below(frames * 4);
                    if dice.below(4) == 0 {
                        policy.remove(key);
                        framed.remove(&key);
                        continue;
                    }
                    if framed.contains(&key) {
                        policy.hit(key);
                        continue;
                    }
                    let mut left = Vec::new();
                    if policy.read(key, &mut left) {
                        framed.insert(key);
                    }
                    for key in left {
                        assert!(framed.remove(&key));
                    }
                    assert!(policy.memory() <= most, "{frames}: {}", policy.memory());
                }
            }
        }
    }
}
