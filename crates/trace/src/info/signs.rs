//! The signs that something is wrong with a trace, and who looks closer at each record.
//!
//! ```text
//!  records ─► Signs ─┬─ clock, operations, offsets, second copies ─► warnings
//!                    └─ Look ─┬─ Detail: all that `Info` tells     (`Collector`)
//!                             └─ Recency: when blocks were accessed (`Watch`)
//! ```

use super::Operations;
use super::arrival::{Clock, divisor};
use super::collect::Known;
use super::copies::Copies;
use super::warnings::{self, Evidence, Seen};
use super::{Count, VolumeInfo};
use crate::limits::REQUEST_BYTES_MAX;
use crate::record::{Op, Record, Volumes};
use crate::records::Records;
use crate::splitter::{Batch, SplitError, Splitter};
use units::{Bytes, SECTOR_BYTES};

/// When and where a record reads or writes.
pub(super) struct Access<'a> {
    /// The record's number, counted from 1.
    pub(super) number: u64,
    /// Microseconds since the first record.
    pub(super) time_us: u64,
    /// Its blocks, never none.
    pub(super) keys: &'a [u32],
}

/// What looks closer at each record.
pub(super) trait Look {
    /// A record of any kind, whose blocks can be looked at.
    fn sized(&mut self, record: &Record);

    /// The time of a record of any kind.
    fn time(&mut self, time_us: u64);

    /// False if no read or write that [`Copies`] remembers can have touched the first block of this one.
    fn may_be_copy(&self, access: &Access<'_>) -> bool;

    /// The blocks of a record; no access if it reads and writes nothing. `is_image` says that its volume is a base image.
    ///
    /// # Errors
    /// If there are more distinct blocks than can be numbered.
    fn blocks(
        &mut self,
        record: &Record,
        access: Option<Access<'_>>,
        is_image: bool,
    ) -> Result<(), SplitError>;
}

/// What the warnings are drawn from.
#[derive(Clone, Debug)]
pub(super) struct Signs<L> {
    known: Known,
    look: L,
    splitter: Splitter,
    batch: Batch,
    requests: u64,
    origin_us: Option<u64>,
    operations: Operations,
    clock: Clock,
    copies: Copies,
    offsets_divisor: u64,
    unaligned: Seen,
    implausible: Seen,
    impossible: Seen,
    empty: Seen,
    misaligned: Seen,
}

/// An offset from which on no volume reaches: 1 PiB. The largest volumes of public clouds are 64 TiB;
/// beyond lie hashed keys and negative numbers.
const PLAUSIBLE_OFFSET_MAX: u64 = 1 << 50;

/// Whether a system can have issued a request like this: its blocks can be looked at.
fn is_possible(record: &Record) -> bool {
    let is_long = record.op.carries_data() && record.length > REQUEST_BYTES_MAX;
    !is_long && record.offset.checked_add(record.length).is_some()
}

impl<L: Look> Signs<L> {
    /// No record yet, of a trace that says so much, in blocks of that size.
    ///
    /// # Panics
    /// If the size is not a power of two of at least 512 bytes.
    pub(super) fn new(known: Known, block: Bytes, look: L) -> Self {
        Self {
            known,
            look,
            splitter: Splitter::new(block),
            batch: Batch::default(),
            requests: 0,
            origin_us: None,
            operations: Operations::default(),
            clock: Clock::default(),
            copies: Copies::new(known.time),
            offsets_divisor: 0,
            unaligned: Seen::default(),
            implausible: Seen::default(),
            impossible: Seen::default(),
            empty: Seen::default(),
            misaligned: Seen::default(),
        }
    }

    /// Takes in the next records, and the volumes seen so far, which are theirs among others.
    ///
    /// # Errors
    /// If there are more distinct blocks than can be numbered. What no system issues is no error here:
    /// it is left out, and told of.
    pub(super) fn add(&mut self, records: &Records, volumes: &Volumes) -> Result<(), SplitError> {
        self.splitter.know(volumes);
        let mut first = self.requests + 1;
        for record in records {
            self.count(&record);
        }
        if records.iter().all(|record| is_possible(&record)) {
            return self.add_possible(records, first);
        }
        let rows: Vec<Record> = records.iter().collect();
        for run in rows.chunk_by(|one, next| is_possible(one) == is_possible(next)) {
            if is_possible(&run[0]) {
                self.add_possible(&run.into(), first)?;
            }
            first += run.len() as u64;
        }
        Ok(())
    }

    /// Counts a record, and what of it no system issues or caches cannot use.
    fn count(&mut self, record: &Record) {
        self.requests += 1;
        if self.known.time {
            self.clock.add(record.time_us);
            self.look.time(record.time_us);
        }
        let bytes = record.length.get();
        let operations = &mut self.operations;
        let count: &mut Count = match record.op {
            Op::Read => &mut operations.read,
            Op::Write => &mut operations.write,
            Op::Flush => &mut operations.flush,
            Op::Discard => &mut operations.discard,
            Op::WriteZeroes => &mut operations.write_zeroes,
        };
        count.add(bytes);
        let (offset, is_data) = (record.offset.get(), record.op.carries_data());
        let number = self.requests;
        let place = |seen: &mut Seen| seen.add(number, offset, bytes);
        if !is_possible(record) {
            place(&mut self.impossible);
            return;
        }
        if !is_data {
            return;
        }
        if bytes == 0 {
            place(&mut self.empty);
        }
        if offset >= PLAUSIBLE_OFFSET_MAX {
            place(&mut self.implausible);
        }
        // A power of two.
        let within = self.splitter.block().get() - 1;
        if !offset.is_multiple_of(SECTOR_BYTES) {
            place(&mut self.unaligned);
        } else if bytes > 0 && bytes & within == 0 && offset & within != 0 {
            place(&mut self.misaligned);
        }
        // One that divides stays: most offsets take one division.
        if self.offsets_divisor == 0 || !offset.is_multiple_of(self.offsets_divisor) {
            self.offsets_divisor = divisor(self.offsets_divisor, offset);
        }
        self.look.sized(record);
    }

    /// Takes in records whose blocks can be looked at; the first of them has that number.
    fn add_possible(&mut self, records: &Records, first: u64) -> Result<(), SplitError> {
        self.origin_us = self.origin_us.or(records.times_us().first().copied());
        let origin_us = self.origin_us.unwrap_or(0);
        self.splitter.split_lean(records, &mut self.batch)?;
        for (at, (number, record)) in (first..).zip(records).enumerate() {
            let keys = self.batch.keys_at(at);
            let is_image = self.batch.role(record.volume).is_image;
            if !record.op.carries_data() || keys.is_empty() {
                self.look.blocks(&record, None, is_image)?;
                continue;
            }
            let access = Access {
                number,
                time_us: record.time_us.saturating_sub(origin_us),
                keys,
            };
            let may_be_copy = self.look.may_be_copy(&access);
            self.copies.add(&record, number, may_be_copy);
            self.look.blocks(&record, Some(access), is_image)?;
        }
        Ok(())
    }

    /// Takes in the times of the next records, and nothing else of them.
    pub(super) fn add_times(&mut self, times_us: &[u64]) {
        self.requests += times_us.len() as u64;
        if self.known.time {
            for time_us in times_us {
                self.clock.add(*time_us);
            }
        }
    }

    /// What has looked closer.
    pub(super) fn look(&self) -> &L {
        &self.look
    }

    /// How many records there were, what they asked, the clock if the trace has one that moves, and what has looked closer.
    pub(super) fn into_parts(self) -> (u64, Operations, Option<Clock>, L) {
        let has_time = self.known.time && self.clock.differ();
        let clock = has_time.then_some(self.clock);
        (self.requests, self.operations, clock, self.look)
    }

    /// The size of a block.
    pub(super) fn block(&self) -> Bytes {
        self.splitter.block()
    }

    /// What of the trace ruins a study, or should be known before one. Without `volumes`, all that ruins.
    pub(super) fn warnings(&self, volumes: &[VolumeInfo]) -> Vec<warnings::Warning> {
        warnings::judge(&Evidence {
            known: self.known,
            requests: self.requests,
            operations: self.operations,
            times: &self.clock,
            copies: &self.copies,
            offsets_divisor: self.offsets_divisor,
            unaligned: self.unaligned,
            implausible: self.implausible,
            impossible: self.impossible,
            empty: self.empty,
            misaligned: self.misaligned,
            volumes,
            block_bytes: self.block().get(),
        })
    }
}
