//! Records of a disk's dirty log, read for the host that is about to get the disk.
//!
//! ```text
//!   number ─► records that follow ─► their bytes, in memory or from flash ─► verified ─► a shipment
//! ```
//!
//! Invariants:
//! - A shipment has every record from its first one on, in their order, with the marks where an interval begins.
//! - Nothing is shipped that was not verified.
//! - Only who has the disk ships, and only a log that goes to the origin in its order.

use crate::api::{Effect, Tenure};
use crate::disks::Disks;
use crate::flash_use::FlashUse;
use crate::guard::{Guard, holds};
use crate::limits::{RUN_BLOCKS_MAX, SHIPMENT_RECORDS_MAX};
use crate::loan::{Borrowed, LoanId, NotLent};
use crate::ports::Ports;
use crate::purpose::{LoanRead, ReadPurpose, RecordRead};
use crate::shipment::{Shipment, Shipped, ShippedWhat};
use block_io::{Buf, IoError, PAGE_BYTES, Payload, Slice};
use block_store::{Damage, Location, Store};
use dirty_log::{DirtyLog, RecordNumber, What};
use slab::Slab;
use units::{BLOCK_BYTES, BlockIndex, DiskId, DiskSlot, FlashSlot};

/// A block of a shipment that is read from flash.
#[derive(Clone, Copy, Debug)]
struct Missing {
    /// Which record of the shipment it is.
    at: usize,
    block: BlockIndex,
    slot: FlashSlot,
}

/// A shipment that is gathered.
struct Gathering {
    id: LoanId,
    disk: DiskSlot,
    /// What it will be, without its records.
    shipment: Shipment,
    records: Vec<Gathered>,
    /// Blocks that come from flash, in the order of their records.
    missing: Vec<Missing>,
    reads: usize,
}

/// A record of it.
struct Gathered {
    begins_interval: bool,
    /// Not while it is read, nor if it could not be.
    what: Option<ShippedWhat>,
}

/// Shipments that are gathered.
#[derive(Default)]
pub(crate) struct RecordLoans(Slab<Gathering>);

/// What sees a cache for shipments.
pub(crate) struct Shipping<'a> {
    loans: &'a mut RecordLoans,
    flash: &'a mut FlashUse,
    disks: &'a Disks,
    ports: &'a mut Ports,
}

impl<'a> Shipping<'a> {
    pub(crate) fn new(
        loans: &'a mut RecordLoans,
        flash: &'a mut FlashUse,
        disks: &'a Disks,
        ports: &'a mut Ports,
    ) -> Self {
        Self {
            loans,
            flash,
            disks,
            ports,
        }
    }

    /// Another host asks for records from this number on.
    pub(crate) fn ship(&mut self, id: LoanId, disk: DiskId, from: u64) {
        let Some(gathering) = self.gather(id, disk, from) else {
            let result = Err(NotLent);
            return self.ports.push(Effect::Lent { loan: id, result });
        };
        let key = self.loans.0.insert(gathering);
        self.read_missing(key);
        self.end_if_whole(key);
    }

    fn gather(&mut self, id: LoanId, disk: DiskId, from: u64) -> Option<Gathering> {
        let flash = self.flash.as_ref()?;
        let slot = flash.facts().slot_of(disk)?;
        let attached = self.disks.get(slot)?;
        let dirty = flash.dirty_logs().get(slot)?;
        let log = dirty.log();
        let is_ours = attached.tenure != Tenure::Standby;
        let is_whole = dirty.locked().is_none() && log.holes_end() <= log.base();
        let first = number(from).max(log.base());
        if !is_ours || !is_whole || first > log.end() {
            return None;
        }
        let to = first.advance(SHIPMENT_RECORDS_MAX).min(log.end());
        let mut gathering = Gathering {
            id,
            disk: slot,
            shipment: shipment_of(log, first, attached.epoch),
            records: Vec::new(),
            missing: Vec::new(),
            reads: 0,
        };
        for (number, record) in log.records(first, to) {
            let what = match record.what {
                What::Erasure(erasure) => Some(ShippedWhat::Erased(erasure)),
                What::Data { block, slot: lies } => {
                    if let Location::Memory(bytes) = flash.bytes_of(&self.ports.store, lies) {
                        Some(block_of(block, bytes))
                    } else {
                        gathering.missing.push(Missing {
                            at: gathering.records.len(),
                            block,
                            slot: lies,
                        });
                        None
                    }
                }
            };
            gathering.records.push(Gathered {
                begins_interval: log.begins_at(number),
                what,
            });
        }
        Some(gathering)
    }

    /// Reads what lies on flash, what lies behind each other together.
    fn read_missing(&mut self, key: usize) {
        let Some(flash) = self.flash.as_mut() else {
            return;
        };
        let gathering = &mut self.loans.0[key];
        let geometry = *flash.facts().geometry();
        let mut from = 0;
        while let Some(first) = gathering.missing.get(from).copied() {
            let segment = geometry.segment_of(first.slot);
            let follows = |(next, missing): (u32, &Missing)| {
                missing.slot == first.slot.advance(next)
                    && geometry.segment_of(missing.slot) == segment
                    && u64::from(next) < RUN_BLOCKS_MAX
            };
            let run = (0..).zip(&gathering.missing[from..]);
            let count = run.take_while(|next| follows(*next)).count();
            let pages = u32::try_from(count).expect("a run is short");
            gathering.reads += 1;
            self.ports.stats.flash_read_bytes += u64::from(pages) * BLOCK_BYTES;
            let read = RecordRead {
                gathering: key,
                from,
                count,
                slot: first.slot,
            };
            let purpose = ReadPurpose::Loan(LoanRead::Records(read));
            flash.read(&mut self.ports.store, first.slot, pages, None, purpose);
            from += count;
        }
    }

    /// Pages have come from flash, or have failed to.
    pub(crate) fn read_done(
        &mut self,
        read: RecordRead,
        buf: Option<Buf>,
        result: Result<(), IoError>,
    ) {
        if let Some(flash) = self.flash.with_logs_mut() {
            flash.unpin(read.slot);
        }
        let gathering = &mut self.loans.0[read.gathering];
        gathering.reads -= 1;
        let flash = self.flash.as_ref();
        let bytes = buf.filter(|_| result.is_ok()).map(Buf::freeze);
        if let (Some(flash), Some(bytes)) = (flash, bytes) {
            let missing = &gathering.missing[read.from..read.from + read.count];
            for (page, missing) in missing.iter().enumerate() {
                let bytes = bytes.slice(page * PAGE_BYTES..(page + 1) * PAGE_BYTES);
                let whole = verified(flash, self.ports, gathering.disk, *missing, bytes);
                let what = whole.map(|bytes| block_of(missing.block, bytes));
                gathering.records[missing.at].what = what;
            }
        }
        self.end_if_whole(read.gathering);
    }

    fn end_if_whole(&mut self, key: usize) {
        if self.loans.0[key].reads > 0 {
            return;
        }
        let gathering = self.loans.0.remove(key);
        let records = gathering.records.into_iter().map(|record| {
            let begins_interval = record.begins_interval;
            record.what.map(|what| Shipped {
                begins_interval,
                what,
            })
        });
        let shipment = gathering.shipment;
        let whole = records.collect::<Option<Vec<_>>>();
        let result = whole.map(|records| {
            Borrowed::Records(Shipment {
                records,
                ..shipment
            })
        });
        let result = result.ok_or(NotLent);
        let loan = gathering.id;
        self.ports.push(Effect::Lent { loan, result });
    }
}

/// A number of a log as it is told.
fn number(told: u64) -> RecordNumber {
    RecordNumber::FIRST.advance(told)
}

fn told(number: RecordNumber) -> u64 {
    number.distance_from(RecordNumber::FIRST)
}

fn shipment_of(log: &DirtyLog, first: RecordNumber, period: u64) -> Shipment {
    Shipment {
        period,
        first: told(first),
        base: told(log.base()),
        end: told(log.end()),
        records: Vec::new(),
    }
}

fn block_of(block: BlockIndex, bytes: Slice) -> ShippedWhat {
    let bytes = Payload::from_iter([bytes]);
    ShippedWhat::Block { block, bytes }
}

/// The bytes of a block, if they are what was written.
fn verified(
    flash: &Store,
    ports: &mut Ports,
    disk: DiskSlot,
    missing: Missing,
    page: Slice,
) -> Option<Slice> {
    let Missing { block, slot, .. } = missing;
    if flash.is_whole(slot, &page) || !holds(Guard::VerifyBeforeShip) {
        return Some(flash.ciphers().shown(ports.pool(), disk, block, page));
    }
    ports.store.damaged(Damage {
        disk,
        block: Some(block),
        at: flash.facts().geometry().slot_offset(slot),
        is_dirty: true,
    });
    None
}
