//! What each tenant has in the pool.

use policy::rows::List;
use units::TenantSlot;

use crate::ahead::AheadCounts;
use crate::pool::Kind;

/// One tenant's frames.
#[derive(Debug, Default)]
pub(crate) struct Tenant {
    /// By kind, the oldest at the back.
    lists: [List; Kind::COUNT],
    /// Prefetched blocks that it may have.
    pub(crate) ahead_max: u32,
    /// What became of them.
    pub(crate) ahead: AheadCounts,
}

impl Tenant {
    pub(crate) fn list(&self, kind: Kind) -> &List {
        &self.lists[kind as usize]
    }

    pub(crate) fn list_mut(&mut self, kind: Kind) -> &mut List {
        &mut self.lists[kind as usize]
    }
}

/// All tenants that ever had a frame or a share, by slot.
#[derive(Debug, Default)]
pub(crate) struct Tenants(Vec<Tenant>);

impl Tenants {
    pub(crate) fn get(&self, slot: TenantSlot) -> Option<&Tenant> {
        self.0.get(slot.index())
    }

    pub(crate) fn get_mut(&mut self, slot: TenantSlot) -> &mut Tenant {
        let wanted = slot.index() + 1;
        if self.0.len() < wanted {
            // Never more than one for each slot.
            self.0.reserve_exact(wanted - self.0.len());
            self.0.resize_with(wanted, Tenant::default);
        }
        &mut self.0[slot.index()]
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Tenant> {
        self.0.iter()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Tenant> {
        self.0.iter_mut()
    }

    /// Their slots, in order.
    pub(crate) fn slots(&self) -> impl Iterator<Item = TenantSlot> + use<> {
        let count = u16::try_from(self.0.len()).expect("a slot is 16 bits");
        (0..count).map(TenantSlot::new)
    }

    /// The one with the most prefetched blocks; the first of those with as many.
    pub(crate) fn most_ahead(&self) -> Option<TenantSlot> {
        let ahead = |slot: &TenantSlot| self.0[slot.index()].list(Kind::Ahead).len();
        let with_ahead = self.slots().filter(|slot| ahead(slot) > 0);
        with_ahead.max_by_key(|slot| (ahead(slot), std::cmp::Reverse(*slot)))
    }

    pub(crate) fn table_bytes(&self) -> usize {
        self.0.capacity() * size_of::<Tenant>()
    }
}
