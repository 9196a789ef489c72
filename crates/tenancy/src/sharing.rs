//! Who uses the blocks of a base image, and what it saves that they are cached once.
//!
//! Of the image's cached blocks a sample is kept, each with the VMs that read it since it came in (its
//! tags, as T-CLOCK calls them). A block is in the sample if a hash of its key is below a limit; when
//! the sample has too many pairs of block and VM the limit is halved, so memory is bounded whatever the
//! image's size and however many VMs read it.
//!
//! ```text
//!   block   VMs            each VM cached alone it would take     sharing saves
//!   b7      {v1}           1                                      0
//!   b9      {v1, v2, v5}   3                                      2
//!   sum / rate             what each VM uses, shared or not
//! ```
//!
//! Paper: the tags of *T-CLOCK* (poster, SYSTOR), for a sample instead of for all blocks.

use crate::limits::TAG_PAIRS_MAX;
use std::collections::BTreeMap;
use units::{Map, TenantSlot};

/// What a base image's cached blocks are to those who read it. Estimates, in blocks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sharing {
    /// The VMs that use cached blocks of it.
    pub users: Vec<Use>,
    /// Cached blocks that were used again since they came in.
    pub reaccessed_blocks: u64,
    /// Cached blocks that two VMs or more use.
    pub shared_blocks: u64,
    /// Blocks that would be cached beside these if each VM had its own copies.
    pub saved_blocks: u64,
}

/// What one VM uses of a base image's cached blocks. Estimates, in blocks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Use {
    /// Who.
    pub vm: TenantSlot,
    /// Blocks that it has read since they were cached.
    pub blocks: u64,
    /// Those of them that another VM has read too.
    pub shared_blocks: u64,
    /// What falls to it if each block is divided among its users.
    pub portion_blocks: f64,
}

/// The sample of one base image.
#[derive(Clone, Debug)]
pub(crate) struct Tags {
    seed: u64,
    /// Hashes up to this one are sampled.
    limit: u64,
    blocks: Map<u64, Tagged>,
    /// Users of all sampled blocks.
    pairs: usize,
}

/// A sampled block.
#[derive(Clone, Debug, Default)]
struct Tagged {
    /// Who has used it, sorted.
    users: Vec<TenantSlot>,
    /// Whether it was used again since it came in.
    again: bool,
}

/// Two rounds of xor-shift and multiply, Stafford's thirteenth variant: each bit depends on all.
const fn mix(bits: u64) -> u64 {
    let bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

impl Tags {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            seed,
            limit: u64::MAX,
            blocks: Map::default(),
            pairs: 0,
        }
    }

    #[inline]
    fn samples(&self, key: u64) -> bool {
        mix(key ^ self.seed) <= self.limit
    }

    /// A VM has read a block that is cached, or will be now.
    #[inline]
    pub(crate) fn used(&mut self, key: u64, vm: TenantSlot) {
        if self.samples(key) {
            self.tag(key, vm);
        }
    }

    fn tag(&mut self, key: u64, vm: TenantSlot) {
        let tagged = self.blocks.entry(key).or_default();
        tagged.again |= !tagged.users.is_empty();
        if let Err(at) = tagged.users.binary_search(&vm) {
            tagged.users.insert(at, vm);
            self.pairs += 1;
        }
        while self.pairs > TAG_PAIRS_MAX && self.limit > 1 {
            self.limit /= 2;
            let (seed, limit) = (self.seed, self.limit);
            self.blocks.retain(|key, _| mix(key ^ seed) <= limit);
            self.count();
        }
    }

    fn count(&mut self) {
        self.pairs = self.blocks.values().map(|tagged| tagged.users.len()).sum();
    }

    /// A block is cached no longer.
    #[inline]
    pub(crate) fn left(&mut self, key: u64) {
        if self.samples(key)
            && let Some(tagged) = self.blocks.remove(&key)
        {
            self.pairs -= tagged.users.len();
        }
    }

    /// A VM is gone.
    pub(crate) fn forget(&mut self, vm: TenantSlot) {
        for tagged in self.blocks.values_mut() {
            tagged.users.retain(|user| *user != vm);
        }
        self.count();
    }

    pub(crate) fn bytes(&self) -> usize {
        let lists = self.blocks.values().map(|tagged| tagged.users.capacity());
        self.blocks.allocation_size() + lists.sum::<usize>() * size_of::<TenantSlot>()
    }

    pub(crate) fn estimate(&self) -> Sharing {
        let mut of_vm: BTreeMap<TenantSlot, (u64, u64, f64)> = BTreeMap::new();
        let (mut again, mut shared, mut saved) = (0, 0, 0);
        // Sorted, since sums of fractions depend on their order.
        let mut blocks: Vec<(&u64, &Tagged)> = self.blocks.iter().collect();
        blocks.sort_unstable_by_key(|(key, _)| **key);
        for (_, tagged) in blocks {
            let users = &tagged.users;
            let is_shared = users.len() > 1;
            again += u64::from(tagged.again);
            shared += u64::from(is_shared);
            saved += (users.len() as u64).saturating_sub(1);
            let portion = 1.0 / units::number::real(users.len() as u64);
            for vm in users {
                let uses = of_vm.entry(*vm).or_default();
                uses.0 += 1;
                uses.1 += u64::from(is_shared);
                uses.2 += portion;
            }
        }
        let scale = self.scale();
        let scaled = |count: u64| units::number::count_near(units::number::real(count) * scale);
        let user = |(vm, (blocks, shared, portion)): (TenantSlot, (u64, u64, f64))| Use {
            vm,
            blocks: scaled(blocks),
            shared_blocks: scaled(shared),
            portion_blocks: portion * scale,
        };
        Sharing {
            users: of_vm.into_iter().map(user).collect(),
            reaccessed_blocks: scaled(again),
            shared_blocks: scaled(shared),
            saved_blocks: scaled(saved),
        }
    }

    /// Blocks that each sampled one stands for.
    fn scale(&self) -> f64 {
        units::number::real(u64::MAX) / units::number::real(self.limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VMS: [TenantSlot; 3] = [TenantSlot::new(1), TenantSlot::new(2), TenantSlot::new(5)];

    #[test]
    fn three_users_of_a_block_save_two_copies() {
        let mut tags = Tags::new(0);
        tags.used(7, VMS[0]);
        for vm in VMS {
            tags.used(9, vm);
            tags.used(9, vm);
        }
        let sharing = tags.estimate();
        assert_eq!((sharing.shared_blocks, sharing.saved_blocks), (1, 2));
        let first = sharing.users[0];
        assert_eq!(
            (first.vm, first.blocks, first.shared_blocks),
            (VMS[0], 2, 1)
        );
        assert!((first.portion_blocks - (1.0 + 1.0 / 3.0)).abs() < 1e-9);
        tags.left(9);
        tags.left(9);
        assert_eq!(tags.estimate().saved_blocks, 0);
        tags.forget(VMS[0]);
        assert!(tags.estimate().users.is_empty());
    }

    #[test]
    fn a_large_image_of_many_vms_is_estimated_within_its_memory() {
        let mut tags = Tags::new(3);
        for key in 0..200_000_u64 {
            for vm in 0..8 {
                if vm == 0 || key % 2 == 0 {
                    tags.used(key, TenantSlot::new(vm));
                }
            }
            assert!(tags.pairs <= TAG_PAIRS_MAX);
        }
        assert!(tags.bytes() < 1 << 20, "{}", tags.bytes());
        let sharing = tags.estimate();
        let near = |estimate: u64, truth: u64| estimate.abs_diff(truth) < truth / 10;
        assert!(near(sharing.shared_blocks, 100_000), "{sharing:?}");
        assert!(near(sharing.saved_blocks, 700_000), "{sharing:?}");
        assert!(near(sharing.users[0].blocks, 200_000), "{sharing:?}");
        assert!(near(sharing.users[7].blocks, 100_000), "{sharing:?}");
    }
}
