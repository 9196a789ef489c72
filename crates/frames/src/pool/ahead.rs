//! Prefetched blocks that nobody has read yet: first in, first out, and a count of what was worth it.

use policy::replacement::Key;
use units::TenantSlot;

use super::Frames;
use crate::counts::AheadCounts;
use crate::kind::{Kind, LABELS, turn_of};

/// Blocks that a tenant reads in a turn, for each that may be prefetched. What is not read within the turn in which it was
/// prefetched and the next one leaves: without that a guess that was wrong would keep its frame for good.
const TURN: u64 = 2;

impl<K: Key, B> Frames<K, B> {
    /// What moves prefetched blocks.
    pub fn ahead(&mut self) -> Ahead<'_, K, B> {
        Ahead(self)
    }

    /// Whether a block is prefetched and not read yet, whosever.
    #[inline]
    pub fn has_ahead(&self) -> bool {
        self.len(Kind::Ahead) > 0
    }

    /// Prefetched blocks that a tenant may have.
    pub fn ahead_max(&self, tenant: TenantSlot) -> u32 {
        self.tenants.get(tenant).map_or(0, |of| of.ahead_max)
    }
}

/// Moves the prefetched blocks of a pool.
pub struct Ahead<'a, K: Copy, B>(&'a mut Frames<K, B>);

impl<K: Key, B> Ahead<'_, K, B> {
    /// A block was prefetched, by a guess with this label. Its tenant's oldest leaves for it where the tenant has as many as
    /// it may, or its least recently used hot block where the pool is full. False if it is not taken: it has a frame, its
    /// tenant has no share, or no frame that the tenant could give up.
    ///
    /// # Panics
    /// If the label is not below [`LABELS`].
    pub fn put(&mut self, tenant: TenantSlot, key: K, label: u8, bytes: B) -> bool {
        assert!(usize::from(label) < LABELS, "there are few labels");
        if self.0.has(key) {
            return false;
        }
        let ahead_max = self.0.ahead_max(tenant);
        if ahead_max == 0 {
            return false;
        }
        let has_all = self.0.len_of(tenant, Kind::Ahead) == ahead_max;
        let mut evicted = None;
        if self.0.is_full() && !has_all {
            evicted = self.0.evict_oldest(tenant, Kind::Hot);
        }
        if has_all || (self.0.is_full() && evicted.is_none()) {
            evicted = self.evict_oldest(tenant);
            if evicted.is_none() {
                return false;
            }
        }
        self.0.put((Kind::Ahead, label), tenant, key, bytes);
        true
    }

    /// A prefetched block is read: it leaves, and its bytes are those of a miss that is over. Its label, and those.
    pub fn read(&mut self, key: K) -> Option<(u8, B)> {
        self.0.get_of(Kind::Ahead, key)?;
        let left = self.0.take(key)?;
        self.0.tenants.get_mut(left.tenant).ahead.used += 1;
        Some((left.label, left.bytes))
    }

    /// A tenant reads so many blocks. When that ends a turn, what was prefetched before the turn leaves unread.
    pub fn demanded(&mut self, tenant: TenantSlot, blocks: u64) {
        let Some(known) = self.0.tenants.get(tenant) else {
            return;
        };
        let turn = u64::from(known.ahead_max) * TURN;
        let known = self.0.tenants.get_mut(tenant);
        known.read_blocks += blocks;
        if known.read_blocks < turn {
            return;
        }
        known.read_blocks = 0;
        let ends = known.turn;
        known.turn = !ends;
        while self.oldest_turn(tenant).is_some_and(|turn| turn != ends) {
            self.evict_oldest(tenant);
        }
    }

    /// The turn in which a tenant's oldest prefetched block came.
    fn oldest_turn(&self, tenant: TenantSlot) -> Option<bool> {
        let list = &self.0.tenants.get(tenant)?.lists[Kind::Ahead as usize];
        Some(turn_of(self.0.rows.tag(list.back(&self.0.rows)?)))
    }

    /// The prefetched block that waits longest of a tenant's leaves unread.
    pub fn evict_oldest(&mut self, tenant: TenantSlot) -> Option<K> {
        self.0.evict_oldest(tenant, Kind::Ahead)
    }

    /// All prefetched blocks leave unread, and of no label is told how many.
    pub fn evict_all(&mut self) {
        for slot in self.0.tenants.slots() {
            while self.evict_oldest(slot).is_some() {}
            self.take_unread(slot, |_, _| ());
        }
    }

    /// Says of each label how many prefetched blocks of a tenant have left unread since this was asked.
    pub fn take_unread(&mut self, tenant: TenantSlot, mut each: impl FnMut(u8, u32)) {
        if !self.0.tenants.get(tenant).is_some_and(|of| of.has_unread) {
            return;
        }
        let of = self.0.tenants.get_mut(tenant);
        of.has_unread = false;
        for (label, count) in (0..).zip(&mut of.unread) {
            match std::mem::take(count) {
                0 => {}
                count => each(label, count),
            }
        }
    }

    /// What became of the prefetched blocks of a tenant.
    pub fn counts(&self, tenant: TenantSlot) -> AheadCounts {
        let tenant = self.0.tenants.get(tenant);
        tenant.map_or_else(AheadCounts::default, |tenant| tenant.ahead)
    }
}
