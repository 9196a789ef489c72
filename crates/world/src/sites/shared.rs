//! What two hosts share: the disk at its origin, the register of who has it, and the origin's lock.
//!
//! No operation of an ended period may change a byte: what a host that the register does not name makes of the
//! origin is compared with what was there before.

use super::guard::{Guard, holds};
use crate::disk::Disk;
use crate::run::Run;
use crate::storage::Handle;
use crate::violation::Violation;
use block_io::{OriginDone, OriginVerb, Token};
use cache::{OwnerRecord, WriteBack};
use handoff::Kept;
use units::{Instant, Offset};

/// Which host has the disk, and since which period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Holder {
    pub(super) host: usize,
    pub(super) epoch: u64,
}

/// The origin, as a host has it open.
pub(super) struct Opened {
    handle: Handle,
    holder: Holder,
}

/// A write of the register that outlives the process that asked for it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Straggler {
    Owner {
        record: OwnerRecord,
    },
    Holder {
        from: usize,
        epoch: u64,
        kept: Option<Kept>,
    },
}

/// See the module's header.
pub(super) struct Shared {
    disk: Disk,
    holder: Holder,
    lock: Option<usize>,
    stragglers: Vec<(Instant, Straggler)>,
}

impl Shared {
    pub(super) fn new(disk: Disk) -> Self {
        Self {
            disk,
            holder: Holder { host: 0, epoch: 1 },
            lock: None,
            stragglers: Vec::new(),
        }
    }

    pub(super) fn disk(&self) -> &Disk {
        &self.disk
    }

    pub(super) fn disk_mut(&mut self) -> &mut Disk {
        &mut self.disk
    }

    pub(super) fn holder(&self) -> Holder {
        self.holder
    }

    // The lock and the register.

    /// Takes the lock, unless the other host has it.
    pub(super) fn lock(&mut self, host: usize) -> bool {
        let may = self.lock.is_none_or(|by| by == host);
        if may {
            self.lock = Some(host);
        }
        may
    }

    pub(super) fn unlock(&mut self, host: usize) {
        self.lock = self.lock.filter(|by| *by != host);
    }

    /// A host that the register names has it in a later period.
    pub(super) fn raise(&mut self, host: usize, epoch: u64) -> bool {
        let is_ours = self.holder.host == host && self.holder.epoch <= epoch;
        if is_ours {
            self.holder.epoch = epoch;
        }
        is_ours
    }

    /// `from` names the other host in the register, and who has what the origin lacks. True if that is named, or the register has gone on.
    ///
    /// # Errors
    /// I5 if a change that was given up may land yet, or the register falls.
    pub(super) fn hand_over(
        &mut self,
        from: usize,
        (epoch, kept): (u64, Option<Kept>),
        run: &mut Run,
    ) -> Result<bool, Violation> {
        let next = Holder {
            host: 1 - from,
            epoch,
        };
        let is_before = self.holder.host == from && self.holder.epoch + 1 == epoch;
        if !is_before && holds(Guard::RecordOnlyRises) {
            return Ok(true);
        }
        if !self.lock(from) {
            return Ok(false);
        }
        if next != self.holder && next.epoch <= self.holder.epoch {
            let what = format!("the register goes from {:?} to {next:?}", self.holder);
            return Err(Violation::new("I5", what));
        }
        run.event(&[50, epoch], || format!("register {next:?}"));
        self.disk.judge_origin_alone()?;
        if let (Some(kept), true) = (kept, next != self.holder) {
            self.names(kept, run.current_moment())?;
        }
        self.holder = next;
        Ok(true)
    }

    /// The owner's record names the cache that has what the origin lacks.
    fn names(&mut self, Kept { cache, period }: Kept, now: u64) -> Result<(), Violation> {
        let record = OwnerRecord {
            epoch: period,
            cache,
            open: true,
        };
        let there = self.disk.owner().filter(|there| there.epoch >= period);
        if let Some(there) = there.filter(|there| *there != record) {
            let what = format!("the owner's record goes from {there:?} to {record:?}");
            return Err(Violation::new("I5", what));
        }
        self.disk.recorded(record, false, now);
        Ok(())
    }

    /// An owner's record has come to be written.
    ///
    /// # Errors
    /// I5 if it replaces a later one.
    pub(super) fn record(&mut self, record: OwnerRecord, now: u64) -> Result<bool, Violation> {
        if let Some(there) = self.disk.owner() {
            let is_same = there.epoch == record.epoch && there.cache == record.cache;
            if record.epoch <= there.epoch && !is_same {
                if holds(Guard::RecordOnlyRises) {
                    return Ok(false);
                }
                let what = format!("the owner's record goes from {there:?} to {record:?}");
                return Err(Violation::new("I5", what));
            }
        }
        self.disk.recorded(record, false, now);
        Ok(true)
    }

    /// A write of the register goes on without the process that asked for it.
    pub(super) fn straggle(&mut self, straggler: Straggler, run: &mut Run) {
        let wait = [1_000, 100_000, 3_000_000][run.index(3)];
        let at = run.now() + units::Duration::from_micros(1 + run.below(wait));
        self.stragglers.push((at, straggler));
        self.stragglers.sort_by_key(|(at, _)| *at);
    }

    /// When the next of these comes.
    pub(super) fn next_straggler(&self) -> Option<Instant> {
        self.stragglers.first().map(|(at, _)| *at)
    }

    /// It comes.
    pub(super) fn straggler_comes(&mut self, run: &mut Run) -> Result<(), Violation> {
        let (_, straggler) = self.stragglers.remove(0);
        run.hit("record came late");
        run.event(&[51], || format!("late: {straggler:?}"));
        match straggler {
            Straggler::Owner { record } => {
                let now = run.current_moment();
                self.record(record, now)?;
            }
            Straggler::Holder { from, epoch, kept } => {
                let lock = self.lock;
                self.lock = None;
                let handed = self.hand_over(from, (epoch, kept), run);
                self.lock = lock;
                handed?;
            }
        }
        Ok(())
    }

    /// A host that has it takes the disk, under write-back or not.
    pub(super) fn is_taken(&mut self, is_back: bool, now: u64) {
        let was_open = self.disk.is_open();
        let write_back = self.disk.write_back_mut();
        write_back.attached(WriteBack::default(), was_open, is_back, now);
    }

    // The origin.

    pub(super) fn open(&mut self, holder: Holder) -> Opened {
        self.disk.origin_mut().session_begins();
        let handle = self.disk.origin().open(holder.host);
        Opened { handle, holder }
    }

    pub(super) fn submit(
        &mut self,
        opened: &mut Opened,
        token: Token,
        verb: OriginVerb,
        now: Instant,
    ) {
        let origin = self.disk.origin_mut();
        origin.submit(&mut opened.handle, token, verb, now);
    }

    /// What has ended of a host's operations.
    ///
    /// # Errors
    /// I5 if one of an ended period has changed a byte.
    pub(super) fn poll(
        &mut self,
        opened: &mut Opened,
        now: Instant,
    ) -> Result<Vec<OriginDone>, Violation> {
        let of = opened.holder;
        let done = self.guarded(of, |shared| {
            shared.disk.origin_mut().poll(&mut opened.handle, now)
        })?;
        match self.disk.origin_mut().take_strange() {
            0 => Ok(done),
            count => {
                let what = format!(
                    "{count} sectors that host {} had given up landed under {of:?}",
                    1 - of.host
                );
                Err(Violation::new("I5", what))
            }
        }
    }

    pub(super) fn next_deadline(&self, opened: &Opened) -> Option<Instant> {
        self.disk.origin().next_deadline(&opened.handle)
    }

    /// A host closes it, or has died.
    ///
    /// # Errors
    /// As for [`Shared::poll`].
    pub(super) fn close(&mut self, opened: Opened, run: &mut Run) -> Result<(), Violation> {
        self.guarded(opened.holder, |shared| {
            shared.disk.origin_mut().end(opened.handle, false, run);
        })
    }

    /// Whether nothing that was given up can land any more.
    pub(super) fn is_settled(&self) -> bool {
        let end = Offset::after(self.disk.size());
        self.disk.origin().settled(end) == [Offset::ZERO..end]
    }

    fn guarded<T>(
        &mut self,
        of: Holder,
        change: impl FnOnce(&mut Self) -> T,
    ) -> Result<T, Violation> {
        if of == self.holder {
            return Ok(change(self));
        }
        let before = self.bytes();
        let result = change(self);
        if self.bytes() != before {
            let what = format!(
                "{of:?} has changed the origin, which is of {:?}",
                self.holder
            );
            return Err(Violation::new("I5", what));
        }
        Ok(result)
    }

    /// What the origin reads as.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.disk.size().to_usize()];
        self.disk.origin().peek(Offset::ZERO, &mut bytes);
        bytes
    }
}
