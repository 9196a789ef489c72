//! What each tenant has in the pool.

use policy::memory::Hot;
use policy::replacement::Fraction;
use policy::rows::List;
use units::{Bytes, TenantSlot};

use crate::counts::AheadCounts;
use crate::kind::{Kind, LABELS};

/// One tenant's frames.
pub(crate) struct Tenant<K> {
    /// By kind, the oldest at the back; of hot ones the least recently used.
    pub(crate) lists: [List; Kind::COUNT],
    /// Prefetched blocks that it may have.
    pub(crate) ahead_max: u32,
    /// What became of them.
    pub(crate) ahead: AheadCounts,
    /// Blocks that it has read in this turn, and which of two turns that is.
    pub(crate) read_blocks: u64,
    pub(crate) turn: bool,
    /// By label: those that left unread since it was asked, and whether there are any.
    pub(crate) unread: [u32; LABELS],
    pub(crate) has_unread: bool,
    /// Which blocks that are read are worth a frame; none are without a share.
    pub(crate) hot: Option<Box<dyn Hot<K>>>,
    /// For how many frames that was made.
    pub(crate) hot_frames: u32,
    /// Whether it was made for a VM of high priority.
    pub(crate) hot_has_priority: bool,
    /// What its reads weigh for that policy.
    pub(crate) weight: Fraction,
}

impl<K> Default for Tenant<K> {
    fn default() -> Self {
        Self {
            lists: Default::default(),
            ahead_max: 0,
            ahead: AheadCounts::default(),
            read_blocks: 0,
            turn: false,
            unread: [0; LABELS],
            has_unread: false,
            hot: None,
            hot_frames: 0,
            hot_has_priority: false,
            weight: Fraction::ONE,
        }
    }
}

/// All tenants that ever had a frame or a share, by slot.
pub(crate) struct Tenants<K>(Vec<Tenant<K>>);

impl<K> Default for Tenants<K> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<K> Tenants<K> {
    #[inline]
    pub(crate) fn get(&self, slot: TenantSlot) -> Option<&Tenant<K>> {
        self.0.get(slot.index())
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, slot: TenantSlot) -> &mut Tenant<K> {
        let wanted = slot.index() + 1;
        if self.0.len() < wanted {
            // Never more than one for each slot.
            self.0.reserve_exact(wanted - self.0.len());
            self.0.resize_with(wanted, Tenant::default);
        }
        &mut self.0[slot.index()]
    }

    /// Their slots, in order.
    pub(crate) fn slots(&self) -> impl Iterator<Item = TenantSlot> + use<K> {
        let count = u16::try_from(self.0.len()).expect("a slot is 16 bits");
        (0..count).map(TenantSlot::new)
    }

    /// The one with the most frames of a kind, if any has one; the first of those with as many.
    pub(crate) fn most(&self, kind: Kind) -> Option<TenantSlot> {
        let count = |slot: &TenantSlot| self.0[slot.index()].lists[kind as usize].len();
        let with_any = self.slots().filter(|slot| count(slot) > 0);
        with_any.max_by_key(|slot| (count(slot), std::cmp::Reverse(*slot)))
    }

    /// Bytes of the table, and of what the policies remember.
    pub(crate) fn bytes(&self) -> Bytes {
        let table = Bytes::new((self.0.capacity() * size_of::<Tenant<K>>()) as u64);
        let policies = self.0.iter().filter_map(|tenant| tenant.hot.as_ref());
        table + policies.map(|policy| policy.memory()).sum::<Bytes>()
    }
}
