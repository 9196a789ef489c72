//! The pool: rows, frames, and what moves them.

mod ahead;
mod division;
mod hot;

pub use ahead::Ahead;
pub use division::AHEAD_PARTS;

use policy::memory;
use policy::replacement::{Key, Place};
use policy::rows::{List, Rows};
use units::{BLOCK_BYTES, Bytes, TenantSlot};

use crate::kind::{Kind, kind_of, label_of, tag_of, tenant_of};
use crate::settings::Settings;
use crate::tenants::Tenants;

/// The pool. `K` names a block of any disk; `B` holds its bytes: a buffer in the daemon, nothing in the simulator, which
/// counts as a frame all the same. See the crate's header.
pub struct Frames<K: Copy, B> {
    rows: Rows<K>,
    /// By place.
    bytes: Vec<Option<B>>,
    tenants: Tenants<K>,
    /// By kind.
    count: [u32; Kind::COUNT],
    size: Bytes,
    /// Frames for hot blocks.
    hot_max: u32,
    hot_spec: memory::Spec,
    /// Where policies name who leaves; empty between calls.
    left: Vec<K>,
}

/// A frame that has left the pool.
struct Left<B> {
    kind: Kind,
    tenant: TenantSlot,
    label: u8,
    bytes: B,
}

impl<K: Key, B> Default for Frames<K, B> {
    /// One that has room for nothing.
    fn default() -> Self {
        Self::new(&Settings {
            size: Bytes::ZERO,
            staged: 0,
            hot: memory::Spec::default(),
        })
    }
}

impl<K: Key, B> Frames<K, B> {
    /// An empty pool. Its size is [`Self::FIXED_BYTES`] at least, which have no frame.
    pub fn new(settings: &Settings) -> Self {
        let (hot_max, capacity) = division::frames_within::<K, B>(settings);
        Self {
            rows: Rows::new(capacity),
            bytes: Vec::with_capacity(capacity as usize),
            tenants: Tenants::default(),
            count: [0; Kind::COUNT],
            size: settings.size.max(Self::size_for(0)),
            hot_max,
            hot_spec: settings.hot.clone(),
            left: Vec::new(),
        }
    }

    /// What it may take.
    pub fn size(&self) -> Bytes {
        self.size
    }

    /// Frames that there may be.
    pub fn capacity(&self) -> u32 {
        self.rows.capacity()
    }

    /// Bytes that it takes, tables and policies included.
    pub fn memory(&self) -> Bytes {
        self.tables() + Bytes::new(u64::from(self.rows.len()) * BLOCK_BYTES)
    }

    /// Bytes of what finds the frames, and says which are worth one.
    pub fn tables(&self) -> Bytes {
        let places = self.bytes.capacity() * size_of::<Option<B>>();
        self.rows.memory() + Bytes::new(places as u64) + self.tenants.bytes()
    }

    /// Frames of a kind.
    pub fn len(&self, kind: Kind) -> u32 {
        self.count[kind as usize]
    }

    /// Whether there is no frame at all.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.count == [0; Kind::COUNT]
    }

    /// Frames of a kind that a tenant has.
    pub fn len_of(&self, tenant: TenantSlot, kind: Kind) -> u32 {
        let tenant = self.tenants.get(tenant);
        tenant.map_or(0, |tenant| tenant.lists[kind as usize].len())
    }

    /// A block's frame.
    #[inline]
    pub fn get(&self, key: K) -> Option<(Kind, &B)> {
        if self.is_empty() {
            return None;
        }
        let place = self.rows.find(key)?;
        let bytes = self.bytes[place.to_usize()].as_ref()?;
        Some((kind_of(self.rows.tag(place)), bytes))
    }

    /// A block's bytes, if it is of this kind.
    #[inline]
    pub fn get_of(&self, kind: Kind, key: K) -> Option<&B> {
        let (found, bytes) = self.get(key)?;
        (found == kind).then_some(bytes)
    }

    /// The blocks of a kind, tenant by tenant, the oldest first.
    pub fn keys(&self, kind: Kind) -> impl Iterator<Item = K> {
        let slots = self.tenants.slots();
        slots.flat_map(move |slot| self.keys_of(slot, kind))
    }

    /// The blocks of a kind that a tenant has, the oldest first.
    pub fn keys_of(&self, tenant: TenantSlot, kind: Kind) -> impl Iterator<Item = K> {
        let list = self
            .tenants
            .get(tenant)
            .map(|tenant| &tenant.lists[kind as usize]);
        let mut next = list.and_then(|list| list.back(&self.rows));
        (0..list.map_or(0, List::len)).map_while(move |_| {
            let place = next?;
            next = Some(List::newer(place, &self.rows));
            Some(self.rows.key(place))
        })
    }

    /// Whether a block has a frame.
    #[inline]
    pub fn has(&self, key: K) -> bool {
        !self.is_empty() && self.rows.find(key).is_some()
    }

    /// A block is staged, in place of the frame that it may have had. Where no frame is free a prefetched block leaves,
    /// its own tenant's first, or else a hot one.
    ///
    /// # Errors
    /// Its bytes, if only staged blocks are left to leave: it is not staged.
    ///
    /// # Panics
    /// If it is staged already: then two different contents might pass for one.
    pub fn stage(&mut self, tenant: TenantSlot, key: K, bytes: B) -> Result<(), B> {
        let previous = self.change(key);
        assert!(previous != Some(Kind::Staged), "a block is staged once");
        if self.is_full() && !self.evict_for(tenant) {
            return Err(bytes);
        }
        self.put((Kind::Staged, 0), tenant, key, bytes);
        Ok(())
    }

    /// A staged block leaves: its bytes.
    #[inline]
    pub fn unstage(&mut self, key: K) -> Option<B> {
        self.get_of(Kind::Staged, key)?;
        self.take(key).map(|left| left.bytes)
    }

    /// A block changes, or its disk leaves: its frame is gone. Says of which kind it was.
    pub fn change(&mut self, key: K) -> Option<Kind> {
        let left = self.take(key)?;
        let tenant = self.tenants.get_mut(left.tenant);
        match left.kind {
            Kind::Staged => {}
            Kind::Ahead => {
                tenant.ahead.wasted += 1;
                tenant.unread[usize::from(left.label)] += 1;
                tenant.has_unread = true;
            }
            Kind::Hot => {
                if let Some(policy) = &mut tenant.hot {
                    policy.remove(key);
                }
            }
        }
        Some(left.kind)
    }

    /// The pool is for something else from now on. Prefetched and hot blocks leave where they do not fit; where more is
    /// staged than fits, the pool keeps room for just that. Shares are divided anew with [`Self::divide`], and until
    /// then nothing is hot.
    pub fn resize(&mut self, settings: &Settings) {
        let staged = u64::from(self.len(Kind::Staged));
        let settings = Settings {
            size: settings.size.max(Self::size_for(staged)),
            staged: settings.staged.max(staged),
            hot: settings.hot.clone(),
        };
        let (hot_max, capacity) = division::frames_within::<K, B>(&settings);
        let same = (hot_max, capacity) == (self.hot_max, self.capacity());
        if same && settings.hot == self.hot_spec {
            self.size = settings.size.max(Self::size_for(0));
            return;
        }
        while self.rows.len() > capacity && self.evict_any() {}
        let mut before = std::mem::replace(self, Self::new(&settings));
        for kind in Kind::ALL {
            for tenant in before.tenants.slots() {
                while let Some((key, label, bytes)) = before.pop_oldest(kind, tenant) {
                    self.put((kind, label), tenant, key, bytes);
                }
            }
        }
        for tenant in before.tenants.slots() {
            let (from, to) = (before.tenants.get_mut(tenant), self.tenants.get_mut(tenant));
            (to.ahead, to.ahead_max) = (from.ahead, from.ahead_max);
            (to.unread, to.has_unread) = (from.unread, from.has_unread);
        }
    }

    #[inline]
    fn is_full(&self) -> bool {
        self.rows.len() == self.capacity()
    }

    /// Frees a frame for a staged block of this tenant: a prefetched one's, of this tenant first, else a hot one's in the
    /// same order. False if there is none.
    fn evict_for(&mut self, tenant: TenantSlot) -> bool {
        [Kind::Ahead, Kind::Hot]
            .into_iter()
            .any(|kind| self.evict_oldest(tenant, kind).is_some() || self.evict_most(kind))
    }

    /// Frees a prefetched block's frame, else a hot one's. False if there is none.
    fn evict_any(&mut self) -> bool {
        self.evict_most(Kind::Ahead) || self.evict_most(Kind::Hot)
    }

    /// The oldest block of a kind leaves of the tenant with the most of them. False if there is none.
    fn evict_most(&mut self, kind: Kind) -> bool {
        let most = self.tenants.most(kind);
        most.is_some_and(|most| self.evict_oldest(most, kind).is_some())
    }

    /// The oldest block of a kind of a tenant leaves.
    fn evict_oldest(&mut self, tenant: TenantSlot, kind: Kind) -> Option<K> {
        let list = &self.tenants.get(tenant)?.lists[kind as usize];
        let key = self.rows.key(list.back(&self.rows)?);
        self.change(key);
        Some(key)
    }

    fn put(&mut self, (kind, label): (Kind, u8), tenant: TenantSlot, key: K, bytes: B) {
        let turn = kind == Kind::Ahead && self.tenants.get_mut(tenant).turn;
        let place = self.rows.insert(key, tag_of(kind, tenant, label, turn));
        if place.to_usize() == self.bytes.len() {
            self.bytes.push(None);
        }
        self.bytes[place.to_usize()] = Some(bytes);
        let list = &mut self.tenants.get_mut(tenant).lists[kind as usize];
        list.push_front(place, &mut self.rows);
        self.count[kind as usize] += 1;
    }

    /// A frame leaves the pool; nobody is told.
    #[inline]
    fn take(&mut self, key: K) -> Option<Left<B>> {
        if self.is_empty() {
            return None;
        }
        let place = self.rows.find(key)?;
        let tag = self.rows.tag(place);
        let (kind, tenant, label) = (kind_of(tag), tenant_of(tag), label_of(tag));
        let bytes = self.free(kind, tenant, place);
        Some(Left {
            kind,
            tenant,
            label,
            bytes,
        })
    }

    fn free(&mut self, kind: Kind, tenant: TenantSlot, place: Place) -> B {
        let list = &mut self.tenants.get_mut(tenant).lists[kind as usize];
        list.remove(place, &mut self.rows);
        self.rows.release(place);
        self.count[kind as usize] -= 1;
        let bytes = self.bytes[place.to_usize()].take();
        bytes.expect("a row has a frame")
    }

    fn pop_oldest(&mut self, kind: Kind, tenant: TenantSlot) -> Option<(K, u8, B)> {
        let place = self.tenants.get(tenant)?.lists[kind as usize].back(&self.rows)?;
        let (key, label) = (self.rows.key(place), label_of(self.rows.tag(place)));
        Some((key, label, self.free(kind, tenant, place)))
    }
}
