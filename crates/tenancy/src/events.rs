//! What happens to blocks, call by call.
//!
//! The life of a block that is read: [`Tenancy::arrives`] once for its request; then, if it is on flash,
//! [`Tenancy::hit`]; if its bytes are staged, [`Tenancy::staged_hit`]; if neither, and once its bytes have
//! come from the origin, [`Tenancy::missed`]. Each of the last two may send other blocks off, which it
//! puts into `left`: those with [`Fate::Admit`] go to flash now, the bytes of all of them leave memory.
//!
//! As long as no block had to leave the flash, and if the settings say so, [`Tenancy::missed`] asks no policy
//! about a block that is read: it enters, if the budgets allow it. An empty flash has nothing to lose by it, and a
//! policy that waits for blocks to come back would leave it empty for long. Blocks that are only written wait for
//! the policy even then.
//!
//! A block that is written whole is asked about when the origin has acknowledged it: one that was on flash
//! with [`Tenancy::hit`] and then [`Tenancy::may_rewrite`], any other with [`Tenancy::missed`]. Staged
//! bytes are given up when the write comes ([`Tenancy::removed`]).
//!
//! A block that is let in and finds no room on flash is given back with [`Tenancy::withheld`].

use crate::counts::Wrote;
use crate::request::{Arrival, Request};
use crate::tenancy::Tenancy;
use policy::admission::budget::TokenBucket;
use policy::admission::{Fate, Reason, Staged, Verdict, region_of};
use policy::replacement::Key;
use units::{BLOCK_BYTES, Bytes, DiskSlot, TenantSlot};

impl<K: Key + Into<u64>> Tenancy<K> {
    /// A request has come: its blocks count as demand. What is returned goes with each of the calls
    /// about its blocks.
    ///
    /// # Panics
    /// If its tenant is not attached.
    #[inline]
    pub fn arrives(&mut self, request: &Request) -> Arrival {
        self.now = self.now.max(request.now);
        self.accesses += request.count;
        let (now, run) = (self.now, self.run(request));
        self.tenant_mut(request.tenant).arrives(request, now);
        if request.vm != request.tenant
            && !request.write
            && let Some(vm) = self.get_mut(request.vm)
        {
            vm.counts.image_reads += request.count;
        }
        Arrival {
            vm: request.vm,
            tenant: request.tenant,
            write: request.write,
            region: region_of(request.disk, request.first.start()),
            run,
        }
    }

    /// How long the sequential run is to which a request belongs.
    #[inline]
    fn run(&mut self, request: &Request) -> Bytes {
        let at = request.disk.index();
        if self.runs.len() <= at {
            self.runs.resize_with(at + 1, || None);
        }
        let runs = self.runs[at].get_or_insert_default();
        let length = request.count.saturating_mul(BLOCK_BYTES);
        runs.note(request.first.start(), Bytes::new(length))
    }

    /// A block is on flash.
    ///
    /// # Panics
    /// If its tenant is not attached.
    #[inline]
    pub fn hit(&mut self, arrival: &Arrival, key: K) {
        let access = arrival.access(self.now);
        let tenant = self.tenant_mut(arrival.tenant);
        if arrival.write {
            tenant.counts.write_hits += 1;
        } else {
            tenant.counts.read_hits += 1;
        }
        tenant.admission.hit(key, access);
        tenant.tag(key.into(), arrival);
        if arrival.vm != arrival.tenant {
            self.image_hit(arrival);
        }
    }

    /// [`Tenancy::hit`] for each of these blocks.
    ///
    /// # Panics
    /// If their tenant is not attached.
    #[inline]
    pub fn hits(&mut self, arrival: &Arrival, keys: impl IntoIterator<Item = K>) {
        for key in keys {
            self.hit(arrival, key);
        }
    }

    fn image_hit(&mut self, arrival: &Arrival) {
        if let Some(vm) = self.get_mut(arrival.vm) {
            vm.counts.image_hits += u64::from(!arrival.write);
        }
    }

    /// A block is neither on flash nor staged, and its bytes are at hand. [`Verdict::Admit`] is to be
    /// followed by writing it to flash, [`Verdict::Stage`] by keeping its bytes until it is in `left`,
    /// removed, or sent off by [`Tenancy::staged_hit`].
    ///
    /// # Panics
    /// If its tenant is not attached.
    pub fn missed(&mut self, arrival: &Arrival, key: K, left: &mut Vec<(K, Fate)>) -> Verdict {
        if self.settings.fill && !self.full && !arrival.write {
            let verdict = self.admit(arrival, key);
            let filled = u64::from(verdict == Verdict::Admit);
            self.tenant_mut(arrival.tenant).counts.filled += filled;
            return verdict;
        }
        let (access, from) = (arrival.access(self.now), left.len());
        let tenant = self.tenant_mut(arrival.tenant);
        match tenant.admission.missed(key, access, left) {
            Verdict::Admit => {
                let verdict = self.admit(arrival, key);
                self.settle(arrival.tenant, left, from);
                verdict
            }
            Verdict::Stage => {
                tenant.counts.staged += 1;
                self.settle(arrival.tenant, left, from);
                Verdict::Stage
            }
            Verdict::Refuse(reason) => {
                tenant.refuse(reason);
                self.settle(arrival.tenant, left, from);
                Verdict::Refuse(reason)
            }
        }
    }

    /// A block's bytes are staged, and a read was served from them, or a write has replaced all of them.
    ///
    /// # Panics
    /// If its tenant is not attached.
    pub fn staged_hit(&mut self, arrival: &Arrival, key: K, left: &mut Vec<(K, Fate)>) -> Staged {
        let (access, from) = (arrival.access(self.now), left.len());
        let tenant = self.tenant_mut(arrival.tenant);
        tenant.counts.staged_hits += u64::from(!arrival.write);
        let staged = tenant.admission.staged_hit(key, access, left);
        let staged = match staged {
            Staged::Admit if self.admit(arrival, key) == Verdict::Admit => Staged::Admit,
            Staged::Admit | Staged::Drop => {
                self.tenant_mut(arrival.tenant).counts.unstaged += 1;
                Staged::Drop
            }
            Staged::Stays => Staged::Stays,
        };
        if arrival.vm != arrival.tenant {
            self.image_hit(arrival);
        }
        self.settle(arrival.tenant, left, from);
        staged
    }

    /// A block whose bytes are at hand is to go to flash because somebody asked for just that (a
    /// prefetch): no policy is asked, the budgets are. To be followed up as after [`Tenancy::missed`].
    ///
    /// # Panics
    /// If its tenant is not attached.
    pub fn asked_for(&mut self, arrival: &Arrival, key: K) -> Verdict {
        self.admit(arrival, key)
    }

    /// Whether the new copy of a block that is on flash may be written there; `was_read` says whether somebody
    /// has read the copy that ends. If not the block leaves the cache.
    ///
    /// # Panics
    /// If its tenant is not attached.
    pub fn may_rewrite(&mut self, arrival: &Arrival, key: K, was_read: bool) -> bool {
        let access = arrival.access(self.now);
        let admission = &mut self.tenant_mut(arrival.tenant).admission;
        let refused = if !admission.rewrites(key, access, was_read) {
            Some(Reason::Unread)
        } else if !self.pay(arrival.tenant) {
            Some(Reason::Budget)
        } else {
            None
        };
        let counts = &mut self.tenant_mut(arrival.tenant).counts;
        match refused {
            Some(reason) => counts.refused.add(reason),
            None => counts.rewritten += 1,
        }
        refused.is_none()
    }

    /// A block that was let in was not written after all: no segment was free.
    pub fn withheld(&mut self, slot: TenantSlot, key: K) {
        if let Some(tenant) = self.get_mut(slot) {
            tenant.counts.admitted -= 1;
            tenant.counts.withheld += 1;
            tenant.admission.withheld(key);
            if let Some(tags) = &mut tenant.tags {
                tags.left(key.into());
            }
        }
    }

    /// A block left flash by reclaim.
    pub fn evicted(&mut self, slot: TenantSlot, key: K) {
        self.full = true;
        if let Some(tenant) = self.get_mut(slot) {
            tenant.counts.evicted += 1;
            tenant.admission.evicted(key);
            if let Some(tags) = &mut tenant.tags {
                tags.left(key.into());
            }
        }
    }

    /// A block was discarded, or written when only its old bytes are staged, or left flash for a write
    /// that goes around it. True if its bytes were staged; they are not any more.
    pub fn removed(&mut self, slot: TenantSlot, key: K) -> bool {
        let Some(tenant) = self.get_mut(slot) else {
            return false;
        };
        if let Some(tags) = &mut tenant.tags {
            tags.left(key.into());
        }
        let was_staged = tenant.admission.remove(key);
        tenant.counts.unstaged += u64::from(was_staged);
        was_staged
    }

    /// A run of blocks was discarded: they count as demand no longer. [`Tenancy::removed`] is for those
    /// of them that were cached or staged.
    pub fn discarded(&mut self, slot: TenantSlot, disk: DiskSlot, first: u64, count: u64) {
        if let Some(tenant) = self.get_mut(slot) {
            tenant.discarded(disk, first, count);
        }
    }

    /// Bytes went to flash: `slot` says for whose segment, none for what belongs to nobody. Blocks that
    /// were let in have been paid for; reclaim and metadata are charged now.
    pub fn charge(&mut self, slot: Option<TenantSlot>, wrote: Wrote) {
        self.wrote += wrote;
        let (now, owed) = (self.now, Bytes::new(wrote.reclaim + wrote.metadata));
        if let Some(budget) = &mut self.budget {
            budget.charge(owed, now);
        }
        if let Some(tenant) = slot.and_then(|slot| self.get_mut(slot)) {
            tenant.counts.wrote += wrote;
            if let Some(budget) = &mut tenant.budget {
                budget.charge(owed, now);
            }
        }
    }

    /// Lets a block in if the budgets allow it.
    fn admit(&mut self, arrival: &Arrival, key: K) -> Verdict {
        let pays = self.pay(arrival.tenant);
        let tenant = self.tenant_mut(arrival.tenant);
        if pays {
            tenant.counts.admitted += 1;
            tenant.tag(key.into(), arrival);
            return Verdict::Admit;
        }
        tenant.admission.withheld(key);
        tenant.refuse(Reason::Budget)
    }

    /// Takes a block out of the budgets of the device and of the tenant, if both have it and, beside it,
    /// what the reclaim that it may cause can cost ([`crate::Capacity::reserve`]).
    fn pay(&mut self, slot: TenantSlot) -> bool {
        const BLOCK: Bytes = Bytes::new(BLOCK_BYTES);
        let now = self.now;
        let grants = |budget: Option<&mut TokenBucket>, reserve: Bytes| {
            budget.is_none_or(|budget| budget.grants(reserve + BLOCK, now))
        };
        let tenant = self.tenants[slot.index()].as_mut();
        let own = &mut tenant.expect("the tenant is attached").budget;
        let both = grants(self.budget.as_mut(), self.capacity.device_reserve())
            && grants(own.as_mut(), self.capacity.reserve());
        if both {
            for budget in [&mut self.budget, own].into_iter().flatten() {
                budget.charge(BLOCK, now);
            }
        }
        both
    }

    /// Counts what has left staging since `from`, and keeps off flash what the budgets do not allow.
    pub(crate) fn settle(&mut self, slot: TenantSlot, left: &mut [(K, Fate)], from: usize) {
        for (key, fate) in &mut left[from..] {
            if *fate == Fate::Admit && !self.pay(slot) {
                *fate = Fate::Drop;
                let tenant = self.tenant_mut(slot);
                tenant.admission.withheld(*key);
                tenant.refuse(Reason::Budget);
            }
            let tenant = self.tenant_mut(slot);
            match fate {
                Fate::Admit => tenant.counts.admitted += 1,
                Fate::Drop => tenant.counts.unstaged += 1,
            }
        }
    }
}
