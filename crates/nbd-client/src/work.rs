//! What the origin has been asked and not yet answered, and the requests that it becomes.
//!
//! No I/O here: [`Work`] says what to send, is told what came back, and knows nothing of
//! connections beyond how many requests fit.
//!
//! ```text
//!  submit ─► order ─► waiting ─► issue ─► pieces in flight ─► answered ─► (fua: flush) ─► done
//!              ▲                               │ connection lost
//!              └─────────── restart ◄──────────┘
//!              └── expire: time is up ──► done with an error; a change in flight stays as late
//! ```
//!
//! # Order
//! Of two operations on a common range of which one changes it, the later one is sent when the
//! earlier one has ended (`range_order`). So the server has at most one change of a byte before it,
//! no read sees a change that may still fail, and the last change that was acknowledged is the
//! last that was carried out, in whatever order the server works.
//!
//! # Why repeating is safe
//! After a loss what the server may have forgotten is repeated (`unstable.rs`), then every operation
//! that was not answered is sent again from its beginning, in the same order. Its first attempt may
//! have been carried out, in part or whole. That changes nothing, because writing the same bytes twice
//! is writing them once, and because nothing newer was sent to its range: nothing newer can be
//! overtaken by the repetition.
//! What could still overtake is the *first attempt itself*, if the old server were alive and
//! slow. Therefore a connection is given up only when its stream has ended, never because of
//! a slow answer, and all connections are drained before new ones are made: a server's end of
//! stream comes after its last write. A far side that is cut off by the network and lives on
//! is beyond what NBD can fence (decision 0008).
//!
//! # Late changes
//! A change that ran out of time may still happen. It keeps its place in the order until the server
//! answers or the stream ends: until then no newer change of its range is sent, which it could undo,
//! and no read, whose bytes it could make stale behind the cache's back. What it then leaves is in
//! doubt, as after any change that failed: `unstable.rs` says what becomes of that. The
//! same waiting is for changes that former sessions have left (`late.rs`), which no reconnect ends.
//!
//! # A server that shuts down
//! `ESHUTDOWN` says that a request was not carried out because the server is about to go. That is the
//! loss of a connection that is announced, and not an error of the request: the request is sent again
//! to the server that comes next.

use crate::SentChange;
use crate::abilities::{Abilities, Payload};
use crate::guard::{Guard, holds};
use crate::late::Late;
use crate::limits;
use crate::operation::{Failure, FlushState, Op, Owner, Piece, PieceKind, Request, Verb};
use crate::unstable::{Change, Unstable};
use block_io::{BufPool, ErrorNumbers, OriginDone, OriginOp, Slice, Token};
use nbd_protocol::{Errno, Terms};
use range_order::{Effect, OpId, Order};
use smallvec::{SmallVec, smallvec};
use std::collections::{BTreeMap, VecDeque};
use units::{Duration, Instant};

/// Everything that was asked and is not answered.
#[derive(Debug)]
pub(crate) struct Work {
    able: Abilities,
    /// Nothing may be written, not even what has been seen before.
    read_only: bool,
    time: Duration,
    pool: BufPool,
    ops: BTreeMap<OpId, Op>,
    order: Order,
    /// Operations that may begin and have something left to send, in the order in which to look at
    /// them.
    waiting: VecDeque<OpId>,
    /// Changes of former sessions.
    late: Late,
    unstable: Unstable,
    /// Repetitions that have to succeed before anything else is sent.
    repeating: usize,
    checkpoint: bool,
    /// The operations that the flush in flight is for.
    flushing: Vec<OpId>,
    restart_wanted: bool,
    /// A flush has failed since these were submitted.
    sour_before: OpId,
    next_id: u64,
    /// No deadline is earlier; it may have been met already.
    earliest: Option<Instant>,
    zeroes: Option<Slice>,
    numbers: ErrorNumbers,
}

/// Whether the later of two operations on a common range waits for the earlier one.
fn must_wait(earlier: Effect, later: Effect) -> bool {
    match (earlier, later) {
        (Effect::Read, Effect::Read) => false,
        (Effect::Change, Effect::Change) => holds(Guard::ChangesInOrder),
        (Effect::Change, Effect::Read) => holds(Guard::ReadsAfterChanges),
        (Effect::Read, Effect::Change) => holds(Guard::ChangesAfterReads),
    }
}

impl Work {
    pub(crate) fn new(terms: &Terms, read_only: bool, time: Duration, pool: BufPool) -> Self {
        Self {
            able: Abilities::of(terms),
            read_only,
            time,
            pool,
            ops: BTreeMap::new(),
            order: Order::new(must_wait),
            waiting: VecDeque::new(),
            late: Late::default(),
            unstable: Unstable::default(),
            repeating: 0,
            checkpoint: false,
            flushing: Vec::new(),
            restart_wanted: false,
            sour_before: OpId::FIRST,
            next_id: 0,
            earliest: None,
            zeroes: None,
            numbers: ErrorNumbers::default(),
        }
    }

    /// The server's number for the failure of an operation, once.
    pub(crate) fn error_number(&mut self, token: Token) -> Option<i32> {
        self.numbers.take(token)
    }

    /// Takes an operation that fits the geometry.
    pub(crate) fn submit(&mut self, op: OriginOp, now: Instant, done: &mut Vec<OriginDone>) {
        let token = op.token;
        let (offset, length, verb) = Verb::of(op.verb);
        if verb.is_moot(&self.able) {
            done.push(OriginDone::plain(token, None, Ok(())));
            return;
        }
        let end = offset + length;
        let deadline = self.late.deadline(offset, end, now, self.time);
        self.earliest.get_or_insert(deadline);
        let id = self.add(Owner::Core(token), verb, offset, length, Some(deadline));
        if self.may_begin(id) {
            self.waiting.push_back(id);
        }
    }

    fn add(
        &mut self,
        owner: Owner,
        verb: Verb,
        offset: u64,
        length: u64,
        deadline: Option<Instant>,
    ) -> OpId {
        let id = OpId(self.next_id);
        self.next_id += 1;
        let flush = FlushState::at_first(&verb);
        let op = Op {
            owner,
            verb,
            offset,
            length,
            issued: 0,
            flying: 0,
            refused: false,
            tried: false,
            flush,
            failed: None,
            deadline,
        };
        self.ops.insert(id, op);
        id
    }

    /// Puts an operation behind those that came before it. A flush has no range and waits for none.
    fn may_begin(&mut self, id: OpId) -> bool {
        let op = &self.ops[&id];
        let effect = if op.is_change() {
            Effect::Change
        } else {
            Effect::Read
        };
        op.length == 0 || self.order.enter(id, op.offset, op.end(), effect)
    }

    /// Hands out up to `room` requests to be sent now.
    pub(crate) fn issue(&mut self, mut room: usize, send: &mut impl FnMut(Request)) {
        if self.able.flush() && self.unstable.wants_flush() && !self.checkpoint {
            self.checkpoint = true;
            let id = self.add(Owner::Checkpoint, Verb::Flush, 0, 0, None);
            self.waiting.push_front(id);
        }
        let mut index = 0;
        while room > 0 && index < self.waiting.len() {
            let id = self.waiting[index];
            if !self.ops.get(&id).is_some_and(Op::has_more) {
                self.waiting.remove(index);
            } else if let Some(request) = self.next_piece(id) {
                send(request);
                room -= 1;
            } else {
                index += 1;
            }
        }
    }

    /// The next request of an operation, unless it has to wait.
    fn next_piece(&mut self, id: OpId) -> Option<Request> {
        let op = self.ops.get(&id)?;
        let others_wait = self.repeating > 0 && holds(Guard::RepeatFirst);
        if others_wait && op.owner != Owner::Repeat {
            return None;
        }
        if op.flush == FlushState::Due {
            let wait = !self.flushing.is_empty() && holds(Guard::OneFlushAtATime);
            return (!wait).then(|| self.flush_piece(id));
        }
        if op.failed.is_some() || op.refused || op.flying >= limits::PIECES_PER_OPERATION_MAX {
            return None;
        }
        if self.late.holds(op.offset, op.end()) && holds(Guard::FormerChangesFirst) {
            return None;
        }
        let offset = op.offset + op.issued;
        let left = op.length - op.issued;
        let (kind, way) = match &op.verb {
            Verb::Flush | Verb::Given => return None,
            Verb::Read(_) => {
                // What it sees may have to be kept.
                if self.unstable.is_full() && self.unstable.is_in_doubt(op.offset, op.end()) {
                    return None;
                }
                (PieceKind::Read, self.able.read())
            }
            Verb::Change { change, fua } => {
                if op.owner != Owner::Repeat && self.unstable.is_full() {
                    return None;
                }
                (PieceKind::Change, self.able.change(change, *fua))
            }
        };
        let length = u32::try_from(left).unwrap_or(u32::MAX).min(way.bytes_max);
        let payload = match (way.payload, &op.verb) {
            (Payload::Own, Verb::Change { change, .. }) => change.payload(op.issued, length),
            (Payload::Zeroes, _) => Some(self.zeroes(length)),
            _ => None,
        };
        let op = self.ops.get_mut(&id)?;
        let piece = Piece {
            op: id,
            at: op.issued,
            length,
            kind,
        };
        op.issued += u64::from(length);
        op.flying += 1;
        op.tried = true;
        Some(Request {
            piece,
            command: way.command,
            flags: way.flags,
            offset,
            payload,
        })
    }

    fn zeroes(&mut self, length: u32) -> Slice {
        let zeroes = self
            .zeroes
            .get_or_insert_with(|| self.pool.take_zeroed(limits::ZERO_BYTES as usize).freeze());
        zeroes.slice(0..length as usize)
    }

    /// Takes over what former sessions have left.
    pub(crate) fn expect_late_changes(&mut self, changes: &[SentChange], patience: Instant) {
        let changes = changes.iter();
        let changes = changes.map(|change| (change.cookie, change.offset, change.length));
        self.late.begin(changes, patience);
    }

    /// A change of a former session is over: nobody knows what it has left.
    pub(crate) fn late_change_is_over(&mut self, cookie: u64) {
        if let Some((offset, end)) = self.late.end(cookie)
            && offset < end
        {
            self.doubt(OpId::FIRST, offset, end);
        }
    }

    /// Bytes of changes that were given up, by this session or before it, and may still happen.
    pub(crate) fn late_bytes(&self) -> u64 {
        let ours = self.ops.values().filter(|op| op.owner == Owner::Late);
        ours.fold(self.late.bytes(), |sum, op| sum.saturating_add(op.length))
    }

    /// Puts bytes of a read in their place; `at` counts from the start of the piece.
    pub(crate) fn place(&mut self, piece: &Piece, at: u32, bytes: &[u8]) {
        if let Some(target) = self.target(piece, at, bytes.len()) {
            target.copy_from_slice(bytes);
        }
    }

    /// Likewise for `length` zeroes.
    pub(crate) fn place_zeroes(&mut self, piece: &Piece, at: u32, length: u32) {
        if let Some(target) = self.target(piece, at, length as usize) {
            target.fill(0);
        }
    }

    /// None if the operation was given up in the meantime.
    fn target(&mut self, piece: &Piece, at: u32, length: usize) -> Option<&mut [u8]> {
        let op = self.ops.get_mut(&piece.op)?;
        let Verb::Read(buf) = &mut op.verb else {
            return None;
        };
        let start = usize::try_from(piece.at + u64::from(at)).ok()?;
        buf.get_mut(start..start.checked_add(length)?)
    }

    /// Takes the answer to a piece.
    pub(crate) fn answered(
        &mut self,
        piece: &Piece,
        result: Result<(), Errno>,
        now: Instant,
        done: &mut Vec<OriginDone>,
    ) {
        if let PieceKind::Flush(mark) = piece.kind {
            match result {
                Ok(()) => self.unstable.flushed(mark),
                Err(_) => self.flush_failed(),
            }
        }
        for id in self.asked_by(piece) {
            // It may have been given up, and nothing depend on its end.
            let Some(op) = self.ops.get_mut(&id) else {
                continue;
            };
            op.flying -= 1;
            if let Some(deadline) = &mut op.deadline {
                *deadline = now + self.time;
            }
            if let Err(errno) = result {
                op.failed.get_or_insert(Failure::Server(errno));
            }
            self.piece_ended(id, done);
        }
    }

    /// The operations that a piece was sent for.
    fn asked_by(&mut self, piece: &Piece) -> SmallVec<[OpId; 1]> {
        match piece.kind {
            PieceKind::Flush(_) => std::mem::take(&mut self.flushing).into(),
            PieceKind::Read | PieceKind::Change => smallvec![piece.op],
        }
    }

    /// The server has refused a piece because it shuts down. The operation stays as it is until the
    /// next server is there.
    pub(crate) fn refused(&mut self, piece: &Piece, done: &mut Vec<OriginDone>) {
        for id in self.asked_by(piece) {
            if let Some(op) = self.ops.get_mut(&id) {
                op.flying -= 1;
                op.refused = holds(Guard::RefusedIsNotDone);
                self.piece_ended(id, done);
            }
        }
    }

    fn piece_ended(&mut self, id: OpId, done: &mut Vec<OriginDone>) {
        let op = self.ops.get(&id).expect("the operation was found");
        if op.flying > 0 {
            return;
        }
        if op.failed.is_some() {
            self.waiting.retain(|waiting| *waiting != id);
            self.finish(id, done);
        } else if !op.refused && !op.has_more() {
            self.last_piece(id, done);
        }
    }

    /// All pieces have succeeded: done, or a flush is still due.
    fn last_piece(&mut self, id: OpId, done: &mut Vec<OriginDone>) {
        let emulate = self.able.flush() && !self.able.fua() && holds(Guard::FlushForFua);
        let op = self.ops.get_mut(&id).expect("the operation was found");
        let fua = matches!(op.verb, Verb::Change { fua: true, .. });
        if fua && emulate && op.flush == FlushState::NotDue {
            op.flush = FlushState::Due;
            self.waiting.push_back(id);
        } else {
            self.finish(id, done);
        }
    }

    /// An operation has ended and can happen no more.
    fn finish(&mut self, id: OpId, done: &mut Vec<OriginDone>) {
        let Some(op) = self.ops.remove(&id) else {
            return;
        };
        let result = op.failed.map_or(Ok(()), |failure| Err(failure.error()));
        let (offset, end) = (op.offset, op.end());
        if op.is_change() && op.tried && result.is_err() && op.owner != Owner::Repeat {
            self.doubt(id, offset, end);
        }
        match (op.owner, op.verb) {
            (Owner::Repeat, _) => {
                self.repeating -= 1;
                self.restart_wanted |= result.is_err();
                if result.is_ok() && !self.able.flush() {
                    self.unstable.carve(offset, end);
                }
            }
            (Owner::Checkpoint, _) => self.checkpoint = false,
            (Owner::Late, _) => {}
            (Owner::Core(token), verb) => {
                let (mut buf, mut volatile) = (None, false);
                match (verb, result) {
                    (Verb::Change { change, fua }, Ok(())) => self.note(offset, end, change, fua),
                    (Verb::Read(read), result) => {
                        if result.is_ok() {
                            let length = usize::try_from(op.length).unwrap_or(usize::MAX);
                            volatile = self.seen(offset, &read[..length]);
                        }
                        buf = Some(read);
                    }
                    (Verb::Change { .. } | Verb::Flush | Verb::Given, _) => {}
                }
                let number = op.failed.and_then(Failure::number);
                self.numbers.keep(&[token], number);
                done.push(OriginDone {
                    token,
                    buf,
                    result,
                    volatile,
                    passes: false,
                });
            }
        }
        self.waiting.extend(self.order.leave(id));
    }

    /// Somebody sees these bytes. Whether no flush vouches for them so far.
    fn seen(&mut self, offset: u64, bytes: &[u8]) -> bool {
        if !self
            .unstable
            .is_in_doubt(offset, offset + bytes.len() as u64)
        {
            return false;
        }
        if !self.read_only {
            self.restart_wanted |= self.unstable.seen(offset, bytes, &self.pool);
        }
        holds(Guard::DoubtIsVolatile)
    }

    /// Remembers a change that was acknowledged, unless it is durable.
    fn note(&mut self, offset: u64, end: u64, change: Change, fua: bool) {
        if fua || !self.able.flush() {
            self.unstable.carve(offset, end);
        } else {
            let change = change.compact(&self.pool);
            self.unstable.record(offset, end, change);
        }
    }

    /// Remembers that nobody knows what a change has left. A server without flush forgets nothing, so
    /// what is there stays.
    fn doubt(&mut self, id: OpId, offset: u64, end: u64) {
        if self.able.flush() {
            let sour = id < self.sour_before;
            self.unstable.doubt(offset, end, sour);
        }
    }

    /// Whether the connections should be drained and made anew, so that everything unstable
    /// is repeated.
    pub(crate) fn wants_restart(&self) -> bool {
        self.restart_wanted
    }
}

mod flushes;
mod give_up;
mod restart;
#[cfg(test)]
mod tests;
