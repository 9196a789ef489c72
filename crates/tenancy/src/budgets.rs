//! The write budgets: of the device, and of each tenant.
//!
//! A block that is let in is paid for from both at once, or from neither. What reclaim and metadata write is
//! charged after the fact, so that a budget can be in debt. A tenant's bucket stays when the tenant goes:
//! coming and going wins no burst.

use crate::report::BudgetLeft;
use crate::settings::Capacity;
use policy::admission::budget::{Budget, TokenBucket};
use units::{BLOCK_BYTES, Bytes, Instant, TenantSlot};

/// The buckets of a cache. Who asks for a tenant says that it is attached.
pub(crate) struct Budgets {
    device: Option<TokenBucket>,
    /// By slot, of tenants that are attached and of those that have gone.
    tenants: Vec<Option<TokenBucket>>,
    /// Whoever comes has saved nothing of its budget.
    begins_empty: bool,
}

impl Budgets {
    /// No tenants, and a full bucket for the device.
    pub(crate) fn new(device: Option<Budget>, now: Instant) -> Self {
        Self {
            device: device.map(|budget| TokenBucket::new(budget, now)),
            tenants: Vec::new(),
            begins_empty: false,
        }
    }

    /// Nothing is saved of any budget, nor of those that come later.
    pub(crate) fn begin_empty(&mut self, now: Instant) {
        self.begins_empty = true;
        for bucket in self.tenants.iter_mut().chain([&mut self.device]).flatten() {
            *bucket = TokenBucket::empty(bucket.budget(), now);
        }
    }

    /// A tenant comes: it finds what it left when it went.
    pub(crate) fn attach(&mut self, slot: TenantSlot, budget: Option<Budget>, now: Instant) {
        if self.tenants.len() <= slot.index() {
            self.tenants.resize_with(slot.index() + 1, || None);
        }
        let bucket = &mut self.tenants[slot.index()];
        match (bucket.as_mut(), budget) {
            (None, Some(budget)) if self.begins_empty => {
                *bucket = Some(TokenBucket::empty(budget, now));
            }
            _ => follow(bucket, budget, now),
        }
    }

    /// The device's budget changes.
    pub(crate) fn set_device(&mut self, budget: Option<Budget>, now: Instant) {
        follow(&mut self.device, budget, now);
    }

    /// The budget of a tenant that is attached changes.
    pub(crate) fn set(&mut self, slot: TenantSlot, budget: Option<Budget>, now: Instant) {
        follow(&mut self.tenants[slot.index()], budget, now);
    }

    /// Takes a block out of the budgets of the device and of the tenant, if both have it and, beside it,
    /// what the reclaim that it may cause can cost ([`Capacity::reserve`]).
    pub(crate) fn pay(&mut self, slot: TenantSlot, capacity: Capacity, now: Instant) -> bool {
        const BLOCK: Bytes = Bytes::new(BLOCK_BYTES);
        let grants = |budget: Option<&mut TokenBucket>, reserve: Bytes| {
            budget.is_none_or(|budget| budget.grants(reserve + BLOCK, now))
        };
        let own = &mut self.tenants[slot.index()];
        let both = grants(self.device.as_mut(), capacity.device_reserve())
            && grants(own.as_mut(), capacity.reserve());
        if both {
            for budget in [&mut self.device, own].into_iter().flatten() {
                budget.charge(BLOCK, now);
            }
        }
        both
    }

    /// Bytes were written that nobody was asked about: to the device, and for this tenant.
    pub(crate) fn charge(&mut self, slot: Option<TenantSlot>, owed: Bytes, now: Instant) {
        let own = slot.and_then(|slot| self.tenants.get_mut(slot.index())?.as_mut());
        for budget in self.device.as_mut().into_iter().chain(own) {
            budget.charge(owed, now);
        }
    }

    /// What is left of the device's budget, if it has one.
    pub(crate) fn device_left(&self, now: Instant) -> Option<BudgetLeft> {
        self.device.as_ref().map(|bucket| left(bucket, now))
    }

    /// What is left of a tenant's budget, if it has one.
    pub(crate) fn left(&self, slot: TenantSlot, now: Instant) -> Option<BudgetLeft> {
        let bucket = self.tenants.get(slot.index())?.as_ref()?;
        Some(left(bucket, now))
    }

    pub(crate) fn memory(&self) -> Bytes {
        Bytes::new((self.tenants.capacity() * size_of::<Option<TokenBucket>>()) as u64)
    }
}

/// A bucket follows a changed budget: what was saved and what is owed stays.
fn follow(bucket: &mut Option<TokenBucket>, budget: Option<Budget>, now: Instant) {
    match (bucket.as_mut(), budget) {
        (Some(bucket), Some(budget)) => bucket.set(budget, now),
        (_, budget) => *bucket = budget.map(|budget| TokenBucket::new(budget, now)),
    }
}

fn left(bucket: &TokenBucket, now: Instant) -> BudgetLeft {
    // Looking lets time pass in a bucket; the one that decides is left alone.
    let mut bucket = bucket.clone();
    BudgetLeft {
        per_day: bucket.budget().bytes_per_day(),
        burst: bucket.budget().burst(),
        left: bucket.left(now),
        debt: bucket.debt(now),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOT: TenantSlot = TenantSlot::new(3);
    const CAPACITY: Capacity = Capacity {
        segments: 8,
        segment_blocks: 4,
        checkpoint: Bytes::ZERO,
    };

    /// A rate of nearly nothing, and a burst for so many blocks beside what is in reserve.
    fn budget(blocks: u64) -> Budget {
        let burst = CAPACITY.reserve() + Bytes::new(blocks * BLOCK_BYTES);
        Budget::per_day(Bytes::new(1)).unwrap().with_burst(burst)
    }

    fn paid(budgets: &mut Budgets) -> usize {
        let now = Instant::default();
        let pays = |_: &usize| budgets.pay(SLOT, CAPACITY, now);
        (0..100).take_while(pays).count()
    }

    #[test]
    fn a_block_is_paid_for_by_device_and_tenant_or_by_neither() {
        let now = Instant::default();
        let mut budgets = Budgets::new(Some(budget(5)), now);
        budgets.attach(SLOT, Some(budget(2)), now);
        assert_eq!(paid(&mut budgets), 2);
        let left = budgets.device_left(now).unwrap().left;
        assert_eq!(left, CAPACITY.reserve() + Bytes::new(3 * BLOCK_BYTES));
        budgets.set(SLOT, None, now);
        assert_eq!(paid(&mut budgets), 3);
    }

    #[test]
    fn coming_again_wins_no_burst() {
        let now = Instant::default();
        let mut budgets = Budgets::new(None, now);
        budgets.attach(SLOT, Some(budget(2)), now);
        assert_eq!(paid(&mut budgets), 2);
        budgets.attach(SLOT, Some(budget(2)), now);
        assert_eq!(paid(&mut budgets), 0);
    }

    #[test]
    fn budgets_that_begin_empty_let_nothing_in_at_first() {
        let now = Instant::default();
        let mut budgets = Budgets::new(Some(budget(2)), now);
        budgets.begin_empty(now);
        budgets.attach(SLOT, None, now);
        assert_eq!(paid(&mut budgets), 0);
        let mut budgets = Budgets::new(None, now);
        budgets.begin_empty(now);
        budgets.attach(SLOT, Some(budget(2)), now);
        assert_eq!(paid(&mut budgets), 0);
    }
}
