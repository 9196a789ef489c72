//! A cache in place that is divided among VMs: an LRU list for each tenant, and the daemon's tenancy in front.
//!
//! What the papers compare with: the same tenants, admission, budgets and shares as over the daemon's log
//! ([`super::divided`]), but every block lies where it was written and leaves alone, the least recently
//! used of its tenant. A share is a number of blocks.
//!
//! ```text
//!   tenant 0   share 3   held 4   [d]─[c]─[b]─[a]   ◄── furthest above its share: gives room when the
//!   tenant 1   share 3   held 2   [z]─[y]               cache is full
//! ```

use super::divided::Tenants;
use super::{AdmissionUse, CacheModel, Maker, places};
use crate::outcome::{Chore, HIT, Outcomes, RAM, STORED, Timed};
use crate::policy::PolicyError;
use crate::series::VmSample;
use crate::write_policy::{WriteMiss, WritePolicy};
use lists::{Inserted, Lists};
use policy::admission::{Fate, Staged, Verdict};
use tenancy::{Arrival, Capacity, Settings, Spare, Tenancy, TenantSettings, Wrote};
use trace::{Batch, Op, Request};
use units::{BLOCK_BYTES, BlockIndex, Bytes, DiskSlot, Instant, TenantSlot};

mod lists;

/// Such a cache.
pub(crate) struct Partitioned {
    lists: Lists,
    tenancy: Tenancy<u32>,
    spare: Spare,
    tenants: Tenants,
    write_policy: WritePolicy,
    allocates: bool,
    /// By number of the VM, and by volume of the image: its tenant.
    of_vm: Vec<Option<TenantSlot>>,
    of_image: Vec<Option<TenantSlot>>,
    /// By key: whose its staged bytes are, plus one.
    staged: Vec<u16>,
    left: Vec<(u32, Fate)>,
    admitted_late: u32,
    attached: u16,
}

impl Partitioned {
    /// # Errors
    /// If the settings contradict each other.
    pub(crate) fn new(maker: &Maker, tenants: &Tenants) -> Result<Self, PolicyError> {
        if maker.write_policy == WritePolicy::Back {
            return Err(PolicyError::WriteBack);
        }
        if maker.block.get() != BLOCK_BYTES {
            return Err(PolicyError::Block(maker.block));
        }
        let capacity = Capacity {
            segments: maker.blocks,
            segment_blocks: 1,
            checkpoint: Bytes::ZERO,
        };
        let settings = Settings {
            memory: Bytes::new(u64::MAX),
            ..tenants.settings.clone()
        };
        // The tenants come one by one; whatever of them contradicts each other is found here.
        let mut rehearsal = Tenancy::<u32>::new(settings.clone(), capacity, Instant::ZERO)?;
        for (slot, (_, tenant)) in (0..).zip(&tenants.vms) {
            rehearsal.attach(TenantSlot::new(slot), tenant.clone(), &mut Vec::new())?;
        }
        Ok(Self {
            lists: Lists::new(maker.blocks),
            spare: settings.spare,
            tenancy: Tenancy::new(settings, capacity, Instant::ZERO)?,
            tenants: tenants.clone(),
            write_policy: maker.write_policy,
            allocates: maker.write_miss == WriteMiss::Allocate,
            of_vm: Vec::new(),
            of_image: Vec::new(),
            staged: Vec::new(),
            left: Vec::new(),
            admitted_late: 0,
            attached: 0,
        })
    }

    /// A tenant that comes for the first time. More than a host has share the last one's share.
    fn come(&mut self, settings: TenantSettings) -> TenantSlot {
        let last = u16::try_from(TenantSlot::COUNT - 1).expect("slots are few");
        let slot = TenantSlot::new(self.attached.min(last));
        if self.attached <= last {
            self.attached += 1;
            let came = self.tenancy.attach(slot, settings, &mut self.left);
            came.expect("the settings were tried before, and memory is not limited here");
            self.settle();
            self.tell_shares();
        }
        slot
    }

    fn vm(&mut self, number: u32) -> TenantSlot {
        let at = number as usize;
        if self.of_vm.len() <= at {
            self.of_vm.resize(at + 1, None);
        }
        if let Some(slot) = self.of_vm[at] {
            return slot;
        }
        let of = self.tenants.vms.iter().find(|(vm, _)| *vm == number);
        let settings = of.map_or_else(TenantSettings::default, |(_, settings)| settings.clone());
        let slot = self.come(settings);
        self.of_vm[at] = Some(slot);
        slot
    }

    fn image(&mut self, volume: usize) -> TenantSlot {
        if self.of_image.len() <= volume {
            self.of_image.resize(volume + 1, None);
        }
        if let Some(slot) = self.of_image[volume] {
            return slot;
        }
        let slot = self.come(TenantSettings {
            image: true,
            ..TenantSettings::default()
        });
        self.of_image[volume] = Some(slot);
        slot
    }

    /// The request as the tenancy sees it.
    fn ask(&mut self, batch: &Batch, request: &Request) -> tenancy::Request {
        let record = &request.record;
        let role = batch.role(record.volume);
        let vm = self.vm(if self.tenants.one_tenant { 0 } else { role.vm });
        let volume = role.blocks.to_usize();
        let tenant = if role.is_image && !self.tenants.one_tenant {
            self.image(volume)
        } else {
            vm
        };
        let disk = u16::try_from(volume % DiskSlot::COUNT).expect("a slot is 16 bits");
        let most = (1 << BlockIndex::BITS) - 1;
        tenancy::Request {
            vm,
            tenant,
            disk: DiskSlot::new(disk),
            first: BlockIndex::new((record.offset.get() / BLOCK_BYTES).min(most)),
            count: request.keys.len() as u64,
            write: record.op == Op::Write,
            now: Instant::from_nanos(record.time_us.saturating_mul(1000)),
        }
    }

    fn advance(&mut self, now: Instant) {
        while self.tenancy.next_tick() <= now {
            let lists = &self.lists;
            self.tenancy
                .tick(now, |slot| lists.held(slot).into(), &mut self.left);
            self.settle();
            self.tell_shares();
        }
    }

    fn tell_shares(&mut self) {
        for share in &self.tenancy.shares().of {
            self.lists.set_share(share.tenant, share.segments);
        }
        if self.spare == Spare::Strict {
            while let Some((slot, key)) = self.lists.shrink() {
                self.tenancy.evicted(slot, key);
            }
        }
    }

    fn read(&mut self, arrival: &Arrival, key: u32) -> u8 {
        if self.lists.touch(key) {
            self.tenancy.hit(arrival, key);
            return HIT;
        }
        self.elsewhere(arrival, key)
    }

    fn write(&mut self, arrival: &Arrival, key: u32) -> u8 {
        if self.lists.touch(key) {
            self.tenancy.hit(arrival, key);
            if !self.tenancy.may_rewrite(arrival, key, true) {
                self.lists.remove(key);
                self.tenancy.removed(arrival.tenant, key);
                return HIT;
            }
            return HIT | STORED;
        }
        if self.allocates || self.staged_by(key).is_some() {
            return self.elsewhere(arrival, key);
        }
        0
    }

    /// A block that is staged or nowhere.
    fn elsewhere(&mut self, arrival: &Arrival, key: u32) -> u8 {
        let (found, enters) = if self.staged_by(key).is_some() {
            let staged = self.tenancy.staged_hit(arrival, key, &mut self.left);
            if staged != Staged::Stays {
                self.staged[key as usize] = 0;
            }
            (HIT | RAM, staged == Staged::Admit)
        } else {
            let verdict = self.tenancy.missed(arrival, key, &mut self.left);
            if verdict == Verdict::Stage {
                if self.staged.len() <= key as usize {
                    self.staged
                        .resize((key as usize + 1).next_power_of_two(), 0);
                }
                self.staged[key as usize] = arrival.tenant.get() + 1;
            }
            (0, verdict == Verdict::Admit)
        };
        let stored = enters && self.insert(arrival.tenant, key);
        self.settle();
        found | (STORED * u8::from(stored))
    }

    fn staged_by(&self, key: u32) -> Option<TenantSlot> {
        let owner = self.staged.get(key as usize)?.checked_sub(1)?;
        Some(TenantSlot::new(owner))
    }

    fn insert(&mut self, owner: TenantSlot, key: u32) -> bool {
        match self.lists.insert(owner, key, self.spare == Spare::Lent) {
            Inserted::Refused => {
                self.tenancy.withheld(owner, key);
                return false;
            }
            Inserted::InsteadOf((slot, key)) => self.tenancy.evicted(slot, key),
            Inserted::InFreeRoom => {}
        }
        true
    }

    /// What has left memory goes to flash or nowhere.
    fn settle(&mut self) {
        let mut left = std::mem::take(&mut self.left);
        for (key, fate) in left.drain(..) {
            let owner = self.staged_by(key).expect("what leaves memory was staged");
            self.staged[key as usize] = 0;
            if fate == Fate::Admit && self.insert(owner, key) {
                self.admitted_late += 1;
            }
        }
        self.left = left;
    }

    /// A block is written around the cache or erased: it leaves.
    fn invalidate(&mut self, tenant: TenantSlot, key: u32) -> u8 {
        let was_cached = self.lists.remove(key);
        let was_staged = self.staged_by(key).is_some();
        if was_staged {
            self.staged[key as usize] = 0;
        }
        assert_eq!(self.tenancy.removed(tenant, key), was_staged);
        match (was_cached, was_staged) {
            (true, _) => HIT,
            (false, true) => HIT | RAM,
            (false, false) => 0,
        }
    }

    fn request(&mut self, ask: &tenancy::Request, op: Op, keys: &[u32], flags: &mut [u8]) {
        match op {
            Op::Read | Op::Write if !keys.is_empty() => {
                let arrival = self.tenancy.arrives(ask);
                for (key, flag) in keys.iter().zip(flags) {
                    *flag = match (op, self.write_policy) {
                        (Op::Read, _) => self.read(&arrival, *key),
                        (_, WritePolicy::Around) => self.invalidate(ask.tenant, *key),
                        _ => self.write(&arrival, *key),
                    };
                    if *flag & STORED != 0 {
                        let wrote = Wrote {
                            admitted: BLOCK_BYTES,
                            ..Wrote::default()
                        };
                        self.tenancy.charge(Some(ask.tenant), wrote);
                    }
                }
            }
            Op::Discard | Op::WriteZeroes => {
                for key in keys {
                    self.invalidate(ask.tenant, *key);
                }
                let (first, count) = (ask.first.get(), ask.count);
                self.tenancy.discarded(ask.tenant, ask.disk, first, count);
            }
            Op::Read | Op::Write | Op::Flush => {}
        }
    }
}

impl CacheModel for Partitioned {
    fn run(&mut self, batch: &Batch, requests: &[Request], outcomes: &mut Outcomes) {
        let Some(first_key) = requests.first().map(|first| first.keys.start) else {
            return;
        };
        for request in requests {
            let ask = self.ask(batch, request);
            self.advance(ask.now);
            let flags = &mut outcomes.blocks[places(request, first_key)];
            self.request(&ask, request.record.op, batch.keys_of(request), flags);
            let late = std::mem::take(&mut self.admitted_late);
            if late > 0 {
                outcomes.chores.push(Timed {
                    at_key: request.keys.end.saturating_sub(1),
                    chore: Chore::Admit,
                    blocks: late,
                });
            }
        }
    }

    fn used_blocks(&self) -> u32 {
        self.lists.blocks()
    }

    fn admission(&self) -> AdmissionUse {
        AdmissionUse {
            refusals: self.tenancy.refused(),
            memory: self.tenancy.admission_memory(),
        }
    }

    fn vms(&self) -> Vec<VmSample> {
        if self.tenants.one_tenant {
            return Vec::new();
        }
        let of = |slot: &Option<TenantSlot>| {
            let Some(slot) = *slot else {
                return VmSample::default();
            };
            let share = self.tenancy.shares().get(slot);
            let wants = self.tenancy.wants(slot);
            VmSample {
                share_blocks: share.map_or(0, |share| share.segments).into(),
                held_blocks: self.lists.held(slot).into(),
                demand_blocks: wants
                    .and_then(|wants| wants.rwss_predicted)
                    .map(crate::number::count),
            }
        };
        self.of_vm.iter().map(of).collect()
    }
}
