//! The disks of a shard: which are attached, about to be, or draining; and when their origins want to be
//! polled.

use crate::client::Place;
use crate::clients::Clients;
use crate::deadlines::Deadlines;
use crate::disk::Disk;
use crate::error::ShardError;
use crate::tap::Tap;
use block_io::{IoError, OriginDone, OriginOp};
use cache::Tenure;
use origin::Origin as _;
use units::{DiskId, DiskSlot, Instant, Map};

pub(crate) struct Disks {
    table: Vec<Option<Box<Disk>>>,
    /// Disks that are attached (with their slot) or about to be (without).
    slots: Map<DiskId, Option<DiskSlot>>,
    draining: Vec<DiskSlot>,
    deadlines: Deadlines,
}

impl Disks {
    pub(crate) fn new() -> Self {
        let empty = std::iter::repeat_with(|| None);
        Self {
            table: empty.take(DiskSlot::COUNT).collect(),
            slots: Map::default(),
            draining: Vec::new(),
            deadlines: Deadlines::default(),
        }
    }

    pub(crate) fn get(&self, slot: DiskSlot) -> Option<&Disk> {
        self.table[slot.index()].as_deref()
    }

    pub(crate) fn get_mut(&mut self, slot: DiskSlot) -> Option<&mut Disk> {
        self.table[slot.index()].as_deref_mut()
    }

    /// Who a disk is.
    pub(crate) fn id_of(&self, slot: DiskSlot) -> Option<DiskId> {
        self.get(slot).map(Disk::id)
    }

    /// What people call a disk.
    pub(crate) fn name_of(&self, slot: DiskSlot) -> Option<&str> {
        self.get(slot).map(Disk::name)
    }

    /// The disks, by slot.
    pub(crate) fn all(&self) -> impl Iterator<Item = (DiskSlot, &Disk)> {
        let all = self.table.iter().enumerate();
        all.filter_map(|(index, disk)| Some((slot(index), disk.as_deref()?)))
    }

    /// The same, to change them.
    pub(crate) fn all_mut(&mut self) -> impl Iterator<Item = &mut Disk> {
        self.table.iter_mut().flatten().map(|disk| &mut **disk)
    }

    /// The slot of a disk that takes commands and clients: one that is attached as another host's does not.
    pub(crate) fn serving(&self, disk: DiskId) -> Result<DiskSlot, ShardError> {
        let slot = self.slot_of(disk).ok_or(ShardError::NoSuchDisk)?;
        match self.get(slot) {
            Some(disk) if disk.tenure() == Tenure::Standby => Err(ShardError::NoSuchDisk),
            Some(disk) if disk.is_serving() => Ok(slot),
            Some(_) | None => Err(ShardError::Detaching),
        }
    }

    /// Tells a tap from now on what guests ask of a disk, or nobody.
    pub(crate) fn tap(&mut self, disk: DiskId, tap: Option<Tap>) -> Result<(), ShardError> {
        let slot = self.serving(disk)?;
        self.get_mut(slot).expect("it is serving").set_tap(tap);
        Ok(())
    }

    /// The slot of a disk that is attached as another host's.
    pub(crate) fn others(&self, disk: DiskId) -> Option<DiskSlot> {
        let slot = self.slot_of(disk)?;
        let known = self.get(slot)?;
        (known.tenure() == Tenure::Standby).then_some(slot)
    }

    /// The slot of a disk that is attached.
    pub(crate) fn slot_of(&self, disk: DiskId) -> Option<DiskSlot> {
        self.slots.get(&disk).copied().flatten()
    }

    /// The disk of clients at this place, if it roams.
    pub(crate) fn roaming_at(&self, place: Place) -> Option<DiskId> {
        match place {
            Place::Standby(disk) => Some(disk),
            Place::Slot(slot) => {
                let disk = self.get(slot)?;
                disk.roams().then(|| disk.id())
            }
        }
    }

    /// Whether a disk is attached or about to be.
    pub(crate) fn has(&self, disk: DiskId) -> bool {
        self.slots.contains_key(&disk)
    }

    /// Whether there is none, and none is about to be.
    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// A disk is about to be attached.
    pub(crate) fn expect(&mut self, disk: DiskId) {
        self.slots.insert(disk, None);
    }

    /// A disk is attached.
    ///
    /// # Panics
    /// If the slot has one already.
    pub(crate) fn insert(&mut self, slot: DiskSlot, disk: Box<Disk>) {
        self.slots.insert(disk.id(), Some(slot));
        let place = &mut self.table[slot.index()];
        assert!(place.is_none(), "a slot has one disk");
        *place = Some(disk);
    }

    /// A disk was not attached after all.
    pub(crate) fn forget(&mut self, disk: DiskId) {
        self.slots.remove(&disk);
    }

    /// A disk is gone.
    pub(crate) fn remove(&mut self, slot: DiskSlot) -> Option<Box<Disk>> {
        let disk = self.table[slot.index()].take()?;
        self.slots.remove(&disk.id());
        self.deadlines.clear(slot);
        Some(disk)
    }

    /// A disk is waited for until it can be detached.
    pub(crate) fn wait_for(&mut self, slot: DiskSlot) {
        self.draining.push(slot);
    }

    /// Whether any disk is waited for.
    pub(crate) fn are_draining(&self) -> bool {
        !self.draining.is_empty()
    }

    /// Those that are waited for; who is not ready is [waited for](Disks::wait_for) again.
    pub(crate) fn take_draining(&mut self) -> Vec<DiskSlot> {
        std::mem::take(&mut self.draining)
    }

    /// When the next client of a draining disk has had all the time it gets, or a disk has waited long
    /// enough for late writes. One whose time has passed is looked at when its origin answers.
    pub(crate) fn next_end_of_draining(&self, clients: &Clients, now: Instant) -> Option<Instant> {
        if !self.are_draining() {
            return None;
        }
        let draining = self.draining.iter();
        let lates = draining.filter_map(|slot| self.get(*slot)?.late_until());
        let lates = lates.filter(|late| *late > now);
        lates.chain(clients.next_farewell(now)).min()
    }

    /// Asks a disk's origin; the operation ends at once if there is no such disk: a disk leaves only when nothing of it is
    /// in flight, so nobody waits for it.
    pub(crate) fn submit(&mut self, op: OriginOp, now: Instant) -> Result<(), OriginDone> {
        let slot = op.disk;
        let Some(disk) = self.table[slot.index()].as_deref_mut() else {
            return Err(OriginDone {
                token: op.token,
                buf: op.verb.into_buf(),
                result: Err(IoError::ShuttingDown),
                volatile: false,
                passes: false,
            });
        };
        let origin = disk.origin_mut();
        origin.submit(op, now);
        self.deadlines.set(slot, origin.next_deadline());
        Ok(())
    }

    /// Takes in what a disk's origin has done.
    pub(crate) fn poll(
        &mut self,
        slot: DiskSlot,
        now: Instant,
        done: &mut Vec<OriginDone>,
    ) -> Option<&mut Disk> {
        let disk = self.table[slot.index()].as_deref_mut()?;
        disk.origin_mut().poll(now, done);
        self.deadlines.set(slot, disk.origin().next_deadline());
        Some(disk)
    }

    /// When the first origin wants to be polled.
    pub(crate) fn first_deadline(&self) -> Option<Instant> {
        self.deadlines.first()
    }

    /// The disks whose origins want to be polled now, each once: one that is still overdue after its
    /// poll must not be polled for ever.
    pub(crate) fn take_due(&mut self, now: Instant) -> Vec<DiskSlot> {
        let mut due = Vec::new();
        while let Some(slot) = self.deadlines.due(now) {
            self.deadlines.clear(slot);
            due.push(slot);
        }
        due
    }
}

/// The slot with this index.
fn slot(index: usize) -> DiskSlot {
    DiskSlot::new(u16::try_from(index).expect("slots are few"))
}
