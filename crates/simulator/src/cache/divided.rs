//! The daemon's log with its admission in front: VMs and base images as tenants, admission, write budgets,
//! shares that follow demand.
//!
//! The very code of the daemon ([`tenancy`], [`block_store`]) on a flash that keeps nothing. Each VM of
//! the trace is a tenant, and so is each base image; a volume is a disk of its tenant. A tenant comes with
//! its first request, as a VM that is started does. Staged blocks lie in RAM beside the flash that the size
//! counts: a read of one is a hit, counted apart.
//!
//! ```text
//!   volume ─► role: whose blocks, which VM ─► disk, tenant ─► DividedLog ─► HIT | RAM | STORED
//! ```

use super::divided_log::{Admission, DividedLog, Found, Outcome};
use super::segments::{
    check, disk_of, first_block, push_chores, push_destaged, segment_for, store_of,
};
use super::{AdmissionUse, CacheModel, Maker, places};
use crate::destaged::LogRoom;
use crate::outcome::{Chore, DIRTY, HIT, Outcomes, RAM, STORED, Timed};
use crate::policy::PolicyError;
use crate::series::VmSample;
use crate::write_policy::{WriteMiss, WritePolicy};
use policy::reclaim::Kind;
use segment_log::FlashWritten;
use tenancy::{Capacity, Settings, TenantSettings};
use trace::{Batch, Op, Request};
use units::{Bytes, DiskSlot, Instant, TenantSlot};

/// Who shares a cache, and by which settings.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tenants {
    /// What holds for all VMs.
    pub settings: Settings,
    /// What holds for single VMs, by the number that the trace gives them ([`trace::Role::vm`]); any
    /// other has the default.
    pub vms: Vec<(u32, TenantSettings)>,
    /// All VMs and images are one tenant: nothing is divided.
    pub one_tenant: bool,
}

/// Such a cache.
pub(crate) struct Divided {
    cache: DividedLog,
    write_policy: WritePolicy,
    allocates: bool,
    written: FlashWritten,
    admitted_late: u64,
    vms: Vec<(u32, TenantSettings)>,
    one_tenant: bool,
    /// By number of the VM: its tenant. By disk: its image's tenant, if it is an image.
    of_vm: Vec<Option<TenantSlot>>,
    of_image: Vec<Option<TenantSlot>>,
    tenants: u16,
}

impl Divided {
    /// # Errors
    /// If the log cannot have this size, segment, block or write policy, or the settings contradict each
    /// other.
    pub(crate) fn new(
        kind: Kind,
        segment: Option<Bytes>,
        maker: &Maker,
        tenants: &Tenants,
    ) -> Result<Self, PolicyError> {
        check(maker)?;
        let segment = segment.unwrap_or_else(|| segment_for(maker.blocks));
        let store = store_of(maker, segment, kind)?;
        let capacity = Capacity::of(store.facts().geometry());
        let settings = Settings {
            memory: Bytes::new(u64::MAX),
            ..tenants.settings.clone()
        };
        // The tenants come one by one; whatever of them contradicts each other is found here.
        let new = || Admission::new(Some(settings.clone()), capacity, Instant::ZERO);
        let mut rehearsal = new()?;
        let slots = (0..TenantSlot::COUNT).filter_map(|at| u16::try_from(at).ok());
        for (slot, (_, tenant)) in slots.map(TenantSlot::new).zip(&tenants.vms) {
            rehearsal.attach(slot, tenant.clone())?;
        }
        Ok(Self {
            cache: DividedLog::new(store, new()?),
            write_policy: maker.write_policy,
            allocates: maker.write_miss == WriteMiss::Allocate,
            written: FlashWritten::default(),
            admitted_late: 0,
            vms: tenants.vms.clone(),
            one_tenant: tenants.one_tenant,
            of_vm: Vec::new(),
            of_image: vec![None; DiskSlot::COUNT],
            tenants: 0,
        })
    }

    /// The tenant of a VM or of an image that comes for the first time. More than a daemon has share the
    /// last one's share.
    fn come(&mut self, settings: TenantSettings) -> TenantSlot {
        let last = u16::try_from(TenantSlot::COUNT - 1).expect("slots are few");
        let slot = TenantSlot::new(self.tenants.min(last));
        if self.tenants <= last {
            self.tenants += 1;
            let attached = self
                .cache
                .change(|admission| admission.attach(slot, settings));
            attached.expect("the settings were tried before, and memory is not limited here");
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
        let of = self.vms.iter().find(|(vm, _)| *vm == number);
        let settings = of.map_or_else(TenantSettings::default, |(_, settings)| settings.clone());
        let slot = self.come(settings);
        self.of_vm[at] = Some(slot);
        slot
    }

    fn image(&mut self, disk: DiskSlot) -> TenantSlot {
        if let Some(slot) = self.of_image[disk.index()] {
            return slot;
        }
        let slot = self.come(TenantSettings {
            image: true,
            ..TenantSettings::default()
        });
        self.of_image[disk.index()] = Some(slot);
        slot
    }

    /// The request as the tenancy sees it.
    fn ask(&mut self, batch: &Batch, request: &Request) -> tenancy::Request {
        let record = &request.record;
        let role = batch.role(record.volume);
        let disk = disk_of(role.blocks);
        let vm = self.vm(if self.one_tenant { 0 } else { role.vm });
        let tenant = if role.is_image && !self.one_tenant {
            self.image(disk)
        } else {
            vm
        };
        if self.cache.owner(disk).is_none() {
            self.cache.set_owner(disk, tenant);
        }
        // Two volumes may share a disk slot; then the first one's tenant has both.
        let tenant = self.cache.owner(disk).unwrap_or(tenant);
        tenancy::Request {
            vm,
            tenant,
            disk,
            first: first_block(record),
            count: request.keys.len() as u64,
            write: record.op == Op::Write,
            now: Instant::from_nanos(record.time_us.saturating_mul(1000)),
        }
    }

    fn request(&mut self, ask: &tenancy::Request, op: Op, keys: &[u32], flags: &mut [u8]) {
        match op {
            Op::Read | Op::Write if !keys.is_empty() => {
                let arrival = self.cache.arrives(ask);
                let disk = ask.disk;
                let each = |at: usize, outcome| flags[at] = flags_of(outcome);
                match (op, self.write_policy) {
                    (Op::Read, _) => self.cache.read_run(&arrival, disk, keys, each),
                    (_, WritePolicy::Back) => {
                        let each = |at: usize, outcome: Outcome| {
                            flags[at] = flags_of(outcome) | (DIRTY * u8::from(outcome.stored));
                        };
                        self.cache.log_run(&arrival, disk, keys, each);
                    }
                    (_, WritePolicy::Around) => {
                        let each = |at: usize, was| flags[at] = found_flags(was);
                        self.cache.invalidate_run(disk, keys, each);
                    }
                    (_, WritePolicy::Through) => {
                        let allocates = self.allocates;
                        self.cache.write_run(&arrival, disk, keys, allocates, each);
                    }
                }
            }
            Op::Discard | Op::WriteZeroes if self.write_policy == WritePolicy::Back => {
                self.cache.erase_run(ask.disk, keys);
                self.cache.discarded(ask);
            }
            Op::Discard | Op::WriteZeroes => {
                self.cache.invalidate_run(ask.disk, keys, |_, _| {});
                self.cache.discarded(ask);
            }
            Op::Flush => {
                if let Some(mut back) = self.cache.back() {
                    back.flush(ask.disk);
                }
            }
            Op::Read | Op::Write => {}
        }
    }

    /// What was written since the last look beside the blocks themselves.
    fn chores(&mut self, at_key: u32, outcomes: &mut Outcomes) {
        let now = self.cache.store().written();
        let before = std::mem::replace(&mut self.written, now);
        let late = self.cache.admitted_late();
        let late_before = std::mem::replace(&mut self.admitted_late, late);
        push_chores(at_key, before, now, &mut outcomes.chores);
        if let Some(back) = self.cache.back() {
            push_destaged(at_key, back.take_done(), outcomes);
        }
        if late > late_before {
            outcomes.chores.push(Timed {
                at_key,
                chore: Chore::Admit,
                blocks: u32::try_from(late - late_before).expect("staging is in memory"),
            });
        }
    }
}

const fn found_flags(found: Found) -> u8 {
    match found {
        Found::Flash => HIT,
        Found::Memory => HIT | RAM,
        Found::Nowhere => 0,
    }
}

const fn flags_of(outcome: Outcome) -> u8 {
    found_flags(outcome.found) | if outcome.stored { STORED } else { 0 }
}

impl CacheModel for Divided {
    fn run(&mut self, batch: &Batch, requests: &[Request], outcomes: &mut Outcomes) {
        let Some(first_key) = requests.first().map(|first| first.keys.start) else {
            return;
        };
        for request in requests {
            let ask = self.ask(batch, request);
            self.cache.advance(ask.now);
            let flags = &mut outcomes.blocks[places(request, first_key)];
            let keys = batch.keys_of(request);
            self.cache.note_places(ask.disk, ask.first, keys);
            if let Some(mut back) = self.cache.back() {
                back.asked(ask.disk);
            }
            self.request(&ask, request.record.op, keys, flags);
            if self.write_policy == WritePolicy::Back {
                let written = (request.record.op != Op::Read).then_some(ask.disk);
                self.cache.advance_log(written);
            }
            self.chores(request.keys.end.saturating_sub(1), outcomes);
        }
    }

    fn used_blocks(&self) -> u32 {
        self.cache.store().cached_blocks() + self.cache.store().dirty_blocks()
    }

    fn dirty_blocks(&self) -> u32 {
        self.cache.store().dirty_blocks()
    }

    fn log_room(&self, batch: &Batch, request: &Request) -> Option<LogRoom> {
        let disk = disk_of(batch.role(request.record.volume).blocks);
        self.cache.store().log_room(disk)
    }

    fn admission(&self) -> AdmissionUse {
        let tenancy = self.cache.tenancy();
        AdmissionUse {
            refusals: tenancy.refused(),
            memory: tenancy.admission_memory(),
        }
    }

    fn vms(&self) -> Vec<VmSample> {
        if self.one_tenant {
            return Vec::new();
        }
        let tenancy = self.cache.tenancy();
        let (facts, segment_blocks) = (
            self.cache.store().facts(),
            tenancy.capacity().segment_blocks,
        );
        let of = |slot: &Option<TenantSlot>| {
            let Some(slot) = *slot else {
                return VmSample::default();
            };
            let share = tenancy.shares().get(slot).map_or(0, |share| share.segments);
            let predicted = tenancy.wants(slot).and_then(|wants| wants.rwss_predicted);
            VmSample {
                share_blocks: u64::from(share) * u64::from(segment_blocks),
                held_blocks: u64::from(facts.held(slot)) * u64::from(segment_blocks),
                demand_blocks: predicted.map(crate::number::count),
            }
        };
        self.of_vm.iter().map(of).collect()
    }
}
