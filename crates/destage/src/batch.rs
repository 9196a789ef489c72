//! A part of a log on its way to the origin.

use crate::limits::RUN_BLOCKS_MAX;
use crate::plan::Piece;
use block_io::{BufPool, IoError, OriginVerb, PAGE_BYTES, Slice};
use dirty_log::{DirtyLog, RecordNumber, What};
use flash_format::{ErasureKind, Geometry};
use units::{BLOCK_BYTES, Bytes, FlashSlot, Map};

/// Pages that are read for nothing rather than to begin another read: a header, or records that were
/// superseded.
const GAP_PAGES_MAX: u32 = 4;

/// A batch of a transfer, by which what comes back for it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchId(u64);

impl BatchId {
    /// The id with this number.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The id of the batch behind it.
    pub(crate) fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// What an origin has durably when a batch has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settles {
    /// Every record before this number.
    Before(RecordNumber),
    /// These records, whatever came before them.
    Some(Vec<RecordNumber>),
}

/// Why a batch that was read is not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// A record was not what was written.
    Damaged,
    /// The flash could not be read.
    Unreadable(IoError),
}

/// Records that go to the origin together. `P` is what is kept of a page.
#[derive(Debug)]
pub(crate) struct Batch<P> {
    /// Which: completions of one that was given up mean nothing.
    id: BatchId,
    /// What it settles.
    settles: Settles,
    /// The number behind its last record.
    to: RecordNumber,
    /// Its last record is the last of an interval, or it has to be settled for another reason before
    /// anything else is written.
    ends: bool,
    pieces: Vec<Piece>,
    pages: Map<RecordNumber, P>,
    reads: Vec<LogRead>,
    reads_left: usize,
    /// Pieces that have been sent to the origin.
    issued: usize,
    in_flight: u32,
    /// It is one write, which the origin makes durable.
    fua: bool,
    error: Option<IoError>,
    /// A record was not what was written.
    is_damaged: bool,
}

/// Pages of the log that are read together.
#[derive(Clone, Debug)]
struct LogRead {
    slot: FlashSlot,
    pages: u32,
    /// Which of the pages are wanted, and which records they are.
    wanted: Vec<(u32, RecordNumber)>,
}

/// A read of a batch, by which its completion is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadId {
    batch: BatchId,
    read: usize,
}

/// A page of a read that is the newest of its block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchPage {
    /// The number of its record.
    pub number: RecordNumber,
    /// Where it lies on flash.
    pub slot: FlashSlot,
    /// Which page of the read it is, from 0.
    pub at: u32,
}

/// What one write brings to the origin. `P` is what is kept of a page.
#[derive(Debug)]
pub struct Content<'a, P> {
    /// Which blocks.
    piece: &'a Piece,
    /// The pages of its batch.
    pages: &'a Map<RecordNumber, P>,
    fua: bool,
}

/// Pages of a log that have to be read from flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchRead {
    /// By which its completion is known.
    pub id: ReadId,
    /// The first page.
    pub slot: FlashSlot,
    /// How many, all in one segment.
    pub pages: u32,
}

impl<P> Batch<P> {
    /// It settles every record before `to`.
    pub(crate) fn in_order(id: BatchId, to: RecordNumber, ends: bool, pieces: Vec<Piece>) -> Self {
        Self::new(id, to, ends, Settles::Before(to), pieces)
    }

    /// It settles these records, whatever came before them; the log goes up to `to`.
    pub(crate) fn out_of_order(
        id: BatchId,
        to: RecordNumber,
        some: Vec<RecordNumber>,
        pieces: Vec<Piece>,
    ) -> Self {
        Self::new(id, to, true, Settles::Some(some), pieces)
    }

    fn new(
        id: BatchId,
        to: RecordNumber,
        ends: bool,
        settles: Settles,
        pieces: Vec<Piece>,
    ) -> Self {
        Self {
            id,
            settles,
            to,
            ends,
            pieces,
            pages: Map::default(),
            reads: Vec::new(),
            reads_left: 0,
            issued: 0,
            in_flight: 0,
            fua: false,
            error: None,
            is_damaged: false,
        }
    }

    pub(crate) fn id(&self) -> BatchId {
        self.id
    }

    pub(crate) fn to(&self) -> RecordNumber {
        self.to
    }

    pub(crate) fn ends(&self) -> bool {
        self.ends
    }

    /// What it settles.
    pub(crate) fn settles(self) -> Settles {
        self.settles
    }

    pub(crate) fn is_out_of_order(&self) -> bool {
        matches!(self.settles, Settles::Some(_))
    }

    pub(crate) fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// What failed of it.
    pub(crate) fn error(&self) -> Option<IoError> {
        self.error
    }

    /// Whether the origin makes it durable by itself.
    pub(crate) fn is_durable(&self) -> bool {
        self.fua
    }

    /// Takes the pages that are in memory, and returns the reads that bring the others.
    pub(crate) fn read(
        &mut self,
        log: &DirtyLog,
        geometry: &Geometry,
        mut in_memory: impl FnMut(FlashSlot) -> Option<P>,
    ) -> Vec<BatchRead> {
        let mut on_flash = Vec::new();
        for (number, slot) in self.wanted(log) {
            match in_memory(slot) {
                Some(page) => {
                    self.pages.insert(number, page);
                }
                None => on_flash.push((number, slot)),
            }
        }
        self.reads = reads_of(&on_flash, geometry);
        self.reads_left = self.reads.len();
        let batch = self.id;
        let reads = self.reads.iter().enumerate();
        let reads = reads.map(|(read, LogRead { slot, pages, .. })| BatchRead {
            id: ReadId { batch, read },
            slot: *slot,
            pages: *pages,
        });
        reads.collect()
    }

    /// The numbers of the records whose bytes are needed, in their order, with their slots.
    fn wanted(&self, log: &DirtyLog) -> Vec<(RecordNumber, FlashSlot)> {
        let data = self.pieces.iter().filter_map(|piece| match piece {
            Piece::Data { numbers, .. } => Some(numbers),
            Piece::Erasure(_) => None,
        });
        let mut numbers: Vec<RecordNumber> = data.flatten().copied().collect();
        numbers.sort_unstable();
        let slot = |number: RecordNumber| match log.record(number).what {
            What::Data { slot, .. } => Some((number, slot)),
            What::Erasure(_) => None,
        };
        numbers.into_iter().filter_map(slot).collect()
    }

    /// Whether a read is one of this batch.
    pub(crate) fn is(&self, read: ReadId) -> bool {
        self.id == read.batch
    }

    pub(crate) fn read_done(
        &mut self,
        read: ReadId,
        result: Result<(), IoError>,
        mut verified: impl FnMut(BatchPage) -> Option<P>,
    ) {
        self.reads_left -= 1;
        if let Err(error) = result {
            self.error = Some(error);
            return;
        }
        let LogRead { slot, wanted, .. } = &self.reads[read.read];
        for (at, number) in wanted {
            let wanted = BatchPage {
                number: *number,
                slot: slot.advance(*at),
                at: *at,
            };
            match verified(wanted) {
                Some(page) => {
                    self.pages.insert(*number, page);
                }
                None => self.is_damaged = true,
            }
        }
    }

    /// Whether everything has been read, or could not be.
    pub(crate) fn is_read(&self) -> bool {
        self.reads_left == 0
    }

    /// It is written now. `is_flushed` if the origin has everything durably that was written before.
    pub(crate) fn begin(&mut self, is_flushed: bool, wanted: RecordNumber) -> Result<(), Unfit> {
        if self.is_damaged {
            return Err(Unfit::Damaged);
        }
        if let Some(error) = self.error {
            return Err(Unfit::Unreadable(error));
        }
        let is_alone = is_flushed && self.pieces.len() == 1;
        self.fua = is_alone && (self.ends || self.to >= wanted);
        Ok(())
    }

    /// Bytes of the next piece, if there is one that may go.
    pub(crate) fn next_bytes(&self) -> Option<u64> {
        if self.error.is_some() {
            return None;
        }
        self.pieces.get(self.issued).map(|piece| match piece {
            Piece::Data { .. } => piece.blocks() * BLOCK_BYTES,
            Piece::Erasure(_) => 0,
        })
    }

    /// Pieces on their way to the origin.
    pub(crate) fn in_flight(&self) -> u32 {
        self.in_flight
    }

    pub(crate) fn is_on_its_way(&self) -> bool {
        self.in_flight > 0
    }

    /// The next piece goes: which batch this is, and what is written.
    pub(crate) fn issue(&mut self) -> (BatchId, Content<'_, P>) {
        let content = Content {
            piece: &self.pieces[self.issued],
            pages: &self.pages,
            fua: self.fua,
        };
        self.issued += 1;
        self.in_flight += 1;
        (self.id, content)
    }

    /// A piece has ended.
    pub(crate) fn write_done(&mut self, result: Result<(), IoError>) {
        self.in_flight -= 1;
        if let Err(error) = result {
            self.error = Some(error);
        }
    }

    /// Whether every piece is at the origin, or one could not be brought there and none is on its way.
    pub(crate) fn is_done(&self) -> bool {
        self.in_flight == 0 && (self.issued == self.pieces.len() || self.error.is_some())
    }
}

/// Reads for these records, which are in the order of their places.
fn reads_of(wanted: &[(RecordNumber, FlashSlot)], geometry: &Geometry) -> Vec<LogRead> {
    let mut reads: Vec<LogRead> = Vec::new();
    for (number, slot) in wanted {
        if let Some(read) = reads.last_mut()
            && geometry.segment_of(read.slot) == geometry.segment_of(*slot)
            && *slot >= read.slot.advance(read.pages)
        {
            let at = slot.get() - read.slot.get();
            let gap = at - read.pages;
            if gap <= GAP_PAGES_MAX && u64::from(at) < RUN_BLOCKS_MAX {
                read.pages = at + 1;
                read.wanted.push((at, *number));
                continue;
            }
        }
        reads.push(LogRead {
            slot: *slot,
            pages: 1,
            wanted: vec![(0, *number)],
        });
    }
    reads
}

impl Content<'_, Slice> {
    /// The operation of the origin. A buffer for several blocks comes from `pool`.
    ///
    /// # Panics
    /// If a page of it was not read.
    pub fn verb(&self, pool: &BufPool) -> OriginVerb {
        let fua = self.fua;
        match self.piece {
            Piece::Data { first, numbers } => {
                let page = |number| self.pages.get(number).expect("the batch was read");
                let data = if let [number] = &numbers[..] {
                    page(number).clone()
                } else {
                    let length = numbers.len() * PAGE_BYTES;
                    let mut buf = pool.take(length);
                    for (number, to) in numbers.iter().zip(buf.chunks_exact_mut(PAGE_BYTES)) {
                        to.copy_from_slice(page(number));
                    }
                    buf.freeze().slice(0..length)
                };
                OriginVerb::Write {
                    offset: first.start(),
                    data,
                    fua,
                }
            }
            Piece::Erasure(erasure) => {
                let offset = erasure.first.start();
                let length = Bytes::new(u64::from(erasure.blocks) * BLOCK_BYTES);
                // Readers have seen zeroes, so zeroes it must be: an origin may ignore a discard.
                let may_unmap = match erasure.kind {
                    ErasureKind::Discard => true,
                    ErasureKind::Zeroes { may_unmap } => may_unmap,
                };
                OriginVerb::WriteZeroes {
                    offset,
                    length,
                    may_unmap,
                    fua,
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Bytes;

    #[test]
    fn records_that_lie_close_are_read_together() {
        let geometry = Geometry::of_slots(8 * 16, Bytes::kib(64)).unwrap();
        let number = |slot: u32| RecordNumber::FIRST.advance(slot.into());
        let at = |slot| (number(slot), FlashSlot::new(slot));
        let reads = reads_of(&[at(17), at(18), at(20), at(30), at(33)], &geometry);
        let told: Vec<_> = reads
            .iter()
            .map(|read| (read.slot.get(), read.pages))
            .collect();
        assert_eq!(told, [(17, 4), (30, 1), (33, 1)]);
        assert_eq!(
            reads[0].wanted,
            [(0, number(17)), (1, number(18)), (3, number(20))]
        );
    }
}
