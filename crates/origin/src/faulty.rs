//! An origin that fails by a plan: errors, stalls, lost and misdirected writes.

use crate::{Condition, Origin, Sources};
use block_io::{IoError, OriginDone, OriginGeometry, OriginOp};
use medium::{Faults, Injector};
use units::{Bytes, DiskSlot, Duration, Instant};

/// Wraps an origin and does to its operations what a [`Faults`] plan says.
#[derive(Debug)]
pub struct Faulty<O> {
    inner: O,
    injector: Injector,
    /// The disk of the operations; an origin has one.
    disk: DiskSlot,
    done: Vec<OriginDone>,
}

impl<O: Origin> Faulty<O> {
    /// Wraps `inner`; keep a clone of `faults` to steer it.
    pub fn new(inner: O, faults: Faults) -> Self {
        let geometry = inner.geometry();
        Self {
            inner,
            injector: Injector::new(faults, geometry.size, geometry.sector),
            disk: DiskSlot::new(0),
            done: Vec::new(),
        }
    }
}

impl<O: Origin> Origin for Faulty<O> {
    fn geometry(&self) -> OriginGeometry {
        self.inner.geometry()
    }

    fn submit(&mut self, op: OriginOp, now: Instant) {
        let OriginOp { token, disk, verb } = op;
        self.disk = disk;
        if let Some(verb) = self.injector.inject(token, verb, now) {
            self.inner.submit(OriginOp { token, disk, verb }, now);
        }
    }

    fn poll(&mut self, now: Instant, done: &mut Vec<OriginDone>) {
        let disk = self.disk;
        while let Some((token, verb)) = self.injector.due(now) {
            self.inner.submit(OriginOp { token, disk, verb }, now);
        }
        done.extend(self.injector.take_answered());
        self.inner.poll(now, &mut self.done);
        for one in self.done.drain(..) {
            done.push(self.injector.returned(one));
        }
    }

    fn stood_still(&mut self, time: Duration) {
        self.inner.stood_still(time);
    }

    fn next_deadline(&self) -> Option<Instant> {
        let inner = self.inner.next_deadline();
        let own = self.injector.next_deadline();
        inner.into_iter().chain(own).min()
    }

    fn sources(&self) -> Sources {
        self.inner.sources()
    }

    fn grow(&mut self, size: Bytes) -> Result<(), IoError> {
        self.inner.grow(size)
    }

    fn fingerprint(&self) -> Option<u128> {
        self.inner.fingerprint()
    }

    fn condition(&self) -> Condition {
        self.inner.condition()
    }
}
