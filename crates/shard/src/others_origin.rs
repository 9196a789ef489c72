//! What is in the place of the origin of a disk that another host has: nothing is written, and reads go to that host, or
//! beside it to the origin itself.
//!
//! What is discarded here the other host has changed, and what is to be flushed it has written: both are done.

use crate::borrowed::{AskTell, Loans};
use block_io::{IoError, OriginDone, OriginGeometry, OriginOp, OriginVerb, Token};
use borrowing::{Ended, without_origin};
use origin::{Condition, Origin, Sources};
use units::{Bytes, Duration, Instant};

/// The other host answers reads, or nobody does.
pub(crate) struct OthersOrigin {
    geometry: OriginGeometry,
    loans: Loans,
    tell: AskTell,
    /// Ended, and not told yet.
    done: Vec<OriginDone>,
}

impl OthersOrigin {
    pub(crate) fn new(geometry: OriginGeometry, loans: Loans, tell: AskTell) -> Self {
        Self {
            geometry,
            loans,
            tell,
            done: Vec::new(),
        }
    }

    fn take_in(&mut self, ended: Ended) {
        self.done.extend(ended.done);
        self.done
            .extend(ended.origin.into_iter().map(without_origin));
        for ask in ended.asks {
            (self.tell)(ask);
        }
    }
}

impl Origin for OthersOrigin {
    fn geometry(&self) -> OriginGeometry {
        self.geometry
    }

    fn grow(&mut self, _size: Bytes) -> Result<(), IoError> {
        Err(IoError::NotPermitted)
    }

    fn submit(&mut self, op: OriginOp, now: Instant) {
        if let OriginVerb::Read { .. } = op.verb {
            let ended = self.loans.submit(op, now);
            self.take_in(ended);
        } else {
            self.done.push(without_origin(op));
        }
    }

    fn poll(&mut self, now: Instant, done: &mut Vec<OriginDone>) {
        let ended = self.loans.poll(now);
        self.take_in(ended);
        done.append(&mut self.done);
    }

    fn next_deadline(&self) -> Option<Instant> {
        let done = (!self.done.is_empty()).then_some(Instant::ZERO);
        done.or_else(|| self.loans.next_deadline())
    }

    fn sources(&self) -> Sources {
        Sources::new()
    }

    fn fingerprint(&self) -> Option<u128> {
        None
    }
}

/// The origin answers reads, which another host writes: what that host has changed since is discarded here.
pub(crate) struct OriginBeside {
    origin: Box<dyn Origin>,
    /// Ended, and not told yet.
    done: Vec<OriginDone>,
}

impl OriginBeside {
    pub(crate) fn new(origin: Box<dyn Origin>) -> Self {
        let done = Vec::new();
        Self { origin, done }
    }
}

impl Origin for OriginBeside {
    fn geometry(&self) -> OriginGeometry {
        // Otherwise no copy could be discarded.
        OriginGeometry {
            read_only: false,
            can_discard: true,
            ..self.origin.geometry()
        }
    }

    fn grow(&mut self, _size: Bytes) -> Result<(), IoError> {
        Err(IoError::NotPermitted)
    }

    fn submit(&mut self, op: OriginOp, now: Instant) {
        if let OriginVerb::Read { .. } = op.verb {
            self.origin.submit(op, now);
        } else {
            self.done.push(without_origin(op));
        }
    }

    fn poll(&mut self, now: Instant, done: &mut Vec<OriginDone>) {
        done.append(&mut self.done);
        self.origin.poll(now, done);
    }

    fn stood_still(&mut self, time: Duration) {
        self.origin.stood_still(time);
    }

    fn next_deadline(&self) -> Option<Instant> {
        let done = (!self.done.is_empty()).then_some(Instant::ZERO);
        done.or_else(|| self.origin.next_deadline())
    }

    fn sources(&self) -> Sources {
        self.origin.sources()
    }

    fn fingerprint(&self) -> Option<u128> {
        None
    }

    fn condition(&self) -> Condition {
        self.origin.condition()
    }

    fn error_number(&mut self, token: Token) -> Option<i32> {
        self.origin.error_number(token)
    }
}
