//! A time limit for an origin that knows none: a file whose server is gone, a library that waits for ever.
//!
//! ```text
//!  submit ─► its turn in the range ─► inner origin ─┬─ in time ─────────────► handed back
//!                 ▲                                 └─ time is up ─► handed back as timed out
//!                 │                                                      │ a change is *late*
//!                 └── the range is free, and in doubt ◄── inner ends ────┘
//! ```
//!
//! An operation waits for the earlier changes of its range, also for those that were given up: a late change would undo
//! a newer one, or make bytes stale that were read before. A read that was given up has left its buffer with the inner
//! origin, and hands back another one.
//!
//! No flush that was sent before the end of a late change vouches for its bytes. So the range is in doubt until a flush
//! succeeds that is sent afterwards, and a read of it says so.

use crate::{Condition, Origin, Sources};
use block_io::{
    BufPool, ErrorNumbers, FailureKind, IoError, OriginDone, OriginGeometry, OriginOp, OriginVerb,
    Token,
};
use events::EventKind;
use range_order::{Effect, OpId, Order};
use std::collections::BTreeMap;
use units::{Bytes, Duration, Instant, Map};

/// Ranges in doubt that are told apart. With more of them everything between the first and the last is.
const DOUBTS_MAX: usize = 1024;

/// An operation that was not handed back yet.
#[derive(Debug)]
struct Asked {
    token: Token,
    deadline: Instant,
    range: Option<Range>,
    /// Bytes of a read's buffer.
    buf_bytes: Option<usize>,
    /// What its success vouches for, of a flush that is under way.
    mark: Option<u64>,
    /// It has not had its turn.
    waits: Option<OriginOp>,
}

/// Where an operation is, and what it does there.
#[derive(Clone, Copy, Debug)]
struct Range {
    offset: u64,
    end: u64,
    effect: Effect,
}

impl Range {
    fn of(verb: &OriginVerb) -> Option<Self> {
        let (offset, length) = verb.range()?;
        let effect = if verb.is_change() {
            Effect::Change
        } else {
            Effect::Read
        };
        Some(Self {
            offset: offset.get(),
            end: offset.get() + length.get(),
            effect,
        })
    }

    fn length(&self) -> u64 {
        self.end - self.offset
    }

    fn overlaps(&self, other: &Self) -> bool {
        self.offset < other.end && other.offset < self.end
    }
}

/// Ranges of changes that came to an end late, each with the count of flushes sent until then.
#[derive(Debug, Default)]
struct Doubts {
    ranges: Vec<(Range, u64)>,
    flushes: u64,
}

impl Doubts {
    fn put(&mut self, range: Range) {
        self.ranges.push((range, self.flushes));
        if self.ranges.len() > DOUBTS_MAX {
            let whole = self.ranges.drain(..).map(|(range, _)| range);
            let whole = whole.reduce(|one, other| Range {
                offset: one.offset.min(other.offset),
                end: one.end.max(other.end),
                effect: Effect::Change,
            });
            let flushes = self.flushes;
            self.ranges
                .extend(whole.into_iter().map(|range| (range, flushes)));
        }
    }

    fn has(&self, range: &Range) -> bool {
        self.ranges.iter().any(|(doubt, _)| doubt.overlaps(range))
    }

    fn flush_sent(&mut self) -> u64 {
        self.flushes += 1;
        self.flushes
    }

    fn flushed(&mut self, mark: u64) {
        self.ranges.retain(|(_, sent)| *sent >= mark);
    }
}

/// An origin of which every operation ends within a time.
#[derive(Debug)]
pub(crate) struct Timed<O> {
    inner: O,
    /// As people know it.
    name: String,
    limit: Duration,
    pool: BufPool,
    /// Operations that are to be handed back, oldest first, and so in the order of their deadlines.
    asked: BTreeMap<OpId, Asked>,
    /// Operations that were given up and that the inner origin has still.
    late: Map<OpId, Option<Range>>,
    order: Order,
    doubts: Doubts,
    next: u64,
    ended: Vec<OriginDone>,
    numbers: ErrorNumbers,
    landed: Vec<OriginDone>,
}

fn must_wait(earlier: Effect, _later: Effect) -> bool {
    earlier == Effect::Change
}

impl<O: Origin> Timed<O> {
    /// Ends each operation of `inner` within `limit`. `name` is for people.
    pub(crate) fn new(inner: O, name: String, limit: Duration, pool: &BufPool) -> Self {
        Self {
            inner,
            name,
            limit,
            pool: pool.clone(),
            asked: BTreeMap::new(),
            late: Map::default(),
            order: Order::new(must_wait),
            doubts: Doubts::default(),
            next: 0,
            ended: Vec::new(),
            numbers: ErrorNumbers::default(),
            landed: Vec::new(),
        }
    }

    /// Hands an operation, whose turn it is, to the inner origin.
    fn begin(&mut self, id: OpId, op: OriginOp, now: Instant) {
        if matches!(op.verb, OriginVerb::Flush)
            && let Some(asked) = self.asked.get_mut(&id)
        {
            asked.mark = Some(self.doubts.flush_sent());
        }
        let op = OriginOp {
            token: Token(id.0),
            ..op
        };
        self.inner.submit(op, now);
    }

    /// An operation is over: those that waited for it begin.
    fn leave(&mut self, id: OpId, now: Instant) {
        for free in self.order.leave(id) {
            let asked = self.asked.get_mut(&free);
            if let Some(op) = asked.and_then(|asked| asked.waits.take()) {
                self.begin(free, op, now);
            }
        }
    }

    /// The inner origin has ended an operation.
    fn land(&mut self, one: OriginDone, now: Instant) {
        let id = OpId(one.token.0);
        let number = self.inner.error_number(one.token);
        if let Some(range) = self.late.remove(&id) {
            self.late_is_over(range);
        } else if let Some(asked) = self.asked.remove(&id) {
            self.numbers.keep(&[asked.token], number);
            if let (Some(mark), Ok(())) = (asked.mark, one.result) {
                self.doubts.flushed(mark);
            }
            let is_in_doubt = |range: &Range| self.doubts.has(range);
            self.ended.push(OriginDone {
                token: asked.token,
                volatile: one.volatile
                    || (one.buf.is_some() && asked.range.as_ref().is_some_and(is_in_doubt)),
                ..one
            });
        }
        self.leave(id, now);
    }

    fn late_is_over(&mut self, range: Option<Range>) {
        if let Some(range) = range.filter(|range| range.effect == Effect::Change) {
            self.doubts.put(range);
        }
        if self.late.is_empty() {
            tracing::info!(
                event = EventKind::OriginBack.word(),
                origin = self.name,
                "the origin has ended every request that was given up"
            );
        }
    }

    /// Hands back what has run out of time.
    fn give_up(&mut self, now: Instant) {
        while let Some(oldest) = self.asked.first_entry()
            && oldest.get().deadline <= now
        {
            let (id, asked) = oldest.remove_entry();
            let is_under_way = asked.waits.is_none();
            let own = asked.waits.and_then(|op| op.verb.into_buf());
            self.ended.push(OriginDone::plain(
                asked.token,
                own.or_else(|| asked.buf_bytes.map(|bytes| self.pool.take(bytes))),
                Err(IoError::TimedOut),
            ));
            if !is_under_way {
                self.leave(id, now);
                continue;
            }
            if self.late.is_empty() {
                let kind = FailureKind::OriginLost;
                tracing::warn!(event = EventKind::OriginLost.word(),
                    kind = kind.name(), message_id = kind.message_id(),
                    origin = self.name, request_timeout = %self.limit,
                    "the origin does not answer: requests of it fail until it does");
            }
            self.late.insert(id, asked.range);
            // A read changes nothing, whenever it ends.
            if asked
                .range
                .is_some_and(|range| range.effect == Effect::Read)
            {
                self.leave(id, now);
            }
        }
    }
}

impl<O: Origin> Origin for Timed<O> {
    fn geometry(&self) -> OriginGeometry {
        self.inner.geometry()
    }

    /// Not while a request has been given up: the far side may not answer.
    fn grow(&mut self, size: Bytes) -> Result<(), IoError> {
        if !self.late.is_empty() {
            return Err(IoError::TimedOut);
        }
        self.inner.grow(size)
    }

    fn submit(&mut self, op: OriginOp, now: Instant) {
        if let Err(error) = op.verb.check(&self.geometry()) {
            self.ended.push(op.ended(Err(error)));
            return;
        }
        let id = OpId(self.next);
        self.next += 1;
        let range = Range::of(&op.verb);
        let may_begin = range.is_none_or(
            |Range {
                 offset,
                 end,
                 effect,
             }| { self.order.enter(id, offset, end, effect) },
        );
        let buf_bytes = match &op.verb {
            OriginVerb::Read { buf, .. } => Some(buf.len()),
            OriginVerb::Write { .. }
            | OriginVerb::Flush
            | OriginVerb::Discard { .. }
            | OriginVerb::WriteZeroes { .. } => None,
        };
        let mut asked = Asked {
            token: op.token,
            deadline: now + self.limit,
            range,
            buf_bytes,
            mark: None,
            waits: None,
        };
        if may_begin {
            self.asked.insert(id, asked);
            self.begin(id, op, now);
        } else {
            asked.waits = Some(op);
            self.asked.insert(id, asked);
        }
    }

    fn poll(&mut self, now: Instant, done: &mut Vec<OriginDone>) {
        let mut landed = std::mem::take(&mut self.landed);
        self.inner.poll(now, &mut landed);
        for one in landed.drain(..) {
            self.land(one, now);
        }
        self.landed = landed;
        self.give_up(now);
        done.append(&mut self.ended);
    }

    fn stood_still(&mut self, time: Duration) {
        for asked in self.asked.values_mut() {
            asked.deadline = asked.deadline + time;
        }
        self.inner.stood_still(time);
    }

    fn next_deadline(&self) -> Option<Instant> {
        let oldest = self.asked.values().next().map(|asked| asked.deadline);
        let ended = (!self.ended.is_empty()).then_some(Instant::ZERO);
        let inner = self.inner.next_deadline();
        oldest.into_iter().chain(ended).chain(inner).min()
    }

    fn sources(&self) -> Sources {
        self.inner.sources()
    }

    /// Not while a request has been given up: the far side may not answer.
    fn fingerprint(&self) -> Option<u128> {
        if !self.late.is_empty() {
            return None;
        }
        self.inner.fingerprint()
    }

    fn condition(&self) -> Condition {
        let inner = self.inner.condition();
        let changes = self.late.values().flatten();
        let changes = changes.filter(|range| range.effect == Effect::Change);
        let late = changes.map(Range::length).fold(0, u64::saturating_add);
        Condition {
            connected: inner.connected && self.late.is_empty(),
            late: inner.late + Bytes::new(late),
            cut: inner.cut,
        }
    }

    fn error_number(&mut self, token: Token) -> Option<i32> {
        self.numbers.take(token)
    }
}

#[cfg(test)]
mod tests;
