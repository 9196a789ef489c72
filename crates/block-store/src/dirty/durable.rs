//! How far a dirty log would survive a power cut, and what is done about it when a flush waits.
//!
//! ```text
//!   flush waits ─┬─ its records are in the open chunk ─► seal it: a durable write
//!                └─ in chunks that were written plainly, since they were full ─► flush the flash
//! ```
//!
//! At most [`DURABLE_WRITES_MAX`](crate::limits::DURABLE_WRITES_MAX) durable writes of a log are on their way; meanwhile the next chunk
//! gathers, and all flushes whose records are in it share it. A segment's chunks count as durable
//! only when it is durable, too, that the segment belongs to the log.
//!
//! Each chunk says how far the log was durable before it; of the last ones nobody says so, and when the
//! medium loses one, or it rots, it would look like a write that a power cut has torn. So the disk's
//! entry says how far the log is durable, and the journal with its next commit, or after
//! [`LOGGED_AFTER`]: until then a flush has been answered of which that loss would not be noticed.

use super::{LogTables, Logs};
use crate::disks::DiskTable;
use crate::effects::Errand;
use crate::guard::{Guard, holds};
use crate::journal::Journal;
use crate::limits::LOGGED_AFTER;
use crate::ports::{Payload, Ports, Tag};
use dirty_log::RecordNumber;
use flash_format::JournalEntry;
use units::DiskSlot;

/// Whether the open chunk of a log is to be sealed now.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seal {
    /// It is.
    Now,
    /// It is not, or there is none.
    No,
}

impl Logs {
    /// A guest flushes: ends the interval. Returns the number before which everything has to be
    /// durable before the flush is answered.
    pub(crate) fn flush<T: Tag>(
        &mut self,
        ports: &mut Ports<T>,
        tables: &mut LogTables<'_, T::Payload>,
        disk: DiskSlot,
    ) -> (RecordNumber, Seal) {
        let Some(dirty) = self.by_disk.get_mut(disk) else {
            return (RecordNumber::FIRST, Seal::No);
        };
        let end = dirty.flush();
        (end, self.push_durability(ports, tables, disk))
    }

    /// What is to go to the origin has to be durable here: records before this number, but for those
    /// of the open chunk unless there is a hurry.
    pub(crate) fn want_durable<T: Tag>(
        &mut self,
        ports: &mut Ports<T>,
        tables: &mut LogTables<'_, T::Payload>,
        disk: DiskSlot,
        to: RecordNumber,
        hurries: bool,
    ) -> Seal {
        let Some(dirty) = self.by_disk.get_mut(disk) else {
            return Seal::No;
        };
        let chunks = dirty.chunks_mut();
        if hurries && chunks.needs_flush(to) {
            return self.flush(ports, tables, disk).1;
        }
        if chunks.want_sealed(to) {
            return self.push_durability(ports, tables, disk);
        }
        Seal::No
    }

    /// Does what can be done now so that what is wanted becomes durable.
    pub(crate) fn push_durability<T: Tag>(
        &mut self,
        ports: &mut Ports<T>,
        tables: &mut LogTables<'_, T::Payload>,
        disk: DiskSlot,
    ) -> Seal {
        if let Some(dirty) = self.by_disk.get_mut(disk) {
            dirty.count_durable(tables.journal.durable());
        }
        self.note_durable(ports, tables.disks, disk);
        let Some(dirty) = self.by_disk.get_mut(disk) else {
            return Seal::No;
        };
        let chunks = dirty.chunks_mut();
        if !chunks.wants_durability() {
            return Seal::No;
        }
        if chunks.starts_flush() {
            ports.wake_at(ports.now() + self.flash_timeout);
            T::Payload::flush(ports, Errand::LogFlush(disk));
        }
        if chunks.is_to_be_sealed() {
            Seal::Now
        } else {
            Seal::No
        }
    }

    /// The disk's entry says how far its log is durable, and the journal will.
    fn note_durable<T: Tag>(
        &mut self,
        ports: &mut Ports<T>,
        disks: &mut DiskTable,
        disk: DiskSlot,
    ) {
        let Some(dirty) = self.by_disk.get_mut(disk) else {
            return;
        };
        let at = dirty.chunks_mut().durable_at();
        if !holds(Guard::DurableIsNamed) || !disks.logged(disk, at) {
            return;
        }
        if self.unnamed.iter().all(|(_, unnamed)| *unnamed != disk) {
            self.unnamed.push_back((ports.now(), disk));
            ports.wake_at(ports.now() + LOGGED_AFTER);
        }
    }

    /// Queues the entries that say how far logs are durable: with a commit that is made anyway, or
    /// when they have waited long enough.
    #[inline]
    pub(crate) fn name_durable<T: Tag>(
        &mut self,
        ports: &Ports<T>,
        journal: &mut Journal,
        disks: &DiskTable,
    ) {
        let Some((since, _)) = self.unnamed.front() else {
            return;
        };
        let due = ports.now() >= *since + LOGGED_AFTER;
        if !(due || journal.goes(ports.now())) {
            return;
        }
        for (_, disk) in std::mem::take(&mut self.unnamed) {
            if let Some(entry) = disks.get(disk) {
                let to = entry.logged;
                let entry = JournalEntry::Logged { disk, to };
                journal.push(entry, to.generation, ports.now());
            }
        }
        if due {
            journal.hurry();
        }
    }

    /// The store stops: its last checkpoint says how far logs are durable.
    pub(crate) fn stop(&mut self) {
        self.unnamed.clear();
    }

    /// A flush of the flash has ended that a log asked for.
    pub(crate) fn flush_done<T: Tag>(
        &mut self,
        ports: &mut Ports<T>,
        tables: &mut LogTables<'_, T::Payload>,
        disk: DiskSlot,
    ) -> Seal {
        if let Some(dirty) = self.by_disk.get_mut(disk) {
            dirty.chunks_mut().flushed();
        }
        self.push_durability(ports, tables, disk)
    }
}
