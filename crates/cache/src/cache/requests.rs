//! Requests of guests: begun, and handed to whatever answers them.

use super::Cache;
use crate::api::{Effect, Request, RequestId};
use crate::request::{Asked, Span};
use crate::under_way::Aim;
use crate::writes::Change;
use block_io::{GuestBuffer, Verb};
use std::rc::Rc;
use units::{BLOCK_BYTES, BlockIndex, Bytes, DiskSlot, Instant, TenantSlot};

impl Cache {
    /// A guest asks. Exactly one [`Effect::Reply`] with the same id follows.
    ///
    /// # Panics
    /// Never on anything that a guest can ask: what is wrong is answered with an error.
    pub fn request(&mut self, request: Request, now: Instant) {
        self.begin(request, Aim::Buffers, now);
    }

    /// A guest asks for a read, and says where it wants the bytes: what lies on flash goes there
    /// directly. Exactly one [`Effect::ReplyInPlace`] or [`Effect::Reply`] with the same id follows; after
    /// that nothing is put there any more.
    ///
    /// # Panics
    /// If it is no read, or wants another number of bytes. Never on anything that a guest can ask.
    pub fn request_into(&mut self, request: Request, into: Rc<dyn GuestBuffer>, now: Instant) {
        let Verb::Read { length, .. } = request.verb else {
            panic!("only a read brings bytes: {request:?}");
        };
        assert!(
            length.get() == into.bytes() as u64,
            "a read has memory for its bytes"
        );
        self.begin(request, Aim::Into(into), now);
    }

    /// Asks when what was read of a disk so far is durable: before another host may have it, whose guest goes on when
    /// this host has lost power. Exactly one [`Effect::Reply`] with the same id and without bytes follows. No flush that
    /// has failed is told of by it.
    pub fn when_durable(&mut self, id: RequestId, disk: DiskSlot, vm: TenantSlot, now: Instant) {
        self.state.ports.set_now(now);
        match self.state.disks.begin(disk, vm, &Verb::Flush) {
            Ok(()) if self.state.back_requests().when_durable(id, disk) => {}
            Ok(()) => self
                .state
                .disks
                .reply(&mut self.state.ports, disk, id, Ok(())),
            Err(error) => self.state.ports.push(Effect::Reply {
                request: id,
                result: Err(error),
            }),
        }
        self.pump();
    }

    fn begin(&mut self, request: Request, aim: Aim, now: Instant) {
        self.state.ports.set_now(now);
        let Request { id, disk, vm, verb } = request;
        let is_read = matches!(verb, Verb::Read { .. });
        match self.state.disks.begin(disk, vm, &verb) {
            Ok(()) => self.start(id, disk, vm, verb, aim),
            Err(error) => self.state.ports.push(Effect::Reply {
                request: id,
                result: Err(error),
            }),
        }
        if is_read {
            self.pump_soon();
        } else {
            self.pump();
        }
    }

    fn start(&mut self, id: RequestId, disk: DiskSlot, vm: TenantSlot, verb: Verb, aim: Aim) {
        let back = self.state.backs.has(disk);
        if back {
            self.state.backs.asked(disk, self.state.ports.now());
        }
        let span = |offset, length| Span {
            id,
            disk,
            vm,
            offset,
            length,
        };
        let stats = self.state.disks.stats(disk);
        match verb {
            Verb::Read { offset, length } => {
                stats.read_requests += 1;
                stats.read_bytes += length.get();
                if let Some(views) = self.state.disks.views(disk) {
                    views.asked(vm, length);
                }
                self.state.guest_reads().read(span(offset, length), aim);
            }
            Verb::Prefetch { offset, length } => {
                self.state
                    .guest_reads()
                    .read(span(offset, length), Aim::CacheOnly);
            }
            Verb::Write { offset, data, fua } => {
                stats.write_requests += 1;
                stats.written_bytes += data.len() as u64;
                let length = Bytes::new(data.len() as u64);
                let change = Change::Data { bytes: data, fua };
                self.write(span(offset, length), change);
            }
            Verb::Flush => {
                stats.flush_requests += 1;
                if back && self.state.origin_flushes().ask_for_late_reads(id, disk) {
                    return;
                }
                self.flush(id, disk);
            }
            Verb::Discard { offset, length } => {
                stats.erase_requests += 1;
                self.write(span(offset, length), Change::Discard);
            }
            Verb::WriteZeroes {
                offset,
                length,
                may_unmap,
                fua,
            } => {
                stats.erase_requests += 1;
                let change = Change::Zeroes { may_unmap, fua };
                self.write(span(offset, length), change);
            }
        }
    }

    /// Answers a guest's flush when what the guest was told of is durable in the log, or at the origin without one.
    pub(super) fn flush(&mut self, id: RequestId, disk: DiskSlot) {
        if !self.state.backs.has(disk) || !self.state.back_requests().flush(id, disk) {
            self.state.origin_flushes().ask(id, disk, Asked::Flush);
        }
    }

    fn write(&mut self, span: Span, change: Change) {
        if self.state.reads.foresight().is_on() {
            let first = BlockIndex::containing(span.offset);
            let count = span.end().get().div_ceil(BLOCK_BYTES) - first.get();
            self.state
                .reads
                .foresight_mut()
                .changed(span.disk, first, count);
        }
        if self.state.backs.has(span.disk) {
            self.state.back_requests().write(span, change);
        } else {
            self.state.through().write(span, change);
        }
    }

    /// Ends what prefetches of a disk have not asked for yet, as if it were not to be had: the disk is
    /// about to leave, and nobody waits for the rest.
    pub fn cut_prefetches(&mut self, disk: DiskSlot, now: Instant) {
        self.state.ports.set_now(now);
        self.state.guest_reads().cut_prefetches(disk);
    }
}
