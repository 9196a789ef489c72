//! What happens to blocks, call by call.
//!
//! The life of a block that is read: [`Tenancy::arrives`] once for its request; then, if it is on flash,
//! [`Tenancy::hit`]; if its bytes are staged, [`Tenancy::staged_hit`]; if neither, and once its bytes have
//! come from the origin, [`Tenancy::missed`]. Each of the last two may send other blocks off, which it
//! puts into `left`: those with [`Fate::Admit`] go to flash now, the bytes of all of them leave memory.
//!
//! As long as no block had to leave the flash, and if the settings say so, [`Tenancy::missed`] asks no policy
//! about a block that is read: it enters, if the budgets allow it, while half of its tenant's share is not filled, or
//! enough of the tenant's blocks come back (`filling.rs`). Blocks of a base image enter in any case. Blocks that are only
//! written wait for the policy even then.
//!
//! A block that is written whole is asked about when the origin has acknowledged it: one that was on flash
//! with [`Tenancy::hit`] and then [`Tenancy::may_rewrite`], any other with [`Tenancy::missed`]. Staged
//! bytes are given up when the write comes ([`Tenancy::removed`]).
//!
//! A block that is let in and finds no room on flash is given back with [`Tenancy::withheld`].

use super::Tenancy;
use crate::counts::Wrote;
use crate::request::{Arrival, Request};
use policy::admission::{Fate, Reason, Staged, Verdict, region_of};
use policy::replacement::Key;
use units::{Bytes, DiskSlot, TenantSlot};

impl<K: Key + Into<u64>> Tenancy<K> {
    /// A request has come: its blocks count as demand. What is returned goes with each of the calls
    /// about its blocks.
    ///
    /// # Panics
    /// If its tenant is not attached.
    #[inline]
    pub fn arrives(&mut self, request: &Request) -> Arrival {
        self.clock.access(request.now, request.count);
        let run = self
            .sequences
            .note(request.disk, request.first, request.count);
        let tenant = self.tenants.attached(request.tenant);
        tenant.arrives(request, self.clock.now());
        if request.vm != request.tenant
            && !request.write
            && let Some(vm) = self.tenants.get_mut(request.vm)
        {
            vm.reads_image(request.count);
        }
        Arrival {
            vm: request.vm,
            tenant: request.tenant,
            write: request.write,
            region: region_of(request.disk, request.first.start()),
            run,
        }
    }

    /// A block is on flash.
    ///
    /// # Panics
    /// If its tenant is not attached.
    #[inline]
    pub fn hit(&mut self, arrival: &Arrival, key: K) {
        let tenant = self.tenants.attached(arrival.tenant);
        tenant.hit(arrival, key, self.clock.now());
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
        if let Some(vm) = self.tenants.get_mut(arrival.vm) {
            vm.hits_image(!arrival.write);
        }
    }

    /// A block is neither on flash nor staged, and its bytes are at hand. [`Verdict::Admit`] is to be
    /// followed by writing it to flash, [`Verdict::Stage`] by keeping its bytes until it is in `left`,
    /// removed, or sent off by [`Tenancy::staged_hit`].
    ///
    /// # Panics
    /// If its tenant is not attached.
    pub fn missed(&mut self, arrival: &Arrival, key: K, left: &mut Vec<(K, Fate)>) -> Verdict {
        let may_fill = self.settings.fill && !self.full && !arrival.write;
        let flash_blocks = self.capacity.blocks();
        let tenant = self.tenants.attached(arrival.tenant);
        if may_fill && tenant.fills(key, flash_blocks) {
            let verdict = self.admit(arrival, key);
            if verdict == Verdict::Admit {
                self.tenants.attached(arrival.tenant).filled();
            }
            return verdict;
        }
        let (access, from) = (arrival.access(self.clock.now()), left.len());
        let tenant = self.tenants.attached(arrival.tenant);
        let mut verdict = tenant.missed(key, access, left);
        if verdict == Verdict::Admit {
            verdict = self.admit(arrival, key);
        }
        self.settle(arrival.tenant, left, from);
        verdict
    }

    /// A block's bytes are staged, and a read was served from them, or a write has replaced all of them.
    ///
    /// # Panics
    /// If its tenant is not attached.
    pub fn staged_hit(&mut self, arrival: &Arrival, key: K, left: &mut Vec<(K, Fate)>) -> Staged {
        let (access, from) = (arrival.access(self.clock.now()), left.len());
        let tenant = self.tenants.attached(arrival.tenant);
        let staged = match tenant.staged_hit(key, access, left) {
            Staged::Admit if self.admit(arrival, key) == Verdict::Admit => Staged::Admit,
            Staged::Admit | Staged::Drop => {
                self.tenants.attached(arrival.tenant).unstaged();
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
        let access = arrival.access(self.clock.now());
        let tenant = self.tenants.attached(arrival.tenant);
        let refused = if !tenant.rewrites(key, access, was_read) {
            Some(Reason::Unread)
        } else if !self.pay(arrival.tenant) {
            Some(Reason::Budget)
        } else {
            None
        };
        self.tenants.attached(arrival.tenant).rewritten(refused);
        refused.is_none()
    }

    /// A block that was let in was not written after all: no segment was free.
    pub fn withheld(&mut self, slot: TenantSlot, key: K) {
        if let Some(tenant) = self.tenants.get_mut(slot) {
            tenant.withheld(key);
        }
    }

    /// A block left flash by reclaim.
    pub fn evicted(&mut self, slot: TenantSlot, key: K) {
        if !std::mem::replace(&mut self.full, true) {
            for (_, tenant) in self.tenants.each_mut() {
                tenant.ends_filling();
            }
        }
        if let Some(tenant) = self.tenants.get_mut(slot) {
            tenant.evicted(key);
        }
    }

    /// A block was discarded, or written when only its old bytes are staged, or left flash for a write
    /// that goes around it. True if its bytes were staged; they are not any more.
    pub fn removed(&mut self, slot: TenantSlot, key: K) -> bool {
        let tenant = self.tenants.get_mut(slot);
        tenant.is_some_and(|tenant| tenant.removed(key))
    }

    /// A run of blocks was discarded: they count as demand no longer. [`Tenancy::removed`] is for those
    /// of them that were cached or staged.
    pub fn discarded(&mut self, slot: TenantSlot, disk: DiskSlot, first: u64, count: u64) {
        if let Some(tenant) = self.tenants.get_mut(slot) {
            tenant.discarded(disk, first, count);
        }
    }

    /// Bytes went to flash: `slot` says for whose segment, none for what belongs to nobody. Blocks that
    /// were let in have been paid for; reclaim and metadata are charged now.
    pub fn charge(&mut self, slot: Option<TenantSlot>, wrote: Wrote) {
        self.wrote += wrote;
        let mut payer = None;
        if let Some((slot, tenant)) =
            slot.and_then(|slot| Some((slot, self.tenants.get_mut(slot)?)))
        {
            tenant.wrote(wrote);
            payer = Some(slot);
        }
        let owed = Bytes::new(wrote.reclaim + wrote.metadata);
        self.budgets.charge(payer, owed, self.clock.now());
    }

    /// Lets a block in if the budgets allow it.
    fn admit(&mut self, arrival: &Arrival, key: K) -> Verdict {
        let pays = self.pay(arrival.tenant);
        let tenant = self.tenants.attached(arrival.tenant);
        if pays {
            tenant.admitted(key, arrival.vm);
            return Verdict::Admit;
        }
        tenant.unpaid(key)
    }

    fn pay(&mut self, slot: TenantSlot) -> bool {
        self.budgets.pay(slot, self.capacity, self.clock.now())
    }

    /// Counts what has left staging since `from`, and keeps off flash what the budgets do not allow.
    pub(super) fn settle(&mut self, slot: TenantSlot, left: &mut [(K, Fate)], from: usize) {
        for (key, fate) in &mut left[from..] {
            let unpaid = *fate == Fate::Admit && !self.pay(slot);
            let tenant = self.tenants.attached(slot);
            if unpaid {
                *fate = Fate::Drop;
                tenant.unpaid(*key);
            }
            tenant.left_staging(*fate);
        }
    }
}
