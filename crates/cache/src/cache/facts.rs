//! What a cache is like at a moment, for people and metrics, and for who decides by it. Nothing here changes it.

use super::Cache;
use super::attach::is_taken;
use crate::admitter::Admission;
use crate::api::WritePolicy;
use crate::back::{Backs, destage_state};
use crate::disks::Disks;
use crate::flash_use::FlashUse;
use crate::foresight::Foreseen;
use crate::hints::Hinted;
use crate::host_record::{HostRecord, Retirement};
use crate::jobs::Jobs;
use crate::ports::Ports;
use crate::reads::ReadState;
use crate::scrub::Scrub;
use crate::scrubbed::ScrubStatus;
use crate::stats::{DiskStats, Stats};
use crate::tenants::{TenantStatus, Tenants};
use crate::views::{ViewStats, Views};
use crate::write_back::{DirtyStatus, WriteBack};
use admission::Kind;
use block_store::{Committed, DirtyDisk, LockReason, SegmentCounts, slots};
use tenancy::Settings;
use units::{Bytes, DiskId, DiskSlot, TenantSlot};

/// Whether the flash is in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The flash is in use.
    Active,
    /// The flash is being given up; writes wait until that is recorded.
    Retiring {
        /// Why.
        reason: String,
    },
    /// There is no flash: everything goes to the origins.
    Bypassed {
        /// Why.
        reason: String,
    },
}

/// What a cache is like at a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Whether the flash is in use.
    pub mode: Mode,
    /// Whether reads of cached blocks go to their origins, since the flash is late with them.
    pub bypasses_reads: bool,
    /// Whether writes of the flash are late, or were a moment ago: guests do not wait for them, and
    /// after a crash the cache would open cold.
    pub is_in_doubt: bool,
    /// Which cache; zero without a flash.
    pub uuid: u128,
    /// Its incarnation; zero without a flash.
    pub incarnation: u64,
    /// Bytes of flash.
    pub capacity: Bytes,
    /// Bytes in a segment.
    pub segment_bytes: Bytes,
    /// Blocks that the segments can hold.
    pub blocks_max: u64,
    /// Blocks in the cache.
    pub cached_blocks: u64,
    /// Segments by what they are.
    pub segments: SegmentCounts,
    /// Memory for all that is remembered of blocks on flash.
    pub memory: Bytes,
    /// Bytes that wait in memory to be written to flash.
    pub buffered: Bytes,
    /// Blocks whose bytes are staged in memory.
    pub staged_blocks: u64,
    /// Blocks that were prefetched into memory.
    pub ahead_blocks: u64,
    /// Blocks that are hot: copies in memory of what was read.
    pub hot_blocks: u64,
    /// Memory of all frames of blocks in memory, with the tables that find them.
    pub staged: Bytes,
    /// Memory of the admission, as it counts it: what is staged included.
    pub admission: Bytes,
    /// Why nothing enters the flash, if the settings contradict each other.
    pub error: Option<String>,
}

/// What the flash has of a disk that is not attached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Who it is.
    pub id: DiskId,
    /// What people called it.
    pub name: String,
    /// Blocks that its next attach may serve.
    pub cached_blocks: u64,
    /// Bytes of its dirty log, erased ones included. The origin lacks them unless the owner's record
    /// says that it has them.
    pub dirty: Bytes,
    /// Why its dirty log does not go to the origin without the operator.
    pub locked: Option<LockReason>,
}

/// What there is to see of a cache.
#[derive(Clone, Copy)]
pub struct Facts<'a> {
    ports: &'a Ports,
    flash: &'a FlashUse,
    host_record: &'a HostRecord,
    disks: &'a Disks,
    tenants: &'a Tenants,
    admission: &'a Admission,
    backs: &'a Backs,
    reads: &'a ReadState,
    jobs: &'a Jobs,
    scrub: &'a Scrub,
}

impl Cache {
    /// What there is to see.
    #[inline]
    pub fn facts(&self) -> Facts<'_> {
        Facts {
            ports: &self.state.ports,
            flash: &self.state.flash,
            host_record: &self.state.host_record,
            disks: &self.state.disks,
            tenants: &self.state.tenants,
            admission: &self.state.admission,
            backs: &self.state.backs,
            reads: &self.state.reads,
            jobs: &self.state.jobs,
            scrub: &self.state.scrub,
        }
    }
}

impl<'a> Facts<'a> {
    /// Counters since the cache was opened.
    pub fn stats(&self) -> Stats {
        self.ports.stats.with_store(self.ports.store.stats())
    }

    /// How far the scrub is, and what it has found.
    pub fn scrub(&self) -> ScrubStatus {
        self.scrub.status(self.flash.as_ref())
    }

    /// Counters of a disk since it was attached; none if it is not.
    pub fn stats_of(&self, disk: DiskSlot) -> Option<DiskStats> {
        self.disks.get(disk)?;
        let cached = self
            .flash
            .as_ref()
            .map_or(0, |flash| flash.facts().cached_blocks_of(disk));
        Some(DiskStats {
            cached_blocks: cached,
            ..*self.disks.counted(disk)
        })
    }

    /// The write policy of an attached disk.
    pub fn policy_of(&self, disk: DiskSlot) -> Option<WritePolicy> {
        Some(self.disks.get(disk)?.policy)
    }

    /// How many flushes of the origin of the disk in this slot have failed since the cache was opened.
    pub fn failed_flushes(&self, disk: DiskSlot) -> u64 {
        self.ports.failed_flushes(disk)
    }

    /// Requests of a disk that are not answered yet.
    pub fn in_flight(&self, disk: DiskSlot) -> u32 {
        self.disks.get(disk).map_or(0, |disk| disk.in_flight)
    }

    /// How far the tables on flash are durable; `None` without flash.
    pub fn committed(&self) -> Option<Committed> {
        Some(self.flash.as_ref()?.facts().committed())
    }

    /// Whether a checkpoint is durable; `None` without flash.
    pub(crate) fn has_checkpoint(&self, checkpoint: u64) -> Option<bool> {
        Some(self.flash.as_ref()?.facts().has_checkpoint(checkpoint))
    }

    /// What an attached disk has that its origin lacks; none if it is not attached.
    pub fn write_back_of(&self, disk: DiskSlot) -> Option<DirtyStatus> {
        self.disks.get(disk)?;
        let stats = self.disks.counted(disk);
        let mut status = DirtyStatus {
            destaged: Bytes::new(stats.destaged_bytes),
            stalls: stats.stalled_writes,
            is_bypassed: self.backs.does_without(disk),
            ..DirtyStatus::default()
        };
        if let Some(flash) = self.flash.with_logs() {
            status.epoch = flash
                .facts()
                .disk_entry(disk)
                .map_or(0, |entry| entry.epoch);
            if let Some(dirty) = flash.dirty_logs().get(disk) {
                status.logged = dirty.log().logged();
                status.distinct = dirty.log().distinct() + dirty.log().erased();
                let age = |at| self.ports.now().since(at);
                status.oldest = dirty.log().oldest().map(age);
                status.intervals = dirty.log().intervals();
            }
        }
        if let Some(back) = self.backs.get(disk) {
            status.state = destage_state(self.flash, disk, back);
        }
        Some(status)
    }

    /// How the writes of an attached disk reach its origin under write-back, as it was asked for last;
    /// none if it is not attached.
    pub fn write_back_settings_of(&self, disk: DiskSlot) -> Option<WriteBack> {
        Some(self.disks.get(disk)?.write_back)
    }

    /// What the cache is like now.
    pub fn status(&self) -> Status {
        let reason = self.flash.why_bypassed().unwrap_or_default().to_owned();
        let mode = match (self.flash.as_ref(), self.host_record.retirement()) {
            (Some(_), _) => Mode::Active,
            (None, Retirement::None | Retirement::Done) => Mode::Bypassed { reason },
            (None, Retirement::Asked { .. } | Retirement::Refused { .. }) => {
                Mode::Retiring { reason }
            }
        };
        let Some(flash) = self.flash.as_ref() else {
            return Status {
                mode,
                bypasses_reads: false,
                is_in_doubt: false,
                uuid: 0,
                incarnation: 0,
                capacity: Bytes::ZERO,
                segment_bytes: Bytes::ZERO,
                blocks_max: 0,
                cached_blocks: 0,
                segments: SegmentCounts::default(),
                memory: Bytes::ZERO,
                buffered: Bytes::ZERO,
                staged_blocks: 0,
                ahead_blocks: 0,
                hot_blocks: 0,
                staged: Bytes::ZERO,
                admission: Bytes::ZERO,
                error: None,
            };
        };
        let views = self
            .disks
            .iter()
            .filter_map(|(_, disk)| disk.views.as_ref());
        let views = Bytes::new(views.map(Views::bytes).sum::<usize>() as u64);
        let geometry = flash.facts().geometry();
        Status {
            mode,
            bypasses_reads: self.bypasses_reads(),
            is_in_doubt: self.is_in_doubt(),
            uuid: flash.facts().uuid(),
            incarnation: flash.facts().incarnation(),
            capacity: geometry.capacity(),
            segment_bytes: geometry.segment_bytes(),
            blocks_max: u64::from(geometry.segment_count())
                * u64::from(geometry.segment_blocks_max()),
            cached_blocks: flash.facts().cached_blocks(),
            segments: flash.facts().segment_counts(),
            memory: flash.facts().memory_bytes()
                + views
                + self.reads.foresight().memory()
                + self.disks.hints().memory(),
            buffered: flash.facts().buffered(),
            staged_blocks: self.admission.frames().len(Kind::Staged).into(),
            ahead_blocks: self.admission.frames().len(Kind::Ahead).into(),
            hot_blocks: self.admission.frames().len(Kind::Hot).into(),
            staged: self.admission.frames().memory(),
            admission: self.admission.memory(),
            error: self.admission.error().map(ToString::to_string),
        }
    }

    /// Why the cache has no flash, or has given it up; none if it is in use.
    pub fn why_bypassed(&self) -> Option<&'a str> {
        self.flash.why_bypassed()
    }

    /// Whether writes of the flash are late, or were a moment ago: guests' writes do not wait for them,
    /// and after a crash the cache would open cold.
    pub fn is_in_doubt(&self) -> bool {
        self.host_record.is_in_doubt()
    }

    /// Whether reads of cached blocks go to their origins, since the flash is late with them.
    pub fn bypasses_reads(&self) -> bool {
        self.flash.is_in_use() && self.reads.is_slow()
    }

    /// Every disk that is not attached, and of which the flash has a block or a dirty log; none
    /// without a flash, since then nobody knows. Flash that has failed while it was in use counts for
    /// its dirty logs only.
    pub fn kept(&self) -> Option<Vec<Kept>> {
        let flash = self.flash.with_logs()?;
        let in_use = self.flash.is_in_use();
        let kept = slots().filter_map(|slot| {
            let entry = flash
                .facts()
                .disk_entry(slot)
                .filter(|_| !is_taken(self.disks, self.jobs, slot))?;
            let dirty = flash.dirty_logs().get(slot);
            let log = dirty.map(|dirty| dirty.log().distinct() + dirty.log().erased());
            let doubt = entry.in_doubt.then_some(LockReason::Unbelievable);
            Some(Kept {
                id: entry.id,
                name: entry.name.clone(),
                cached_blocks: if in_use {
                    flash.facts().cached_blocks_of(slot)
                } else {
                    0
                },
                dirty: log.unwrap_or_default(),
                locked: dirty.map_or(doubt, DirtyDisk::locked),
            })
        });
        let is_some =
            |kept: &Kept| kept.cached_blocks > 0 || !kept.dirty.is_zero() || kept.locked.is_some();
        Some(kept.filter(is_some).collect())
    }

    /// What holds for all tenants; none if everything is admitted or nothing is.
    pub fn tenancy(&self) -> Option<&'a Settings> {
        Some(self.admission.tenancy()?.settings())
    }

    /// What is known of a tenant; none without tenants, or if it has no disk here.
    pub fn tenant_report(&self, tenant: TenantSlot) -> Option<tenancy::Report> {
        self.admission.tenancy()?.report(tenant)
    }

    /// What is known of each tenant that has a disk here; nothing without tenants.
    pub fn tenant_reports(&self) -> Vec<tenancy::Report> {
        let slots = self.tenants.iter().map(|tenant| tenant.slot);
        slots.filter_map(|slot| self.tenant_report(slot)).collect()
    }

    /// What is known of all tenants together; none without tenants.
    pub fn host_report(&self) -> Option<tenancy::HostReport> {
        Some(self.admission.tenancy()?.host_report())
    }

    /// How the flash is divided; none without tenants.
    pub fn shares(&self) -> Option<&'a tenancy::Shares> {
        Some(self.admission.tenancy()?.shares())
    }

    /// What was decided for a tenant, counted; none without tenants, or if it has no disk here.
    pub fn tenant_counts(&self, tenant: TenantSlot) -> Option<&'a tenancy::Counts> {
        self.admission.tenancy()?.counts(tenant)
    }

    /// What each VM asked of a shared disk since it was attached, those that have left included;
    /// nothing if it is not shared.
    pub fn views_of(&self, disk: DiskSlot) -> Vec<(TenantSlot, ViewStats)> {
        let views = self.disks.get(disk);
        let views = views.and_then(|disk| disk.views.as_ref());
        views.map_or_else(Vec::new, |views| views.stats().collect())
    }

    /// The tenant of an attached disk.
    pub fn tenant_of(&self, disk: DiskSlot) -> Option<TenantSlot> {
        self.disks.tenant_of(disk)
    }

    /// What became of the guesses for a tenant's disks; none if nothing was foreseen.
    pub fn foreseen(&self, tenant: TenantSlot) -> Option<Foreseen> {
        self.reads.foresight().seen(tenant)
    }

    /// What the guest of a disk has said of it.
    pub fn hinted(&self, disk: DiskSlot) -> Hinted {
        self.disks.hints().hinted(disk)
    }

    /// Every tenant, those included that have nothing here any more but whose slot has not been
    /// given to another.
    pub fn tenants(&self) -> Vec<TenantStatus> {
        self.tenants.iter().collect()
    }
}
