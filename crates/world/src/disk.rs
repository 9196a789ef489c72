//! A disk of the world: its origin, its history, and where it stands with the cache.

use crate::back::Back;
use crate::checker::{History, Moment, SECTOR, Tag, fill_sector, tag_of};
use crate::owner::Owning;
use crate::settings::DiskSettings;
use crate::storage::{Latency, Storage};
use crate::violation::Violation;
use block_io::Token;
use cache::{ControlId, OwnerRecord};
use std::collections::{BTreeMap, VecDeque};
use std::num::NonZeroU64;
use units::{Bytes, DiskId, DiskSlot, Instant, Prng, SECTOR_BYTES, TenantSlot};

/// Where a disk stands with the cache of this life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Not attached.
    Away,
    /// The command is under way.
    Attaching(ControlId),
    /// Served under this slot.
    Served(DiskSlot),
    /// The command is under way.
    Detaching(ControlId, DiskSlot),
}

/// A disk.
pub(crate) struct Disk {
    /// Its identity.
    pub id: DiskId,
    /// What the seed says about it.
    pub settings: DiskSettings,
    /// Its origin.
    pub origin: Storage,
    /// What its sectors have held.
    pub history: History,
    /// Where it stands.
    pub standing: Standing,
    /// VMs that have joined it, each as often as it did; only of shared disks.
    pub readers: Vec<TenantSlot>,
    /// Who has it, as recorded with the origin.
    pub owner: Option<OwnerRecord>,
    /// Records that are on their way there.
    pub owning: VecDeque<Owning>,
    /// The cache that had it last, if it has no record that says so.
    pub home: Option<u128>,
    /// What is known of its write-back.
    pub back: Back,
    /// Its origin fails until then.
    pub gone_until: Option<Instant>,
    /// The key that its blocks are encrypted by on flash; none if they are not.
    pub key: Option<NonZeroU64>,
    /// The key that it comes with.
    pub key_coming: Option<NonZeroU64>,
    /// Changes with every write to the origin.
    pub version: u128,
    /// It was detached cleanly with a fingerprint, so a stranger's writes will be noticed.
    pub may_be_written_by_strangers: bool,
    /// Flushes that its origin has not ended, and when they were asked for.
    pub(crate) origin_flushes: BTreeMap<Token, Moment>,
    /// Since then its guest has not been told that a flush has lost writes.
    pub(crate) untold_loss: Option<Moment>,
    /// It was attached with its present size.
    pub(crate) size_is_known: bool,
    sectors_most: u64,
}

impl Disk {
    /// A disk whose sectors hold the values from `first_tag` on.
    pub(crate) fn new(
        number: u64,
        first_tag: Tag,
        settings: DiskSettings,
        latency: Latency,
        dice: &mut Prng,
    ) -> Self {
        let size = Bytes::new(settings.sectors * SECTOR_BYTES);
        let sectors = usize::try_from(settings.sectors).expect("disks are small");
        let mut disk = Self {
            id: DiskId::from_u128(0xd15c_0000 + u128::from(number)),
            settings,
            origin: Storage::new(size, Bytes::new(SECTOR_BYTES), size, latency, dice),
            history: History::new(sectors),
            standing: Standing::Away,
            owner: None,
            owning: VecDeque::new(),
            home: None,
            back: Back::default(),
            gone_until: None,
            readers: Vec::new(),
            key: None,
            key_coming: None,
            version: 1,
            may_be_written_by_strangers: false,
            origin_flushes: BTreeMap::new(),
            untold_loss: None,
            sectors_most: settings.sectors,
            size_is_known: false,
        };
        for sector in 0..settings.sectors {
            disk.replace_sector(sector, first_tag + sector, 0);
        }
        disk
    }

    /// The size that it had at first, above which it does not grow.
    pub(crate) fn sectors_most(&self) -> u64 {
        self.sectors_most
    }

    /// The same, to count with.
    pub(crate) fn sectors_most_usize(&self) -> usize {
        usize::try_from(self.sectors_most).expect("disks are small")
    }

    /// A record has been made.
    pub(crate) fn recorded(&mut self, record: OwnerRecord, now: Moment) {
        if record.open && !self.is_open() {
            self.back.since = now;
        }
        if !record.open && self.is_open() && !self.back.dropping {
            // It may say so only then. What went through before is durable when it is flushed.
            self.history.durable_between(self.back.since, now);
        }
        self.owner = Some(record);
    }

    /// A guest's flush that was asked for at `issued` has been acknowledged.
    pub(crate) fn flush_acknowledged(
        &mut self,
        issued: Moment,
        now: Moment,
    ) -> Result<(), Violation> {
        if let Some(lost) = self.untold_loss.filter(|lost| *lost < issued) {
            let what = format!(
                "a flush since event {issued} was acknowledged, and nobody was told that one has lost \
                 writes at event {lost}"
            );
            return Err(Violation::new("I2", what));
        }
        self.history.flushed(issued, now);
        Ok(())
    }

    /// Its size.
    pub(crate) fn size(&self) -> Bytes {
        Bytes::new(self.settings.sectors * SECTOR_BYTES)
    }

    /// The slot under which requests reach it.
    pub(crate) fn served_as(&self) -> Option<DiskSlot> {
        match self.standing {
            Standing::Served(slot) => Some(slot),
            Standing::Away | Standing::Attaching(_) | Standing::Detaching(..) => None,
        }
    }

    /// The slot under which the cache's operations come.
    pub(crate) fn slot(&self) -> Option<DiskSlot> {
        match self.standing {
            Standing::Served(slot) | Standing::Detaching(_, slot) => Some(slot),
            Standing::Away | Standing::Attaching(_) => None,
        }
    }

    /// What tells whether somebody else wrote it.
    pub(crate) fn fingerprint(&self) -> Option<u128> {
        self.settings.fingerprint.then_some(self.version)
    }

    /// Somebody writes a sector directly at the origin, durably.
    pub(crate) fn replace_sector(&mut self, sector: u64, tag: Tag, now: u64) {
        let mut bytes = [0; SECTOR];
        fill_sector(&mut bytes, tag);
        self.origin.settle_late();
        self.origin.poke(Bytes::new(sector * SECTOR_BYTES), &bytes);
        let number = usize::try_from(sector).expect("disks are small");
        self.history.replaced(number, tag, now);
        self.version += 1;
    }

    /// What a guest reads must be what the origin has.
    pub(crate) fn compare_with_origin(&self, offset: Bytes, bytes: &[u8]) -> Result<(), Violation> {
        let mut origin = vec![0; bytes.len()];
        self.origin.peek(offset, &mut origin);
        let pairs = || bytes.chunks(SECTOR).zip(origin.chunks(SECTOR));
        let Some(at) = pairs().position(|(ours, theirs)| ours != theirs) else {
            return Ok(());
        };
        let sector = offset.get() / SECTOR_BYTES + at as u64;
        let (read, there) = pairs()
            .nth(at)
            .map(|(ours, theirs)| (tag_of(ours), tag_of(theirs)))
            .expect("one that differs");
        Err(Violation::new(
            "I3",
            format!(
                "sector {sector} (block {}) reads as {read:?}, the origin has {there:?}",
                sector / 8
            ),
        ))
    }
}
