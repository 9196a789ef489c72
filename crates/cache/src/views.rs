//! What each VM makes of a base image that several of them read.
//!
//! The image's blocks are cached once. For each VM that has joined it a *view* counts what the
//! VM asked and found, and which blocks it has read at all: a block that was in the cache when
//! the VM first read it would have been a miss of a cache of its own, and is what sharing saves.
//!
//! Which blocks a VM has read is known for a sample of them, one in a group of 1, 2, 4 ...
//! blocks that a hash chooses, so that a view never takes more than [`SEEN_BYTES_MAX`].

use crate::limits::SEEN_BYTES_MAX;
use units::{BLOCK_BYTES, BlockIndex, Bytes, TenantSlot};

/// What a VM asked of an image that it shares, since the image was attached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ViewStats {
    /// Read requests.
    pub read_requests: u64,
    /// Bytes that it read.
    pub read_bytes: u64,
    /// Blocks (or parts) read that were in the cache.
    pub read_block_hits: u64,
    /// Blocks (or parts) read that were not.
    pub read_block_misses: u64,
    /// Different blocks that it has read; estimated from one in [`ViewStats::sampled_one_in`].
    pub blocks_seen: u64,
    /// Those of them that were in the cache when it first read them, because another VM had
    /// read them: what sharing has saved this VM. Estimated likewise.
    pub blocks_found: u64,
    /// One block in so many is counted in the two above.
    pub sampled_one_in: u64,
}

/// A VM's view of an image.
#[derive(Clone, Debug)]
struct View {
    vm: TenantSlot,
    /// How often it joined; what a VM that has left asked is remembered.
    joined: u32,
    stats: ViewStats,
    seen: Vec<u64>,
}

/// Every view of an image, by VM.
#[derive(Clone, Debug)]
pub(crate) struct Views {
    views: Vec<View>,
    /// Blocks of a group, of which one is sampled: a power of two.
    group: u64,
}

impl Views {
    /// Of an image of this size that nobody has joined.
    pub(crate) fn new(size: Bytes) -> Self {
        let blocks = size.get() / BLOCK_BYTES;
        let bits = SEEN_BYTES_MAX.get() * 8;
        Self {
            views: Vec::new(),
            group: blocks.div_ceil(bits).max(1).next_power_of_two(),
        }
    }

    /// A VM joins, perhaps once more.
    pub(crate) fn join(&mut self, vm: TenantSlot) {
        match self.views.binary_search_by_key(&vm, |view| view.vm) {
            Ok(at) => self.views[at].joined += 1,
            Err(at) => self.views.insert(
                at,
                View {
                    vm,
                    joined: 1,
                    stats: ViewStats {
                        sampled_one_in: self.group,
                        ..ViewStats::default()
                    },
                    seen: Vec::new(),
                },
            ),
        }
    }

    /// A VM leaves as often as it joined. False if it had not.
    pub(crate) fn leave(&mut self, vm: TenantSlot) -> bool {
        match self.of(vm) {
            Some(view) if view.joined > 0 => {
                view.joined -= 1;
                true
            }
            _ => false,
        }
    }

    /// Forgets a VM that has left: its slot becomes another's.
    pub(crate) fn forget(&mut self, vm: TenantSlot) {
        self.views.retain(|view| view.vm != vm);
    }

    /// Whether a VM has joined.
    pub(crate) fn has(&self, vm: TenantSlot) -> bool {
        let at = self.views.binary_search_by_key(&vm, |view| view.vm);
        at.is_ok_and(|at| self.views[at].joined > 0)
    }

    /// Each VM as often as it joined.
    pub(crate) fn joins(&self) -> impl Iterator<Item = TenantSlot> {
        let views = self.views.iter();
        views.flat_map(|view| std::iter::repeat_n(view.vm, view.joined as usize))
    }

    /// What each VM asked, those that have left included.
    pub(crate) fn stats(&self) -> impl Iterator<Item = (TenantSlot, ViewStats)> {
        self.views.iter().map(|view| (view.vm, view.stats))
    }

    /// A VM asks to read.
    pub(crate) fn asked(&mut self, vm: TenantSlot, length: Bytes) {
        if let Some(view) = self.of(vm) {
            view.stats.read_requests += 1;
            view.stats.read_bytes += length.get();
        }
    }

    /// A run of blocks that a VM reads was in the cache, or was not.
    pub(crate) fn read(&mut self, vm: TenantSlot, first: BlockIndex, count: u64, hit: bool) {
        let group = self.group;
        let Some(view) = self.of(vm) else { return };
        *if hit {
            &mut view.stats.read_block_hits
        } else {
            &mut view.stats.read_block_misses
        } += count;
        for block in first.get()..first.get() + count {
            let number = block / group;
            if block % group == mix(number) % group && view.sees(number) {
                view.stats.blocks_seen += group;
                view.stats.blocks_found += if hit { group } else { 0 };
            }
        }
    }

    fn of(&mut self, vm: TenantSlot) -> Option<&mut View> {
        let at = self.views.binary_search_by_key(&vm, |view| view.vm).ok()?;
        Some(&mut self.views[at])
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        let seen = self.views.iter().map(|view| view.seen.capacity() * 8);
        self.views.capacity() * size_of::<View>() + seen.sum::<usize>()
    }
}

impl View {
    /// Notes a sampled block. True if it is seen for the first time.
    fn sees(&mut self, number: u64) -> bool {
        let at = usize::try_from(number / 64).expect("a view is small");
        if at >= self.seen.len() {
            self.seen.resize(at + 1, 0);
        }
        let bit = 1 << (number % 64);
        let first = self.seen[at] & bit == 0;
        self.seen[at] |= bit;
        first
    }
}

/// Spreads a group's number over all bits (the finalizer of splitmix64).
fn mix(number: u64) -> u64 {
    let mut bits = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: TenantSlot = TenantSlot::new(3);
    const B: TenantSlot = TenantSlot::new(1);

    #[test]
    fn what_another_vm_brought_in_is_saved() {
        let mut views = Views::new(Bytes::mib(64));
        views.join(A);
        views.join(B);
        // A reads blocks 0..10 from the origin, and again from the cache; B reads 5..15.
        views.read(A, BlockIndex::new(0), 10, false);
        views.read(A, BlockIndex::new(0), 10, true);
        views.read(B, BlockIndex::new(5), 5, true);
        views.read(B, BlockIndex::new(10), 5, false);
        let [(_, b), (_, a)] = views.stats().collect::<Vec<_>>()[..] else {
            panic!("two have joined");
        };
        assert_eq!((a.blocks_seen, a.blocks_found), (10, 0));
        assert_eq!((b.blocks_seen, b.blocks_found), (10, 5));
        assert_eq!((a.read_block_hits, a.read_block_misses), (10, 10));
        assert_eq!(a.sampled_one_in, 1);
    }

    #[test]
    fn a_view_of_a_large_image_is_a_small_sample() {
        let mut views = Views::new(Bytes::gib(64));
        views.join(A);
        let blocks = Bytes::gib(64).get() / BLOCK_BYTES;
        // Every second MiB is read.
        for mib in (0..blocks / 256).step_by(2) {
            views.read(A, BlockIndex::new(mib * 256), 256, false);
        }
        let (_, stats) = views.stats().next().unwrap();
        assert_eq!(stats.sampled_one_in, 32);
        assert_eq!(stats.blocks_seen, blocks / 2, "groups lie within a MiB");
        assert!(views.bytes() <= 2 * SEEN_BYTES_MAX.to_usize());
    }

    #[test]
    fn a_vm_leaves_when_it_has_left_as_often_as_it_joined() {
        let mut views = Views::new(Bytes::mib(1));
        views.join(A);
        views.join(A);
        assert!(views.leave(A));
        assert!(views.has(A));
        assert_eq!(views.joins().collect::<Vec<_>>(), [A]);
        assert!(views.leave(A));
        assert!(!views.has(A));
        assert!(!views.leave(A));
        assert_eq!(views.stats().count(), 1, "what it asked is remembered");
        views.forget(A);
        assert_eq!(views.stats().count(), 0);
    }
}
