//! What the origin has been asked and not yet answered, and the requests that it becomes.
//!
//! No I/O here: [`Work`] says what to send, is told what came back, and knows nothing of
//! connections beyond how many requests fit.
//!
//! ```text
//!  submit ─► waiting ─► issue ─► pieces in flight ─► answered ─► (fua: flush) ─► done
//!               ▲                     │ connection lost
//!               └───── restart ◄──────┘
//!               └── expire: time is up ──► done with an error; its changes become ghosts
//! ```
//!
//! # Why repeating is safe
//! After a loss every operation that was not answered is sent again from its beginning. The
//! first attempt may have been carried out, in part or whole. That changes nothing, because
//! writing the same bytes twice is writing them once, and because the core never has two
//! overlapping changes in flight: nothing newer can be overtaken by the repetition.
//! What could still overtake is the *first attempt itself*, if the old server were alive and
//! slow. Therefore a connection is given up only when its stream has ended, never because of
//! a slow answer, and all connections are drained before new ones are made: a server's end of
//! stream comes after its last write. A far side that is cut off by the network and lives on
//! is beyond what NBD can fence (decision 0008).
//!
//! # Ghosts
//! A change that ran out of time may still happen. Its range is a ghost until the server
//! answers or the stream ends. Until then no newer change of that range is sent, which it
//! could undo, and no read, whose bytes it could make stale behind the cache's back.

use crate::abilities::{Abilities, Payload};
use crate::limits;
use crate::operation::{Op, OpId, Owner, Piece, PieceKind, Request, Verb};
use crate::unstable::{Change, Unstable};
use block_io::{BufPool, IoError, OriginDone, OriginOp, Slice};
use nbd_protocol::{CommandFlags, Terms, wire};
use std::collections::{BTreeMap, VecDeque};
use units::{Duration, Instant};

/// A change that was given up and may still happen.
#[derive(Debug)]
struct Ghost {
    offset: u64,
    end: u64,
    flying: u32,
}

/// Everything that was asked and is not answered.
#[derive(Debug)]
pub(crate) struct Work {
    able: Abilities,
    time: Duration,
    pool: BufPool,
    ops: BTreeMap<OpId, Op>,
    /// Operations with something left to send, in the order in which to look at them.
    waiting: VecDeque<OpId>,
    ghosts: BTreeMap<OpId, Ghost>,
    unstable: Unstable,
    /// Repetitions that have to succeed before anything else is sent.
    repeating: usize,
    checkpoint: bool,
    restart_wanted: bool,
    next_id: u64,
    /// No deadline is earlier; it may have been met already.
    earliest: Option<Instant>,
    zeroes: Option<Slice>,
}

impl Work {
    pub(crate) fn new(terms: &Terms, time: Duration, pool: BufPool) -> Self {
        Self {
            able: Abilities::of(terms),
            time,
            pool,
            ops: BTreeMap::new(),
            waiting: VecDeque::new(),
            ghosts: BTreeMap::new(),
            unstable: Unstable::default(),
            repeating: 0,
            checkpoint: false,
            restart_wanted: false,
            next_id: 0,
            earliest: None,
            zeroes: None,
        }
    }

    /// Takes an operation that fits the geometry.
    pub(crate) fn submit(&mut self, op: OriginOp, now: Instant, done: &mut Vec<OriginDone>) {
        let token = op.token;
        let (offset, length, verb) = Verb::of(op.verb);
        if verb.is_moot(&self.able) {
            done.push(OriginDone {
                token,
                buf: None,
                result: Ok(()),
            });
            return;
        }
        let deadline = now + self.time;
        self.earliest.get_or_insert(deadline);
        let owner = Owner::Core(token);
        let id = self.add(owner, verb, offset, length, Some(deadline));
        self.waiting.push_back(id);
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
        let op = Op {
            owner,
            verb,
            offset,
            length,
            issued: 0,
            flying: 0,
            syncing: false,
            flush_issued: false,
            failed: None,
            deadline,
        };
        self.ops.insert(id, op);
        id
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
            match self.next_piece(id) {
                Some(request) => {
                    send(request);
                    room -= 1;
                    if !self.has_more(id) {
                        self.waiting.remove(index);
                    }
                }
                None => index += 1,
            }
        }
    }

    fn has_more(&self, id: OpId) -> bool {
        self.ops.get(&id).is_some_and(|op| {
            if op.syncing || matches!(op.verb, Verb::Flush) {
                !op.flush_issued
            } else {
                op.issued < op.length
            }
        })
    }

    /// The next request of an operation, unless it has to wait.
    fn next_piece(&mut self, id: OpId) -> Option<Request> {
        let op = self.ops.get(&id)?;
        if self.repeating > 0 && op.owner != Owner::Repeat {
            return None;
        }
        if op.syncing || matches!(op.verb, Verb::Flush) {
            return Some(self.flush_piece(id));
        }
        if op.failed.is_some() || op.flying >= limits::PIECES_PER_OPERATION_MAX {
            return None;
        }
        if self.is_haunted(op.offset, op.offset + op.length) {
            return None;
        }
        let offset = op.offset + op.issued;
        let left = op.length - op.issued;
        let (kind, way) = match &op.verb {
            Verb::Flush => return None,
            Verb::Read(_) => (PieceKind::Read, self.able.read()),
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
        Some(Request {
            piece,
            command: way.command,
            flags: way.flags,
            offset,
            payload,
        })
    }

    fn flush_piece(&mut self, id: OpId) -> Request {
        let mark = self.unstable.flush_sent();
        let op = self.ops.get_mut(&id).expect("the operation was found");
        op.flush_issued = true;
        op.flying += 1;
        Request {
            piece: Piece {
                op: id,
                at: 0,
                length: 0,
                kind: PieceKind::Flush(mark),
            },
            command: wire::command::FLUSH,
            flags: CommandFlags::NONE,
            offset: 0,
            payload: None,
        }
    }

    fn zeroes(&mut self, length: u32) -> Slice {
        let zeroes = self
            .zeroes
            .get_or_insert_with(|| self.pool.take_zeroed(limits::ZERO_BYTES as usize).freeze());
        zeroes.slice(0..length as usize)
    }

    fn is_haunted(&self, offset: u64, end: u64) -> bool {
        let mut ghosts = self.ghosts.values();
        ghosts.any(|ghost| ghost.offset < end && offset < ghost.end)
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
        result: Result<(), IoError>,
        now: Instant,
        done: &mut Vec<OriginDone>,
    ) {
        if let PieceKind::Flush(mark) = piece.kind {
            match result {
                Ok(()) => self.unstable.flushed(mark),
                // A server whose flush failed may have dropped what it could not write, and
                // its next flush would not know. Repeating the changes makes that one true.
                Err(_) => self.restart_wanted |= !self.unstable.is_empty(),
            }
        }
        let Some(op) = self.ops.get_mut(&piece.op) else {
            self.ghost_answered(piece.op);
            return;
        };
        op.flying -= 1;
        if let Some(deadline) = &mut op.deadline {
            *deadline = now + self.time;
        }
        if let Err(error) = result {
            op.failed.get_or_insert(error);
        }
        if op.flying > 0 {
            return;
        }
        if op.failed.is_some() {
            self.waiting.retain(|id| *id != piece.op);
            self.finish(piece.op, done);
        } else if !self.has_more(piece.op) {
            self.last_piece(piece.op, done);
        }
    }

    /// All pieces have succeeded: done, or a flush is still due.
    fn last_piece(&mut self, id: OpId, done: &mut Vec<OriginDone>) {
        let emulate = self.able.flush() && !self.able.fua();
        let op = self.ops.get_mut(&id).expect("the operation was found");
        let fua = matches!(op.verb, Verb::Change { fua: true, .. });
        if fua && emulate && !op.syncing {
            op.syncing = true;
            self.waiting.push_back(id);
        } else {
            self.finish(id, done);
        }
    }

    fn finish(&mut self, id: OpId, done: &mut Vec<OriginDone>) {
        let Some(op) = self.ops.remove(&id) else {
            return;
        };
        let result = op.failed.map_or(Ok(()), Err);
        match op.owner {
            Owner::Repeat => {
                self.repeating -= 1;
                self.restart_wanted |= result.is_err();
            }
            Owner::Checkpoint => {
                self.checkpoint = false;
            }
            Owner::Core(token) => {
                let (buf, change) = match op.verb {
                    Verb::Read(buf) => (Some(buf), None),
                    Verb::Change { change, fua } => (None, Some((change, fua))),
                    Verb::Flush => (None, None),
                };
                if let (Some((change, fua)), Ok(())) = (change, result) {
                    self.note(op.offset, op.length, change, fua);
                }
                done.push(OriginDone { token, buf, result });
            }
        }
    }

    /// Remembers a change that was acknowledged, unless it is durable.
    fn note(&mut self, offset: u64, length: u64, change: Change, fua: bool) {
        let end = offset + length;
        if fua || !self.able.flush() {
            self.unstable.carve(offset, end);
        } else {
            let change = change.compact(&self.pool);
            self.unstable.record(offset, end, change);
        }
    }

    fn ghost_answered(&mut self, id: OpId) {
        if let Some(ghost) = self.ghosts.get_mut(&id) {
            ghost.flying -= 1;
            if ghost.flying == 0 {
                self.ghosts.remove(&id);
            }
        }
    }

    /// Ends operations whose time is up.
    pub(crate) fn expire(&mut self, now: Instant, error: IoError, done: &mut Vec<OriginDone>) {
        if self.earliest.is_none_or(|earliest| now < earliest) {
            return;
        }
        let over = |op: &Op| op.deadline.is_some_and(|deadline| deadline <= now);
        let late = self.ops.iter().filter(|(_, op)| over(op));
        let late: Vec<OpId> = late.map(|(id, _)| *id).collect();
        for id in late {
            self.give_up(id, error, done);
        }
        self.earliest = self.ops.values().filter_map(|op| op.deadline).min();
    }

    /// Ends everything that the core has asked, with an error.
    pub(crate) fn fail_all(&mut self, error: IoError, done: &mut Vec<OriginDone>) {
        let all: Vec<OpId> = self.ops.keys().copied().collect();
        for id in all {
            self.give_up(id, error, done);
        }
        self.earliest = None;
    }

    fn give_up(&mut self, id: OpId, error: IoError, done: &mut Vec<OriginDone>) {
        let Some(op) = self.ops.get_mut(&id) else {
            return;
        };
        op.failed = Some(error);
        if matches!(op.verb, Verb::Change { .. }) && op.flying > 0 {
            let ghost = Ghost {
                offset: op.offset,
                end: op.offset + op.length,
                flying: op.flying,
            };
            self.ghosts.insert(id, ghost);
        }
        self.waiting.retain(|waiting| *waiting != id);
        self.finish(id, done);
    }

    /// When [`Work::expire`] has something to do at the earliest.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.earliest
    }

    /// Whether the connections should be drained and made anew, so that everything unstable
    /// is repeated.
    pub(crate) fn wants_restart(&self) -> bool {
        self.restart_wanted
    }

    /// Goes back to before anything was sent: every connection is gone, and new ones have
    /// these terms.
    pub(crate) fn restart(&mut self, terms: &Terms, done: &mut Vec<OriginDone>) {
        self.able = Abilities::of(terms);
        self.ghosts.clear();
        self.restart_wanted = false;
        self.checkpoint = false;
        self.ops.retain(|_, op| matches!(op.owner, Owner::Core(_)));
        for op in self.ops.values_mut() {
            op.issued = 0;
            op.flying = 0;
            op.syncing = false;
            op.flush_issued = false;
            op.failed = None;
        }
        let repeats: Vec<(u64, u64, Change)> = self
            .unstable
            .iter()
            .filter(|(_, _, change)| self.able.trim() || !matches!(change, Change::Discard))
            .map(|(start, end, change)| (start, end - start, change.clone()))
            .collect();
        self.waiting.clear();
        let able = self.able;
        let moot = self.ops.iter().filter(|(_, op)| op.verb.is_moot(&able));
        let moot: Vec<OpId> = moot.map(|(id, _)| *id).collect();
        for id in moot {
            self.finish(id, done);
        }
        let core: Vec<OpId> = self.ops.keys().copied().collect();
        self.repeating = repeats.len();
        for (offset, length, change) in repeats {
            let verb = Verb::Change { change, fua: false };
            let id = self.add(Owner::Repeat, verb, offset, length, None);
            self.waiting.push_back(id);
        }
        self.waiting.extend(core);
    }
}

#[cfg(test)]
mod tests;
