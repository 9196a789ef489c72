//! The transfer of one log: a batch that is read, one that is written, and the flush that settles.

use crate::batch::{Batch, BatchId, BatchPage, BatchRead, Content, ReadId, Settles, Unfit};
use crate::choose::{Chooser, Sequence};
use crate::limits::{FLUSH_PARTS, RETRY_PAUSE_MAX, RETRY_PAUSE_MIN};
use crate::pace::{Go, Need, Pace};
use crate::plan::Piece;
use crate::times::ReadTimes;
use block_io::{IoError, Slice};
use core_guards::{Guard, holds};
use dirty_log::{DirtyLog, RecordNumber};
use flash_format::Geometry;
use units::{BLOCK_BYTES, Bytes, Duration, FlashSlot, Instant};

/// The origin, or the flash, refused.
#[derive(Clone, Copy, Debug)]
pub struct Failing {
    /// Since when.
    pub since: Instant,
    /// With what.
    pub error: IoError,
    /// Not tried again before.
    pub until: Instant,
    pause: Duration,
}

/// What keeps writes from going.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paused {
    /// The rate that the operator has set.
    Rate,
    /// Guests' reads are slow.
    Latency,
}

/// The transfer of a disk's log to its origin. `P` is what is kept of a page: its bytes, or nothing in a
/// simulation. See the crate's header.
#[derive(Debug)]
pub struct Destage<P = Slice> {
    loading: Option<Batch<P>>,
    writing: Option<Batch<P>>,
    /// A flush of the origin is on its way; what it settles.
    flushing: Option<Flushing>,
    chooser: Chooser,
    /// Bytes written since the origin was flushed.
    unflushed: u64,
    /// Of what is written and not known to be durable the origin may have lost something, with this error.
    lost: Option<IoError>,
    /// Everything before this number has to reach the origin at full speed.
    demand: RecordNumber,
    failing: Option<Failing>,
    paused: Option<Paused>,
    pace: Pace,
}

#[derive(Debug)]
struct Flushing {
    id: WriteId,
    settles: Settles,
}

/// A write or flush of the origin, by which its completion is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteId {
    batch: BatchId,
    bytes: u64,
}

/// A write to the origin.
#[derive(Debug)]
pub struct Write<'a, P> {
    /// By which its completion is known.
    pub id: WriteId,
    /// What is written.
    pub content: Content<'a, P>,
}

impl WriteId {
    /// Bytes that are written; none by an erasure.
    pub fn bytes(self) -> Bytes {
        Bytes::new(self.bytes)
    }
}

/// What to do next with the batch that is written.
#[derive(Debug)]
pub enum Next<'a, P> {
    /// To write this.
    Write(Write<'a, P>),
    /// To ask again then.
    WaitUntil(Instant),
    /// To wait for what is on its way.
    Wait,
}

/// What has to be done when every piece of a batch has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Batched {
    /// Nothing yet: more is written before the origin is flushed.
    GoesOn,
    /// The origin has to be flushed.
    Flush(WriteId),
    /// The origin has this durably.
    Settles(Settles),
    /// The origin has refused a piece.
    Refused(IoError),
}

/// What a flush of the origin has come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Flushed {
    /// It belonged to a batch that was given up.
    Stale,
    /// The origin has this durably.
    Settles(Settles),
    /// The origin has refused it.
    Refused(IoError),
}

impl<P> Destage<P> {
    /// Its batches come behind `latest`.
    pub fn new(latest: BatchId, now: Instant) -> Self {
        Self {
            loading: None,
            writing: None,
            flushing: None,
            chooser: Chooser::new(latest),
            unflushed: 0,
            lost: None,
            demand: RecordNumber::FIRST,
            failing: None,
            paused: None,
            pace: Pace::new(now),
        }
    }

    /// The batch that was begun last; before the first one, the id behind which they come.
    pub fn latest_batch(&self) -> BatchId {
        self.chooser.latest()
    }

    /// Whether records are on their way that were taken out of their order.
    pub fn is_out_of_order(&self) -> bool {
        let some = |batch: &Option<Batch<P>>| batch.as_ref().is_some_and(Batch::is_out_of_order);
        let flushing = self.flushing.as_ref();
        some(&self.loading)
            || some(&self.writing)
            || flushing.is_some_and(|flushing| matches!(flushing.settles, Settles::Some(_)))
    }

    /// Whether nothing is on its way, neither from flash nor to the origin.
    pub fn is_idle(&self) -> bool {
        self.loading.is_none() && self.writing.is_none() && self.flushing.is_none()
    }

    /// Whether reads of the log or writes to the origin are on their way.
    pub fn is_busy(&self) -> bool {
        self.is_writing() || self.loading.as_ref().is_some_and(|batch| !batch.is_read())
    }

    /// Whether a batch is being read, or has been and is not written yet.
    pub fn is_loading(&self) -> bool {
        self.loading.is_some()
    }

    /// Whether writes to the origin are on their way.
    pub fn is_writing(&self) -> bool {
        self.writing.as_ref().is_some_and(Batch::is_on_its_way) || self.flushing.is_some()
    }

    /// Why it was refused last, until something is settled.
    pub fn failing(&self) -> Option<Failing> {
        self.failing
    }

    /// Until when nothing is tried, if it is later than `now`.
    pub fn rests_until(&self, now: Instant) -> Option<Instant> {
        let until = self.failing.map(|failing| failing.until);
        until.filter(|until| now < *until)
    }

    /// What keeps writes from going.
    pub fn paused(&self) -> Option<Paused> {
        self.paused
    }

    /// The number before which everything has to reach the origin at full speed;
    /// [`RecordNumber::FIRST`] if nobody asks.
    pub fn demand(&self) -> RecordNumber {
        self.demand
    }

    /// Everything before this number has to reach the origin at full speed, at once.
    pub fn demand_to(&mut self, number: RecordNumber) {
        self.demand = self.demand.max(number);
        self.failing = None;
    }

    /// Nobody asks any more.
    pub fn drop_demand(&mut self) {
        self.demand = RecordNumber::FIRST;
    }

    /// A guest's read of the origin took so long.
    pub fn read_took(&mut self, time: Duration) {
        let writing = self.is_writing();
        self.pace.read_took(time, writing);
    }

    /// Begins a batch of records before number `wanted`, if there is none that is being read. Bytes that
    /// `in_memory` has are taken; the others have to be read: by the reads that are returned. None if there
    /// is nothing to begin.
    pub fn load(
        &mut self,
        log: &DirtyLog,
        wanted: RecordNumber,
        sequence: &Sequence,
        geometry: &Geometry,
        in_memory: impl FnMut(FlashSlot) -> Option<P>,
    ) -> Option<Vec<BatchRead>> {
        if self.loading.is_some() {
            return None;
        }
        let mut batch = match sequence {
            // What it settles may be in the next batch as well.
            Sequence::InOrder if self.is_out_of_order() => None,
            Sequence::InOrder => self.chooser.next_in_order(log, wanted),
            // One at a time: the next could have the same blocks.
            Sequence::AnyOrder { .. } if !self.is_idle() => None,
            Sequence::AnyOrder { only } => {
                self.chooser.next_in_any_order(log, wanted, only.as_ref())
            }
        }?;
        let reads = batch.read(log, geometry, in_memory);
        self.loading = Some(batch);
        Some(reads)
    }

    /// Pages of a batch have come from flash, or have failed to. What `verified` returns of each wanted page
    /// is written to the origin; if that is nothing the batch is damaged.
    pub fn read_done(
        &mut self,
        read: ReadId,
        result: Result<(), IoError>,
        verified: impl FnMut(BatchPage) -> Option<P>,
    ) {
        if let Some(batch) = self.loading.as_mut().filter(|batch| batch.is(read)) {
            batch.read_done(read, result, verified);
        }
    }

    /// What would be written next: the batch that has been read, if nothing is written or flushed.
    pub fn ready(&self) -> Option<&[Piece]> {
        let batch = self.loading.as_ref().filter(|batch| batch.is_read())?;
        (self.writing.is_none() && self.flushing.is_none()).then(|| batch.pieces())
    }

    /// Begins to write the batch that is [`Destage::ready`], of records before number `wanted`.
    ///
    /// # Errors
    /// [`Unfit`]: [`Destage::refuse`] or [`Destage::begin_anew`] has to follow.
    pub fn begin_writing(&mut self, wanted: RecordNumber) -> Result<(), Unfit> {
        self.writing = self.loading.take();
        let Some(batch) = self.writing.as_mut() else {
            return Ok(());
        };
        let is_flushed = self.unflushed == 0 || !holds(Guard::FlushWhatWasPlain);
        batch.begin(is_flushed, wanted)
    }

    /// What to do next with the batch that is written. `rate` is in bytes a second.
    pub fn next_write(
        &mut self,
        need: Need,
        rate: Option<Bytes>,
        flash_reads: &ReadTimes,
        now: Instant,
    ) -> Next<'_, P> {
        let Some(batch) = self.writing.as_mut() else {
            return Next::Wait;
        };
        self.paused = None;
        let Some(bytes) = batch.next_bytes() else {
            return Next::Wait;
        };
        let in_flight = batch.in_flight();
        match self
            .pace
            .ask(bytes, in_flight, rate, need, flash_reads, now)
        {
            Go::Now => {
                let (batch, content) = batch.issue();
                let id = WriteId { batch, bytes };
                Next::Write(Write { id, content })
            }
            Go::Full => Next::Wait,
            Go::Rate(until) => {
                self.paused = Some(Paused::Rate);
                Next::WaitUntil(until)
            }
            Go::Latency(until) => {
                self.paused = Some(Paused::Latency);
                Next::WaitUntil(until)
            }
        }
    }

    /// A write has ended. Bytes that are at the origin now.
    pub fn write_done(&mut self, id: WriteId, result: Result<(), IoError>) -> Bytes {
        let Some(batch) = self.writing.as_mut().filter(|batch| batch.id() == id.batch) else {
            return Bytes::ZERO;
        };
        batch.write_done(result);
        if result.is_err() {
            return Bytes::ZERO;
        }
        self.unflushed += id.bytes.max(BLOCK_BYTES);
        self.pace.wrote();
        id.bytes()
    }

    /// Ends the batch that is written, if each of its pieces has ended. `log` says where intervals end, and
    /// `dirty_max` how much may be dirty.
    pub fn end_batch(
        &mut self,
        log: Option<&DirtyLog>,
        wanted: RecordNumber,
        dirty_max: Bytes,
    ) -> Option<Batched> {
        let batch = self.writing.take_if(|batch| batch.is_done())?;
        Some(self.batched(batch, log, wanted, dirty_max))
    }

    fn batched(
        &mut self,
        batch: Batch<P>,
        log: Option<&DirtyLog>,
        wanted: RecordNumber,
        dirty_max: Bytes,
    ) -> Batched {
        if let Some(error) = batch.error().or(self.lost) {
            return Batched::Refused(error);
        }
        // It may have been the last of its interval only since it was chosen.
        let began = log.is_some_and(|log| log.begins_at(batch.to()));
        let ends = batch.ends() || (began && holds(Guard::IntervalOrder));
        let (id, is_durable, settles) = (batch.id(), batch.is_durable(), batch.settles());
        if is_durable {
            return Batched::Settles(settles);
        }
        let enough = dirty_max.get() / FLUSH_PARTS;
        let more = self.loading.is_some() || self.chooser.loaded_to() < wanted;
        if more && !ends && self.unflushed < enough {
            return Batched::GoesOn;
        }
        if !holds(Guard::OriginFlushBeforeSettled) {
            return Batched::Settles(settles);
        }
        let id = WriteId {
            batch: id,
            bytes: 0,
        };
        self.flushing = Some(Flushing { id, settles });
        Batched::Flush(id)
    }

    /// A flush of the origin has ended.
    pub fn flush_done(&mut self, id: WriteId, result: Result<(), IoError>) -> Flushed {
        let flushing = self.flushing.take_if(|flushing| flushing.id == id);
        match (flushing, result.err().or(self.lost)) {
            (None, _) => Flushed::Stale,
            (Some(_), Some(error)) => Flushed::Refused(error),
            (Some(flushing), None) => Flushed::Settles(flushing.settles),
        }
    }

    /// A flush of the origin that was for somebody else has failed. What was written and is not known to be
    /// durable may be lost, and no later flush would say so: it is refused when it ends.
    pub fn origin_has_lost(&mut self, error: IoError) {
        if self.unflushed > 0 || self.writing.is_some() || self.flushing.is_some() {
            self.lost = Some(error);
        }
    }

    /// The log has settled what the origin has.
    pub fn settled(&mut self) {
        self.unflushed = 0;
        self.failing = None;
    }

    /// The origin, or the flash, refused: begins anew from the oldest record, after a pause. Returns its
    /// end.
    pub fn refuse(&mut self, error: IoError, now: Instant) -> Instant {
        if holds(Guard::RefusedComesAgain) {
            self.begin_anew();
        }
        let before = self.failing;
        let pause = before.map_or(RETRY_PAUSE_MIN, |failing| {
            let doubled = failing.pause.as_nanos().saturating_mul(2);
            Duration::from_nanos(doubled.min(RETRY_PAUSE_MAX.as_nanos()))
        });
        let until = now + pause;
        self.failing = Some(Failing {
            since: before.map_or(now, |failing| failing.since),
            error,
            until,
            pause,
        });
        until
    }

    /// Forgets what is under way: completions of it mean nothing any more.
    pub fn begin_anew(&mut self) {
        self.loading = None;
        self.writing = None;
        self.flushing = None;
        self.unflushed = 0;
        self.lost = None;
        self.chooser.begin_anew();
    }
}
