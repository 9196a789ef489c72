//! Where a disk stands with the cache of one life, and what is known of it no longer than that.

use crate::checker::{Moment, SECTOR, Tag, tag_of};
use crate::violation::Violation;
use block_io::Token;
use cache::OwnerRecord;
use std::collections::{BTreeMap, VecDeque};
use std::num::NonZeroU64;
use units::{DiskSlot, Instant, Offset, TenantSlot};

/// Where a disk stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Not attached.
    #[default]
    Away,
    /// The command is under way.
    Attaching,
    /// Served under this slot.
    Served(DiskSlot),
    /// The command is under way.
    Detaching(DiskSlot),
}

/// An owner's record on its way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordOnItsWay {
    /// What the cache knows it by.
    pub token: Token,
    /// What is to be recorded.
    pub record: OwnerRecord,
    /// When the cache is told.
    pub until: Instant,
    /// What it is told then.
    pub recorded: bool,
}

/// See the module's header.
#[derive(Debug, Default)]
pub(crate) struct Attachment {
    standing: Standing,
    /// The key that it comes with.
    key_coming: Option<NonZeroU64>,
    /// A detach that throws away what waits is under way.
    is_dropping: bool,
    /// Not attached again in this life.
    is_given_up: bool,
    /// VMs that have joined it, each as often as it did; only of shared disks.
    readers: Vec<TenantSlot>,
    /// Owner's records on their way.
    records: VecDeque<RecordOnItsWay>,
    /// Flushes that its origin has not ended, and when they were asked for.
    flushes: BTreeMap<Token, Moment>,
    /// Since then its guest has not been told that a flush has lost writes.
    untold_loss: Option<Moment>,
    /// What the audit after a start has read of each sector.
    found: Vec<Vec<Option<Tag>>>,
}

impl Attachment {
    /// Where it stands.
    pub(crate) fn standing(&self) -> Standing {
        self.standing
    }

    /// Whether it is not attached.
    pub(crate) fn is_away(&self) -> bool {
        self.standing == Standing::Away
    }

    /// The slot under which requests reach it.
    pub(crate) fn served_as(&self) -> Option<DiskSlot> {
        match self.standing {
            Standing::Served(slot) => Some(slot),
            Standing::Away | Standing::Attaching | Standing::Detaching(_) => None,
        }
    }

    /// The slot under which the cache's operations come.
    pub(crate) fn slot(&self) -> Option<DiskSlot> {
        match self.standing {
            Standing::Served(slot) | Standing::Detaching(slot) => Some(slot),
            Standing::Away | Standing::Attaching => None,
        }
    }

    // Commands.

    /// An attach is under way, with this key.
    pub(crate) fn attach(&mut self, key: Option<NonZeroU64>) {
        self.standing = Standing::Attaching;
        self.key_coming = key;
        self.is_dropping = false;
    }

    /// The key that it comes with.
    pub(crate) fn key_coming(&self) -> Option<NonZeroU64> {
        self.key_coming
    }

    /// It is served under this slot.
    pub(crate) fn attached(&mut self, slot: DiskSlot) {
        self.standing = Standing::Served(slot);
        self.readers.clear();
    }

    /// A detach is under way, which throws away what waits if it `drops`.
    pub(crate) fn detach(&mut self, slot: DiskSlot, drops: bool) {
        self.standing = Standing::Detaching(slot);
        self.is_dropping = drops;
    }

    /// The detach was refused.
    pub(crate) fn stay(&mut self, slot: DiskSlot) {
        self.standing = Standing::Served(slot);
        self.is_dropping = false;
    }

    /// It is not attached: the detach has ended, or the attach was refused.
    pub(crate) fn set_away(&mut self) {
        self.standing = Standing::Away;
    }

    /// Whether a detach that throws away what waits is under way.
    pub(crate) fn is_dropping(&self) -> bool {
        self.is_dropping
    }

    /// What waited is thrown away.
    pub(crate) fn dropped(&mut self) {
        self.is_dropping = false;
    }

    /// Whether it is not attached again in this life.
    pub(crate) fn is_given_up(&self) -> bool {
        self.is_given_up
    }

    /// It is not attached again in this life.
    pub(crate) fn give_up(&mut self) {
        self.is_given_up = true;
    }

    // VMs that read a base image.

    /// Who has joined it.
    pub(crate) fn readers(&self) -> &[TenantSlot] {
        &self.readers
    }

    /// A VM joins.
    pub(crate) fn add_reader(&mut self, vm: TenantSlot) {
        self.readers.push(vm);
    }

    /// The VM that has joined last leaves.
    pub(crate) fn take_reader(&mut self) -> Option<TenantSlot> {
        self.readers.pop()
    }

    // The owner's record.

    /// A record is on its way.
    pub(crate) fn record_asked(&mut self, record: RecordOnItsWay) {
        self.records.push_back(record);
    }

    /// When the first record on its way has come.
    pub(crate) fn next_record(&self) -> Option<Instant> {
        self.records.front().map(|record| record.until)
    }

    /// The first record on its way has come.
    pub(crate) fn take_record(&mut self) -> Option<RecordOnItsWay> {
        self.records.pop_front()
    }

    // Flushes of the origin.

    /// A flush was asked for.
    pub(crate) fn flush_asked(&mut self, token: Token, now: Moment) {
        self.flushes.insert(token, now);
    }

    /// An operation has ended: when it was asked for, if it is a flush.
    pub(crate) fn flush_ended(&mut self, token: Token) -> Option<Moment> {
        self.flushes.remove(&token)
    }

    /// A flush has lost writes: the guest is to be told.
    pub(crate) fn lose_writes(&mut self, now: Moment) {
        self.untold_loss.get_or_insert(now);
    }

    /// A flush of the guest has failed, or it has none to come.
    pub(crate) fn tell_of_loss(&mut self) {
        self.untold_loss = None;
    }

    /// A flush of the guest that was asked for at `issued` has been acknowledged.
    ///
    /// # Errors
    /// I2 if the guest had to be told that writes were lost.
    pub(crate) fn judge_flush(&self, issued: Moment) -> Result<(), Violation> {
        match self.untold_loss {
            Some(lost) if lost < issued => Err(Violation::new(
                "I2",
                format!(
                    "a flush since event {issued} was acknowledged, and nobody was told that one has lost \
                     writes at event {lost}"
                ),
            )),
            _ => Ok(()),
        }
    }

    // The audit after a start.

    /// Nothing is known of any of so many sectors.
    pub(crate) fn begin_audit(&mut self, sectors: usize) {
        self.found = vec![Vec::new(); sectors];
    }

    /// The audit has read these bytes.
    pub(crate) fn note(&mut self, offset: Offset, bytes: &[u8]) {
        let first = offset.to_usize() / SECTOR;
        for (number, content) in (first..).zip(bytes.chunks_exact(SECTOR)) {
            self.found[number] = vec![tag_of(content)];
        }
    }

    /// What the audit has read of each sector.
    pub(crate) fn found(&self) -> &[Vec<Option<Tag>>] {
        &self.found
    }
}
