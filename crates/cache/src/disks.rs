//! The disks that are attached: what holds for each, its requests that are not answered yet, and what
//! is counted of it.

use crate::api::{ControlError, Effect, RequestId, Tenure, WritePolicy};
use crate::hints::HintsOfDisks;
use crate::late_reads::LateReads;
use crate::limits::REQUEST_BYTES_MAX;
use crate::ports::Ports;
use crate::stats::DiskStats;
use crate::tenants::{Tenants, Use};
use crate::views::Views;
use crate::write_back::WriteBack;
use block_io::{IoError, Payload, Verb};
use flash_format::DISK_BYTES_MAX;
use units::{BLOCK_BYTES, Bytes, DiskId, DiskSlot, Map, SECTOR_BYTES, Set, TenantSlot};

/// An attached disk.
#[derive(Clone, Debug)]
pub(crate) struct Disk {
    pub(crate) size: Bytes,
    pub(crate) policy: WritePolicy,
    pub(crate) read_only: bool,
    /// Whose it is.
    pub(crate) tenant: TenantSlot,
    /// Who reads it, if it is shared.
    pub(crate) views: Option<Views>,
    /// Requests that are not answered yet.
    pub(crate) in_flight: u32,
    /// How writes go to the origin under write-back.
    pub(crate) write_back: WriteBack,
    pub(crate) tenure: Tenure,
    /// The period in which it is attached; 0 if it has none.
    pub(crate) epoch: u64,
    /// A flush of its origin has failed that no guest had asked for, and none has been told since.
    pub(crate) failed_flush_untold: bool,
}

/// All disks of a cache, by slot.
pub(crate) struct Disks {
    table: Vec<Option<Disk>>,
    /// Who is attached where; with flash its disk table says the same.
    ids: Map<DiskSlot, DiskId>,
    /// Since each was attached.
    stats: Vec<DiskStats>,
    /// Those that were another host's when they were attached last.
    standbys: Set<DiskId>,
    /// Of those that have any: every hit looks at a [`Disk`], which is small.
    late_reads: Map<DiskSlot, LateReads>,
    hints: HintsOfDisks,
}

impl Disks {
    /// None is attached.
    pub(crate) fn new() -> Self {
        Self {
            table: vec![None; DiskSlot::COUNT],
            ids: Map::default(),
            stats: vec![DiskStats::default(); DiskSlot::COUNT],
            standbys: Set::default(),
            late_reads: Map::default(),
            hints: HintsOfDisks::default(),
        }
    }

    /// Holds the slot of the tenant with this name. What views remember of a tenant that had the slot
    /// before is forgotten.
    ///
    /// # Errors
    /// [`ControlError::TooManyTenants`].
    pub(crate) fn hold_tenant(
        &mut self,
        tenants: &mut Tenants,
        name: &str,
        what: Use,
    ) -> Result<TenantSlot, ControlError> {
        let slot = tenants.hold(name, what)?;
        if let Some(slot) = tenants.take_over() {
            for views in self.all_views() {
                views.forget(slot);
            }
        }
        Ok(slot)
    }

    #[inline]
    pub(crate) fn get(&self, disk: DiskSlot) -> Option<&Disk> {
        self.table[disk.index()].as_ref()
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, disk: DiskSlot) -> Option<&mut Disk> {
        self.table[disk.index()].as_mut()
    }

    /// A disk that is attached.
    ///
    /// # Errors
    /// If it is not.
    pub(crate) fn attached(&self, disk: DiskSlot) -> Result<&Disk, ControlError> {
        self.get(disk).ok_or(ControlError::NotAttached)
    }

    /// A disk is attached; its counters begin at zero.
    pub(crate) fn attach(&mut self, slot: DiskSlot, id: DiskId, disk: Disk) {
        self.ids.insert(slot, id);
        match disk.tenure {
            Tenure::Standby => self.standbys.insert(id),
            Tenure::Owner | Tenure::Successor => self.standbys.remove(&id),
        };
        self.table[slot.index()] = Some(disk);
        self.stats[slot.index()] = DiskStats::default();
    }

    /// Whether a disk was another host's when it was attached last, since the cache was opened.
    pub(crate) fn was_standby(&self, id: DiskId) -> bool {
        self.standbys.contains(&id)
    }

    /// A disk is detached.
    ///
    /// # Panics
    /// If it was not attached.
    pub(crate) fn detach(&mut self, slot: DiskSlot) -> Disk {
        self.ids.remove(&slot);
        self.late_reads.remove(&slot);
        self.hints.forget(slot);
        let disk = self.table[slot.index()].take();
        disk.expect("a disk that is detached was attached")
    }

    /// Every disk that is attached.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (DiskSlot, &Disk)> {
        let disks = self.table.iter().zip((0..).map(DiskSlot::new));
        disks.filter_map(|(disk, slot)| Some((slot, disk.as_ref()?)))
    }

    /// Who reads each shared disk.
    pub(crate) fn all_views(&mut self) -> impl Iterator<Item = &mut Views> {
        let disks = self.table.iter_mut().flatten();
        disks.filter_map(|disk| disk.views.as_mut())
    }

    /// Which disk is attached here.
    pub(crate) fn id_of(&self, slot: DiskSlot) -> Option<DiskId> {
        self.ids.get(&slot).copied()
    }

    /// Whether this disk is attached somewhere.
    pub(crate) fn has(&self, id: DiskId) -> bool {
        self.ids.values().any(|attached| *attached == id)
    }

    /// What is counted of a disk since it was attached.
    #[inline]
    pub(crate) fn stats(&mut self, disk: DiskSlot) -> &mut DiskStats {
        &mut self.stats[disk.index()]
    }

    /// The same, to read it.
    pub(crate) fn counted(&self, disk: DiskSlot) -> &DiskStats {
        &self.stats[disk.index()]
    }

    /// Counts a guest's request as under way, if it may be one.
    ///
    /// # Errors
    /// What the guest is answered instead.
    #[inline]
    pub(crate) fn begin(
        &mut self,
        disk: DiskSlot,
        vm: TenantSlot,
        verb: &Verb,
    ) -> Result<(), IoError> {
        let disk = self
            .get_mut(disk)
            .filter(|disk| {
                // Its own tenant's are the host's requests of a shared disk.
                let views = disk.views.as_ref();
                views.is_none_or(|views| vm == disk.tenant || views.has(vm))
            })
            .ok_or(IoError::ShuttingDown)?;
        disk.check(verb)?;
        disk.in_flight += 1;
        Ok(())
    }

    /// Answers a guest's request.
    ///
    /// # Panics
    /// If it was not counted.
    #[inline]
    pub(crate) fn answer(&mut self, ports: &mut Ports, disk: DiskSlot, answer: Effect) {
        let disk = self.get_mut(disk);
        let disk = disk.expect("a disk with requests stays attached");
        let left = disk.in_flight.checked_sub(1);
        disk.in_flight = left.expect("each request was counted");
        ports.push(answer);
    }

    /// The same for one that brings no bytes.
    pub(crate) fn reply(
        &mut self,
        ports: &mut Ports,
        disk: DiskSlot,
        request: RequestId,
        result: Result<(), IoError>,
    ) {
        let result = result.map(|()| Payload::new());
        self.answer(ports, disk, Effect::Reply { request, result });
    }

    /// Its length in bytes; 0 if it is not attached.
    #[inline]
    pub(crate) fn size(&self, disk: DiskSlot) -> u64 {
        self.get(disk).map_or(0, |disk| disk.size.get())
    }

    /// Where the whole blocks of a disk end, in bytes: a last part of a block is never cached.
    #[inline]
    pub(crate) fn cached_end(&self, disk: DiskSlot) -> u64 {
        self.size(disk) / BLOCK_BYTES * BLOCK_BYTES
    }

    #[inline]
    pub(crate) fn policy(&self, disk: DiskSlot) -> WritePolicy {
        self.get(disk)
            .map_or(WritePolicy::Around, |disk| disk.policy)
    }

    pub(crate) fn set_policy(&mut self, disk: DiskSlot, policy: WritePolicy) {
        if let Some(disk) = self.get_mut(disk) {
            disk.policy = policy;
        }
    }

    #[inline]
    pub(crate) fn tenant_of(&self, disk: DiskSlot) -> Option<TenantSlot> {
        Some(self.get(disk)?.tenant)
    }

    /// What guests say of their disks.
    pub(crate) fn hints(&self) -> &HintsOfDisks {
        &self.hints
    }

    /// The same, to hear more.
    pub(crate) fn hints_mut(&mut self) -> &mut HintsOfDisks {
        &mut self.hints
    }

    /// What the guest of a disk has read of late changes.
    pub(crate) fn late_reads(&mut self, disk: DiskSlot) -> &mut LateReads {
        self.late_reads.entry(disk).or_default()
    }

    /// How many reads of late changes a flush of a disk's origin has to vouch for, if for any.
    pub(crate) fn late_reads_to_flush(&self, disk: DiskSlot) -> Option<u64> {
        self.late_reads.get(&disk)?.to_flush()
    }

    /// Whether a guest that flushes has to be told of an earlier flush that failed.
    pub(crate) fn tells_of_failed_flush(&mut self, disk: DiskSlot) -> bool {
        let disk = self.get_mut(disk);
        disk.is_some_and(|disk| std::mem::take(&mut disk.failed_flush_untold))
    }

    /// Who reads a disk, if it is shared.
    #[inline]
    pub(crate) fn views(&mut self, disk: DiskSlot) -> Option<&mut Views> {
        self.get_mut(disk)?.views.as_mut()
    }
}

impl Disk {
    /// One that is about to be attached.
    pub(crate) fn new(size: Bytes, policy: WritePolicy, tenure: Tenure) -> Self {
        Self {
            size,
            policy,
            read_only: false,
            tenant: TenantSlot::new(0),
            views: None,
            in_flight: 0,
            write_back: WriteBack::default(),
            tenure,
            epoch: 0,
            failed_flush_untold: false,
        }
    }

    /// The same with what else is said of one that is attached.
    pub(crate) fn with(self, read_only: bool, shared: bool, write_back: WriteBack) -> Self {
        Self {
            read_only: read_only || shared,
            views: shared.then(|| Views::new(self.size)),
            write_back,
            ..self
        }
    }

    /// Why it cannot be under write-back, if so.
    pub(crate) fn why_not_back(&self) -> Option<ControlError> {
        if !self.size.is_multiple_of(BLOCK_BYTES) {
            Some(ControlError::UnalignedSize)
        } else if self.never_writes() || self.views.is_some() {
            Some(ControlError::NoWriteBack)
        } else {
            None
        }
    }

    /// Whether what is written to its origin is never this host's.
    pub(crate) fn never_writes(&self) -> bool {
        self.read_only || self.tenure == Tenure::Standby
    }

    /// Whether all its requests are answered.
    pub(crate) fn may_detach(&self) -> Result<(), ControlError> {
        if self.in_flight > 0 {
            Err(ControlError::Busy)
        } else {
            Ok(())
        }
    }

    /// Whether it may get this size while it is served.
    pub(crate) fn may_grow(&self, size: Bytes) -> Result<(), ControlError> {
        let is_whole = |size: Bytes| size.is_multiple_of(BLOCK_BYTES);
        if size > DISK_BYTES_MAX {
            Err(ControlError::UnsupportedSize)
        } else if self.views.is_some() {
            Err(ControlError::Shared)
        } else if size < self.size || size != self.size && !(is_whole(self.size) && is_whole(size))
        {
            Err(ControlError::OnlyGrows)
        } else {
            Ok(())
        }
    }

    /// Whether a guest may ask this.
    fn check(&self, verb: &Verb) -> Result<(), IoError> {
        let (offset, length, writes) = match verb {
            Verb::Flush => return Ok(()),
            Verb::Read { offset, length } => {
                if *length > REQUEST_BYTES_MAX {
                    return Err(IoError::Invalid);
                }
                (*offset, *length, false)
            }
            Verb::Prefetch { offset, length } => (*offset, *length, false),
            Verb::Write { offset, data, .. } => (*offset, Bytes::new(data.len() as u64), true),
            Verb::Discard { offset, length } | Verb::WriteZeroes { offset, length, .. } => {
                (*offset, *length, true)
            }
        };
        if writes && self.read_only {
            return Err(IoError::NotPermitted);
        }
        let aligned = offset.is_multiple_of(SECTOR_BYTES) && length.is_multiple_of(SECTOR_BYTES);
        let inside = offset
            .checked_add(length)
            .is_some_and(|end| end.from_start() <= self.size);
        if aligned && inside && !length.is_zero() {
            Ok(())
        } else {
            Err(IoError::Invalid)
        }
    }
}
