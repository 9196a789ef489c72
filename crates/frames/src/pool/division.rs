//! How the pool is divided: by kind, and among tenants.

use policy::memory::{self, TABLE_BYTES_FIXED, TABLE_BYTES_MAX};
use policy::replacement::limits::CAPACITY_BLOCKS_MAX;
use policy::replacement::{Capacity, Fraction, Key};
use policy::rows::Rows;
use units::{BLOCK_BYTES, Bytes, TenantSlot};

use super::Frames;
use crate::counts::AheadCounts;
use crate::kind::{Kind, LABELS};
use crate::settings::{Part, Settings};
use crate::tenants::Tenant;

/// Prefetched blocks may have one frame in so many: a guess that is always wrong costs at most that part of what else is
/// kept in memory.
pub const AHEAD_PARTS: u32 = 4;

/// A share that grows by no more than this part of itself leaves its policy as it is: a new one forgets what it has seen.
const HOT_CHANGE_PARTS: u32 = 8;

/// So many frames' part that is `part` of `total`, rounded down.
fn share_of(frames: u32, part: u32, total: u64) -> u32 {
    let share = u64::from(frames) * u64::from(part) / total.max(1);
    u32::try_from(share).expect("a part is not more than the whole")
}

/// Frames that are within a limit of 32 bits.
fn count(frames: u64) -> u32 {
    let frames = frames.min(CAPACITY_BLOCKS_MAX.into());
    u32::try_from(frames).expect("it is below a limit of 32 bits")
}

/// A pool's frames for hot blocks, and in all.
pub(super) fn frames_within<K: Key, B>(settings: &Settings) -> (u32, u32) {
    let size = settings.size.get();
    let size = size.saturating_sub(Frames::<K, B>::FIXED_BYTES);
    let staged = count((size / Frames::<K, B>::FRAME_BYTES).min(settings.staged));
    let hot = (size - u64::from(staged) * Frames::<K, B>::FRAME_BYTES) / Frames::<K, B>::HOT_BYTES;
    let hot = count(hot).min(CAPACITY_BLOCKS_MAX - staged);
    (hot, staged + hot)
}

impl<K: Key, B> Frames<K, B> {
    /// Memory of a frame with all that finds it.
    pub const FRAME_BYTES: u64 = BLOCK_BYTES + Rows::<K>::ROW_BYTES + size_of::<Option<B>>() as u64;

    /// Memory of a frame of a hot block, with what its policy remembers.
    const HOT_BYTES: u64 = Self::FRAME_BYTES + TABLE_BYTES_MAX;

    /// Memory whatever the number of frames: of every tenant's lists, and of the last slot.
    pub const FIXED_BYTES: u64 = (TenantSlot::COUNT * size_of::<Tenant<K>>() + 4) as u64;

    /// Hot frames whose memory a policy needs whatever its share.
    pub const HOT_FIXED: u32 = {
        let frames = TABLE_BYTES_FIXED.get().div_ceil(Self::HOT_BYTES);
        assert!(frames < 16);
        #[allow(clippy::cast_possible_truncation, reason = "it is below 16")]
        let frames = frames as u32;
        frames
    };

    /// The size of a pool that has so many frames, none of them for hot blocks.
    pub const fn size_for(frames: u64) -> Bytes {
        Bytes::new(frames * Self::FRAME_BYTES + Self::FIXED_BYTES)
    }

    /// The size of a pool for so many staged and so many hot blocks.
    pub const fn size_with_hot(staged: u64, hot: u64) -> Bytes {
        Bytes::new(Self::size_for(staged).get() + hot * Self::HOT_BYTES)
    }

    /// Divides what prefetched and hot blocks may have in proportion to the tenants' parts. Who has more than that loses
    /// the oldest, of hot blocks the least recently used; who is not named has none.
    pub fn divide(&mut self, parts: &[Part]) {
        let total: u64 = parts.iter().map(|part| u64::from(part.parts)).sum();
        let ahead_max = self.capacity() / AHEAD_PARTS;
        for slot in self.tenants.slots() {
            let part = parts.iter().find(|part| part.tenant == slot);
            if part.is_none() {
                self.tenants.get_mut(slot).ahead_max = 0;
                self.set_hot(slot, 0, false);
            }
        }
        for part in parts {
            let hot = share_of(self.hot_max, part.parts, total);
            self.tenants.get_mut(part.tenant).ahead_max = share_of(ahead_max, part.parts, total);
            self.set_hot(
                part.tenant,
                hot.saturating_sub(Self::HOT_FIXED),
                part.high_priority,
            );
        }
        for slot in self.tenants.slots() {
            let ahead_max = self.tenants.get_mut(slot).ahead_max;
            while self.len_of(slot, Kind::Ahead) > ahead_max {
                self.evict_oldest(slot, Kind::Ahead);
            }
        }
    }

    /// A tenant goes: its prefetched and hot blocks leave, and what was counted of them is forgotten. What it has staged
    /// leaves by admission's word.
    pub fn forget_tenant(&mut self, tenant: TenantSlot) {
        if self.tenants.get(tenant).is_none() {
            return;
        }
        self.set_hot(tenant, 0, false);
        while self.evict_oldest(tenant, Kind::Ahead).is_some() {}
        let known = self.tenants.get_mut(tenant);
        (known.ahead, known.ahead_max) = (AheadCounts::default(), 0);
        (known.unread, known.has_unread) = ([0; LABELS], false);
        (known.read_blocks, known.turn) = (0, false);
        known.weight = Fraction::ONE;
    }

    /// What a tenant's reads weigh for its policy, until it goes: one unless told. Its policy forgets nothing for that.
    pub fn set_weight(&mut self, tenant: TenantSlot, weight: Fraction) {
        let known = self.tenants.get_mut(tenant);
        known.weight = weight;
        if let Some(policy) = &mut known.hot {
            policy.set_weight(weight);
        }
    }

    /// A tenant has so many frames for hot blocks. A new policy is told what has a frame, the oldest first, and it names
    /// whom there is no room for.
    fn set_hot(&mut self, slot: TenantSlot, frames: u32, high_priority: bool) {
        let known = self.tenants.get_mut(slot);
        let (before, had_priority) = (known.hot_frames, known.hot_has_priority);
        let stays = (before..=before + before / HOT_CHANGE_PARTS).contains(&frames);
        if stays && had_priority == high_priority {
            return;
        }
        (known.hot_frames, known.hot_has_priority) = (frames, high_priority);
        known.hot = None;
        let weight = known.weight;
        let Ok(capacity) = Capacity::new(frames.into()) else {
            while self.evict_oldest(slot, Kind::Hot).is_some() {}
            return;
        };
        let share = memory::Share {
            frames: capacity,
            weight,
            high_priority,
        };
        let mut policy = self.hot_spec.build(share);
        let mut left = Vec::new();
        for key in self.keys_of(slot, Kind::Hot) {
            policy.restore(key, &mut left);
        }
        for key in left {
            self.take(key);
        }
        self.tenants.get_mut(slot).hot = Some(policy);
    }
}
