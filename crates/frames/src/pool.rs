//! The pool: rows, frames, and what moves them.

use policy::replacement::limits::CAPACITY_BLOCKS_MAX;
use policy::replacement::{Key, Place};
use policy::rows::{List, Rows};
use units::{BLOCK_BYTES, Bytes, TenantSlot};

use crate::ahead::{AHEAD_PARTS, AheadCounts};
use crate::tenants::{Tenant, Tenants};

/// Why a block is in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Admission said Stage.
    Staged,
    /// It was prefetched, and nobody has read it yet.
    Ahead,
}

impl Kind {
    /// How many kinds there are.
    pub const COUNT: usize = Self::ALL.len();

    /// Every kind, in the order in which tables list them.
    pub const ALL: [Self; 2] = [Self::Staged, Self::Ahead];

    /// Its name in metrics and tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Staged => "staged",
            Self::Ahead => "ahead",
        }
    }
}

/// A row's tag is the kind and, above this bit, the tenant's slot.
const KIND_BITS: u32 = 1;
const _: () = assert!(Kind::COUNT <= 1 << KIND_BITS);

fn tag_of(kind: Kind, tenant: TenantSlot) -> u32 {
    u32::from(tenant.get()) << KIND_BITS | kind as u32
}

fn kind_of(tag: u32) -> Kind {
    Kind::ALL[(tag & ((1 << KIND_BITS) - 1)) as usize]
}

fn tenant_of(tag: u32) -> TenantSlot {
    TenantSlot::new(u16::try_from(tag >> KIND_BITS).expect("a slot is 16 bits"))
}

/// So many frames' part that is `part` of `total`, rounded down.
fn share_of(frames: u32, part: u32, total: u64) -> u32 {
    let share = u64::from(frames) * u64::from(part) / total.max(1);
    u32::try_from(share).expect("a part is not more than the whole")
}

/// The pool. `K` names a block of any disk; `B` holds its bytes: a buffer in the daemon, nothing in the simulator, which
/// counts as a frame all the same. See the crate's header.
#[derive(Debug)]
pub struct Frames<K: Copy, B> {
    rows: Rows<K>,
    /// By place.
    bytes: Vec<Option<B>>,
    tenants: Tenants,
    /// By kind.
    count: [u32; Kind::COUNT],
    size: Bytes,
}

impl<K: Key, B> Default for Frames<K, B> {
    /// One that has room for nothing.
    fn default() -> Self {
        Self::new(Bytes::ZERO)
    }
}

impl<K: Key, B> Frames<K, B> {
    /// Memory of a frame with all that finds it.
    pub const FRAME_BYTES: u64 = BLOCK_BYTES + Rows::<K>::ROW_BYTES + size_of::<Option<B>>() as u64;

    /// Memory whatever the number of frames: of every tenant's lists, and of the last slot.
    pub const FIXED_BYTES: u64 = (TenantSlot::COUNT * size_of::<Tenant>() + 4) as u64;

    /// The size of a pool that has so many frames.
    pub const fn size_for(frames: u64) -> Bytes {
        Bytes::new(frames * Self::FRAME_BYTES + Self::FIXED_BYTES)
    }

    /// Frames within so many bytes.
    fn frames_within(size: Bytes) -> u32 {
        let frames = size.get().saturating_sub(Self::FIXED_BYTES) / Self::FRAME_BYTES;
        let frames = frames.min(CAPACITY_BLOCKS_MAX.into());
        u32::try_from(frames).expect("it is below a limit of 32 bits")
    }

    /// An empty pool of that many bytes, its tables included; of [`Self::FIXED_BYTES`] at least, which have no frame.
    pub fn new(size: Bytes) -> Self {
        let size = size.max(Self::size_for(0));
        let capacity = Self::frames_within(size);
        Self {
            rows: Rows::new(capacity),
            bytes: Vec::with_capacity(capacity as usize),
            tenants: Tenants::default(),
            count: [0; Kind::COUNT],
            size,
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

    /// Bytes that it takes, tables included.
    pub fn memory(&self) -> Bytes {
        self.tables() + Bytes::new(u64::from(self.rows.len()) * BLOCK_BYTES)
    }

    /// Bytes of what finds the frames.
    pub fn tables(&self) -> Bytes {
        let places = self.bytes.capacity() * size_of::<Option<B>>();
        self.rows.memory() + Bytes::new((places + self.tenants.table_bytes()) as u64)
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
        tenant.map_or(0, |tenant| tenant.list(kind).len())
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
        let lists = self.tenants.iter().map(move |tenant| tenant.list(kind));
        lists.flat_map(move |list| {
            let mut next = list.back(&self.rows);
            (0..list.len()).map_while(move |_| {
                let place = next?;
                next = Some(List::newer(place, &self.rows));
                Some(self.rows.key(place))
            })
        })
    }

    /// A block is staged. Where it was prefetched that copy is in vain; where no frame is free a prefetched block
    /// leaves.
    ///
    /// # Errors
    /// Its bytes, if only staged blocks are left to leave: it is not staged.
    ///
    /// # Panics
    /// If it is staged already: then two different contents might pass for one.
    pub fn stage(&mut self, tenant: TenantSlot, key: K, bytes: B) -> Result<(), B> {
        let previous = self.change(key);
        assert!(previous != Some(Kind::Staged), "a block is staged once");
        if self.is_full() && !self.evict_ahead(tenant) {
            return Err(bytes);
        }
        self.put(Kind::Staged, tenant, key, bytes);
        Ok(())
    }

    /// A staged block leaves: its bytes.
    #[inline]
    pub fn unstage(&mut self, key: K) -> Option<B> {
        self.get_of(Kind::Staged, key)?;
        self.take(key).map(|(_, _, bytes)| bytes)
    }

    /// A block was prefetched. Its tenant's oldest leaves for it where the tenant has as many as it may. False if
    /// it is not taken: it has a frame, its tenant has no share, or all frames are of staged blocks.
    pub fn put_ahead(&mut self, tenant: TenantSlot, key: K, bytes: B) -> bool {
        if self.rows.find(key).is_some() {
            return false;
        }
        let ahead_max = self.tenants.get(tenant).map_or(0, |of| of.ahead_max);
        if ahead_max == 0 {
            return false;
        }
        let has_all = self.len_of(tenant, Kind::Ahead) == ahead_max;
        if has_all || self.is_full() {
            let evicted = self.evict_oldest_ahead(tenant);
            if evicted.is_none() {
                return false;
            }
        }
        self.put(Kind::Ahead, tenant, key, bytes);
        true
    }

    /// A prefetched block is read: it leaves, and its bytes are those of a miss that is over.
    pub fn use_ahead(&mut self, key: K) -> Option<B> {
        self.get_of(Kind::Ahead, key)?;
        let (_, tenant, bytes) = self.take(key)?;
        self.tenants.get_mut(tenant).ahead.used += 1;
        Some(bytes)
    }

    /// The prefetched block that waits longest of a tenant's leaves unread.
    pub fn evict_oldest_ahead(&mut self, tenant: TenantSlot) -> Option<K> {
        let list = self.tenants.get(tenant)?.list(Kind::Ahead);
        let key = self.rows.key(list.back(&self.rows)?);
        self.change(key);
        Some(key)
    }

    /// A block changes, or its disk leaves: its frame is gone. Says of which kind it was.
    pub fn change(&mut self, key: K) -> Option<Kind> {
        let (kind, tenant, _) = self.take(key)?;
        if kind == Kind::Ahead {
            self.tenants.get_mut(tenant).ahead.wasted += 1;
        }
        Some(kind)
    }

    /// What became of the prefetched blocks of a tenant.
    pub fn ahead_counts(&self, tenant: TenantSlot) -> AheadCounts {
        let tenant = self.tenants.get(tenant);
        tenant.map_or_else(AheadCounts::default, |tenant| tenant.ahead)
    }

    /// Divides what prefetched blocks may have in proportion to the tenants' parts. Who has more than that loses the
    /// oldest; who is not named has none.
    pub fn divide(&mut self, parts: &[(TenantSlot, u32)]) {
        let ahead_max = self.capacity() / AHEAD_PARTS;
        let total: u64 = parts.iter().map(|(_, part)| u64::from(*part)).sum();
        for tenant in self.tenants.iter_mut() {
            tenant.ahead_max = 0;
        }
        for (tenant, part) in parts {
            self.tenants.get_mut(*tenant).ahead_max = share_of(ahead_max, *part, total);
        }
        for slot in self.tenants.slots() {
            let ahead_max = self.tenants.get_mut(slot).ahead_max;
            while self.len_of(slot, Kind::Ahead) > ahead_max {
                self.evict_oldest_ahead(slot);
            }
        }
    }

    /// A tenant goes: its prefetched blocks leave, and what was counted of them is forgotten. What it has staged leaves by
    /// admission's word.
    pub fn forget_tenant(&mut self, tenant: TenantSlot) {
        while self.evict_oldest_ahead(tenant).is_some() {}
        if self.tenants.get(tenant).is_some() {
            let known = self.tenants.get_mut(tenant);
            (known.ahead, known.ahead_max) = (AheadCounts::default(), 0);
        }
    }

    /// The pool may take so much from now on. Prefetched blocks leave where they do not fit; where more is staged than
    /// fits, the pool keeps room for just that. Shares are divided anew with [`Self::divide`].
    pub fn resize(&mut self, size: Bytes) {
        let staged = self.len(Kind::Staged);
        let size = size.max(Self::size_for(staged.into()));
        if size == self.size {
            return;
        }
        let capacity = Self::frames_within(size);
        while self.rows.len() > capacity && self.evict_most_ahead() {}
        if capacity == self.capacity() {
            self.size = size;
            return;
        }
        let mut resized = Self::new(size);
        std::mem::swap(&mut resized, self);
        for kind in Kind::ALL {
            for tenant in resized.tenants.slots() {
                while let Some((key, bytes)) = resized.pop_oldest(kind, tenant) {
                    self.put(kind, tenant, key, bytes);
                }
            }
        }
        for tenant in resized.tenants.slots() {
            let (from, to) = (
                resized.tenants.get_mut(tenant),
                self.tenants.get_mut(tenant),
            );
            (to.ahead, to.ahead_max) = (from.ahead, from.ahead_max);
        }
    }

    fn is_full(&self) -> bool {
        self.rows.len() == self.capacity()
    }

    /// Frees the frame of a prefetched block, of this tenant's first. False if there is none.
    fn evict_ahead(&mut self, tenant: TenantSlot) -> bool {
        self.evict_oldest_ahead(tenant).is_some() || self.evict_most_ahead()
    }

    /// The oldest prefetched block of the tenant with the most of them leaves. False if there is none.
    fn evict_most_ahead(&mut self) -> bool {
        let most = self.tenants.most_ahead();
        most.is_some_and(|most| self.evict_oldest_ahead(most).is_some())
    }

    fn put(&mut self, kind: Kind, tenant: TenantSlot, key: K, bytes: B) {
        let place = self.rows.insert(key, tag_of(kind, tenant));
        if place.to_usize() == self.bytes.len() {
            self.bytes.push(None);
        }
        self.bytes[place.to_usize()] = Some(bytes);
        let list = self.tenants.get_mut(tenant).list_mut(kind);
        list.push_front(place, &mut self.rows);
        self.count[kind as usize] += 1;
    }

    #[inline]
    fn take(&mut self, key: K) -> Option<(Kind, TenantSlot, B)> {
        if self.is_empty() {
            return None;
        }
        let place = self.rows.find(key)?;
        let tag = self.rows.tag(place);
        let (kind, tenant) = (kind_of(tag), tenant_of(tag));
        Some((kind, tenant, self.free(kind, tenant, place)))
    }

    fn free(&mut self, kind: Kind, tenant: TenantSlot, place: Place) -> B {
        let list = self.tenants.get_mut(tenant).list_mut(kind);
        list.remove(place, &mut self.rows);
        self.rows.release(place);
        self.count[kind as usize] -= 1;
        let bytes = self.bytes[place.to_usize()].take();
        bytes.expect("a row has a frame")
    }

    fn pop_oldest(&mut self, kind: Kind, tenant: TenantSlot) -> Option<(K, B)> {
        let place = self.tenants.get(tenant)?.list(kind).back(&self.rows)?;
        let key = self.rows.key(place);
        Some((key, self.free(kind, tenant, place)))
    }
}
