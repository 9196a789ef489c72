//! A device that fails by a plan: errors, stalls, misdirected and rotten data, lost writes.

use crate::Device;
use block_io::{BounceBuffers, FlashDone, FlashOp, FlashVerb, OriginDone, OriginVerb, PAGE_BYTES};
use medium::{Faults, Injector, flash_done, medium_verb};
use ring::SourceId;
use units::{Bytes, Instant};

/// Wraps a device and does to its operations what a [`Faults`] plan says.
#[derive(Debug)]
pub struct Faulty<D> {
    inner: D,
    injector: Injector,
    bounce_buffers: BounceBuffers,
    done: Vec<FlashDone>,
}

impl<D: Device> Faulty<D> {
    /// Wraps `inner`; keep a clone of `faults` to steer it.
    pub fn new(inner: D, faults: Faults) -> Self {
        let injector = Injector::new(faults, inner.capacity(), Bytes::new(PAGE_BYTES as u64));
        Self {
            inner,
            injector,
            bounce_buffers: BounceBuffers::default(),
            done: Vec::new(),
        }
    }
}

impl<D: Device> Device for Faulty<D> {
    fn capacity(&self) -> Bytes {
        self.inner.capacity()
    }

    fn submit(&mut self, op: FlashOp, now: Instant) {
        let op = self.bounce_buffers.begin(op);
        if let Some(verb) = self.injector.inject(op.token, medium_verb(op.verb), now) {
            let verb = flash_verb(verb);
            let token = op.token;
            self.inner.submit(FlashOp { token, verb }, now);
        }
    }

    fn poll(&mut self, now: Instant, done: &mut Vec<FlashDone>) {
        while let Some((token, verb)) = self.injector.due(now) {
            let verb = flash_verb(verb);
            self.inner.submit(FlashOp { token, verb }, now);
        }
        let answered = self.injector.take_answered().map(flash_done);
        done.extend(answered.map(|one| self.bounce_buffers.end(one)));
        self.inner.poll(now, &mut self.done);
        for one in self.done.drain(..) {
            let one = OriginDone {
                token: one.token,
                buf: one.buf,
                result: one.result,
                volatile: false,
                passes: false,
            };
            let one = flash_done(self.injector.returned(one));
            done.push(self.bounce_buffers.end(one));
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        let inner = self.inner.next_deadline();
        let own = self.injector.next_deadline();
        inner.into_iter().chain(own).min()
    }

    fn source(&self) -> Option<SourceId> {
        self.inner.source()
    }
}

/// Back to the words of flash; the injector makes no verb of another kind than it was given.
fn flash_verb(verb: OriginVerb) -> FlashVerb {
    match verb {
        OriginVerb::Read {
            offset,
            length,
            buf,
        } => FlashVerb::Read {
            offset,
            length,
            buf,
        },
        OriginVerb::Write { offset, data, fua } => FlashVerb::Write {
            offset,
            data,
            durable: fua,
        },
        OriginVerb::Flush => FlashVerb::Flush,
        OriginVerb::Discard { .. } | OriginVerb::WriteZeroes { .. } => {
            unreachable!("flash is never asked to discard or to zero")
        }
    }
}
