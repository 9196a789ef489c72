//! Loans: another host reads what is cached of a disk here, when the disk has gone there or is about to.
//!
//! ```text
//!   contents of a segment: its footer ─► the blocks that are there still
//!   a run of blocks: in memory, or read from flash ─► verified ─► their bytes
//! ```
//!
//! Invariants:
//! - No copy that is lent is older than what a guest would read here when the loan is answered: the copies are the
//!   index's then, and of none of them the disk's log has newer bytes. What is written here later is the driver's to
//!   tell.
//! - A disk that is another host's is not lent.
//! - Nothing is lent that was not verified, and nothing encrypted of which the key is not here.

use crate::api::{Effect, Tenure};
use crate::disks::Disks;
use crate::flash_use::FlashUse;
use crate::limits::RUN_BLOCKS_MAX;
use crate::loan::{Borrowed, LoanId, LoanRequest, NotLent, RecordsAsked};
use crate::ports::Ports;
use crate::purpose::{LoanKey, LoanRead, ReadPurpose};
use crate::record_loans::{RecordLoans, Shipping};
use block_io::{Buf, IoError, PAGE_BYTES, Payload};
use block_store::{Contents, Location, Store};
use dirty_log::Found;
use flash_format::SegmentIndex;
use slab::Slab;
use units::{BLOCK_BYTES, BlockIndex, DiskId, DiskSlot, FlashSlot};

/// What is read for another host.
#[derive(Clone, Copy)]
struct Loan {
    id: LoanId,
    disk: DiskId,
    /// Where the disk's copies were when it was asked for.
    slot: DiskSlot,
    lent: Lent,
}

/// What of a disk is lent.
#[derive(Clone, Copy)]
enum Lent {
    /// Which blocks lie in a segment.
    Contents(SegmentIndex),
    /// The bytes of a run of blocks.
    Blocks {
        first: BlockIndex,
        at: FlashSlot,
        count: u32,
    },
}

/// Loans that are read from flash.
#[derive(Default)]
pub(crate) struct Loans {
    copies: Slab<Loan>,
    records: RecordLoans,
}

type Answer = Result<Borrowed, NotLent>;

/// What sees a cache for loans.
pub(crate) struct Lending<'a> {
    loans: &'a mut Loans,
    flash: &'a mut FlashUse,
    disks: &'a Disks,
    ports: &'a mut Ports,
}

impl<'a> Lending<'a> {
    pub(crate) fn new(
        loans: &'a mut Loans,
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

    /// Another host asks.
    pub(crate) fn lend(&mut self, id: LoanId, request: LoanRequest) {
        let begun = match request {
            LoanRequest::Segments { disk } => {
                let found = lent_slot(self.flash, self.disks, disk);
                let segments = found.map(|(flash, slot)| Contents::from(&*flash).segments_of(slot));
                Some(segments.map(Borrowed::Segments))
            }
            LoanRequest::Records(RecordsAsked { disk, from, .. }) => {
                self.records().ship(id, disk, from);
                None
            }
            LoanRequest::Contents { disk, segment } => self.read_footer(id, disk, segment),
            LoanRequest::Blocks { disk, first, count } => self.read_blocks(id, disk, first, count),
        };
        if let Some(result) = begun {
            self.ports.push(Effect::Lent { loan: id, result });
        }
    }

    /// What reads a log for the host that is about to get its disk.
    fn records(&mut self) -> Shipping<'_> {
        Shipping::new(&mut self.loans.records, self.flash, self.disks, self.ports)
    }

    /// Reads what says which blocks of a disk lie in a segment. The answer, if it is known at once.
    fn read_footer(&mut self, id: LoanId, disk: DiskId, segment: SegmentIndex) -> Option<Answer> {
        let (flash, slot) = match lent_slot(self.flash, self.disks, disk) {
            Ok(found) => found,
            Err(not) => return Some(Err(not)),
        };
        if segment.get() >= flash.facts().geometry().segment_count() {
            return Some(Err(NotLent));
        }
        if let Some(blocks) = Contents::from(&*flash).of_open(slot, segment) {
            return Some(Ok(Borrowed::Contents(blocks)));
        }
        let lent = Lent::Contents(segment);
        let tag = of_copies(self.loans.copies.insert(Loan {
            id,
            disk,
            slot,
            lent,
        }));
        Contents::from(&*flash).read_footer(&mut self.ports.store, segment, tag);
        None
    }

    /// Reads a run of blocks. The answer, if it is known at once.
    fn read_blocks(
        &mut self,
        id: LoanId,
        disk: DiskId,
        first: BlockIndex,
        count: u32,
    ) -> Option<Answer> {
        let (flash, slot) = match lent_slot(self.flash, self.disks, disk) {
            Ok(found) => found,
            Err(not) => return Some(Err(not)),
        };
        let blocks = (0..u64::from(count).min(RUN_BLOCKS_MAX)).map(|i| first.advance(i));
        let clean = blocks.take_while(|block| is_clean(flash, slot, *block));
        let most = clean.count() as u64;
        let Some(at) = flash.facts().copy_of(slot, first).filter(|_| most > 0) else {
            return Some(Err(NotLent));
        };
        if let Location::Memory(bytes) = flash.bytes_of(&self.ports.store, at) {
            return Some(Ok(Borrowed::Blocks(Payload::from_iter([bytes]))));
        }
        let count = flash.facts().written_run(slot, first, at, most);
        self.ports.stats.flash_read_bytes += u64::from(count) * BLOCK_BYTES;
        let lent = Lent::Blocks { first, at, count };
        let tag = of_copies(self.loans.copies.insert(Loan {
            id,
            disk,
            slot,
            lent,
        }));
        flash.read(&mut self.ports.store, at, count, None, tag);
        None
    }

    /// What a loan needs has come from flash, or has failed to.
    pub(crate) fn read_done(
        &mut self,
        read: LoanRead,
        buf: Option<Buf>,
        result: Result<(), IoError>,
    ) {
        match read {
            LoanRead::Copies(loan) => self.copies_read(loan, buf, result),
            LoanRead::Records(read) => self.records().read_done(read, buf, result),
        }
    }

    fn copies_read(&mut self, loan: LoanKey, buf: Option<Buf>, result: Result<(), IoError>) {
        let loan = self.loans.copies.remove(loan);
        if let Lent::Blocks { at, .. } = loan.lent
            && let Some(flash) = self.flash.with_logs_mut()
        {
            flash.unpin(at);
        }
        let result = self.verified(&loan, buf.filter(|_| result.is_ok()));
        self.ports.push(Effect::Lent {
            loan: loan.id,
            result,
        });
    }

    fn verified(&mut self, loan: &Loan, read: Option<Buf>) -> Answer {
        let (flash, slot) = lent_slot(self.flash, self.disks, loan.disk)?;
        if slot != loan.slot {
            return Err(NotLent);
        }
        match loan.lent {
            Lent::Contents(segment) => {
                let blocks = Contents::from(&*flash).of_segment(slot, segment, read.as_ref());
                Ok(Borrowed::Contents(blocks))
            }
            Lent::Blocks { first, at, count } => {
                let mut places = (0..count).map(|i| (first.advance(u64::from(i)), at.advance(i)));
                let is_there = places.all(|(block, at)| {
                    flash.facts().copy_of(slot, block) == Some(at) && is_clean(flash, slot, block)
                });
                let mut buf = read.filter(|_| is_there).ok_or(NotLent)?;
                let length = count as usize * PAGE_BYTES;
                let pages = &mut buf[..length];
                if !flash.verify(&mut self.ports.store, slot, first, at, pages) {
                    return Err(NotLent);
                }
                flash.ciphers().show(slot, first, pages);
                let bytes = buf.freeze().slice(0..length);
                Ok(Borrowed::Blocks(Payload::from_iter([bytes])))
            }
        }
    }
}

fn of_copies(loan: LoanKey) -> ReadPurpose {
    ReadPurpose::Loan(LoanRead::Copies(loan))
}

/// Whether the log of a disk has nothing newer than the copy of a block.
fn is_clean(flash: &Store, slot: DiskSlot, block: BlockIndex) -> bool {
    matches!(flash.dirty_logs().find(slot, block), Found::Clean)
}

/// The flash that is in use and the slot of a disk that has copies there, if the disk is not another host's and
/// they can be read.
fn lent_slot<'a>(
    flash: &'a mut FlashUse,
    disks: &Disks,
    disk: DiskId,
) -> Result<(&'a mut Store, DiskSlot), NotLent> {
    let flash = flash.as_mut().ok_or(NotLent)?;
    let slot = flash.facts().slot_of(disk).ok_or(NotLent)?;
    let entry = flash.facts().disk_entry(slot).ok_or(NotLent)?;
    let is_readable = entry.key.is_none() || flash.ciphers().has(slot);
    let is_others = disks
        .get(slot)
        .is_some_and(|disk| disk.tenure == Tenure::Standby);
    let is_lent = is_readable && !is_others && !disks.was_standby(disk);
    is_lent.then_some((flash, slot)).ok_or(NotLent)
}
