//! What a guest asks of the rig, and what is seen of its flash and its origin.

use super::{Rig, at, page};
use block_io::{FlashOp, FlashVerb, GuestBuffer, IoError, OriginVerb, Payload};
use cache::{Command, ControlError, ControlOutcome, DirtyStatus, Request, RequestId, Verb};
use std::rc::Rc;
use units::{BLOCK_BYTES, Bytes, Duration, Offset, TenantSlot};

impl Rig {
    pub(crate) fn outcome(&self, id: u64) -> Option<Result<ControlOutcome, ControlError>> {
        self.outcomes.get(&id).copied()
    }

    /// How many operations the flash has not carried out, and how many of them fill memory that is
    /// not ours.
    pub(crate) fn held_at_flash(&self) -> (usize, usize) {
        let into = |op: &&FlashOp| matches!(op.verb, FlashVerb::ReadInto { .. });
        let held = &self.held_flash;
        (held.len(), held.iter().filter(into).count())
    }

    /// How many reads the origin has not answered, and their bytes.
    pub(crate) fn reads_held_at_origin(&self) -> (usize, u64) {
        let bytes = self.held_origin.iter().filter_map(|op| match op.verb {
            OriginVerb::Read { length, .. } => Some(length.get()),
            _ => None,
        });
        (bytes.clone().count(), bytes.sum())
    }

    pub(super) fn next(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Lets time pass, in small steps.
    pub(crate) fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        self.drive();
        while self.now < end {
            self.now = end.min(self.now + Duration::from_millis(100));
            let now = self.now;
            self.cache_mut().tick(now);
            self.drive();
        }
    }

    /// Time passes, and nobody attends to the cache meanwhile.
    pub(crate) fn stand_still(&mut self, time: Duration) {
        self.now = self.now + time;
        let now = self.now;
        self.cache_mut().stood_still(time, now);
        self.cache_mut().tick(now);
        self.drive();
    }

    /// Lets what waits a moment happen.
    pub(super) fn settle(&mut self) {
        self.drive();
        for _ in 0..4 {
            self.now = self.now + Duration::from_millis(2);
            let now = self.now;
            self.cache_mut().tick(now);
            self.drive();
        }
    }

    pub(crate) fn ask(&mut self, verb: Verb) -> u64 {
        self.ask_into(verb, None)
    }

    pub(crate) fn ask_into(&mut self, verb: Verb, into: Option<Rc<dyn GuestBuffer>>) -> u64 {
        let (id, now, disk) = (self.next(), self.now, self.disk);
        let request = Request {
            id: RequestId(id),
            disk,
            vm: TenantSlot::new(0),
            verb,
        };
        match into {
            Some(into) => self.cache_mut().request_into(request, into, now),
            None => self.cache_mut().request(request, now),
        }
        self.drive();
        id
    }

    /// How a request was answered, without its bytes.
    pub(crate) fn answer(&self, id: u64) -> Option<Result<(), IoError>> {
        let reply = self.replies.get(&id)?;
        Some(reply.as_ref().map(drop).map_err(|error| *error))
    }

    pub(crate) fn bytes(&self, id: u64) -> Option<Result<Vec<u8>, IoError>> {
        let reply = self.replies.get(&id)?;
        let bytes = |payload: &Payload| payload.iter().flat_map(|slice| slice.to_vec()).collect();
        Some(reply.as_ref().map(bytes).map_err(|error| *error))
    }

    pub(crate) fn begin_write_at(&mut self, offset: Offset, bytes: &[u8]) -> u64 {
        let data = self.pool.copy_of(bytes);
        self.ask(Verb::Write {
            offset,
            data,
            fua: false,
        })
    }

    pub(crate) fn begin_write(&mut self, block: u64, byte: u8) -> u64 {
        self.begin_write_at(Offset::new(block * BLOCK_BYTES), &page(byte))
    }

    pub(crate) fn write_at(&mut self, offset: Offset, bytes: &[u8]) {
        let id = self.begin_write_at(offset, bytes);
        self.settle();
        assert_eq!(self.answer(id), Some(Ok(())));
    }

    pub(crate) fn write(&mut self, block: u64, byte: u8) {
        self.write_at(Offset::new(block * BLOCK_BYTES), &page(byte));
    }

    pub(crate) fn begin_flush(&mut self) -> u64 {
        self.ask(Verb::Flush)
    }

    pub(crate) fn flush(&mut self) {
        let id = self.begin_flush();
        self.settle();
        assert_eq!(self.answer(id), Some(Ok(())));
    }

    pub(crate) fn discard(&mut self, block: u64, blocks: u64) {
        let id = self.ask(Verb::Discard {
            offset: Offset::new(block * BLOCK_BYTES),
            length: Bytes::new(blocks * BLOCK_BYTES),
        });
        assert_eq!(self.answer(id), Some(Ok(())));
    }

    pub(crate) fn write_zeroes(&mut self, offset: Offset, length: Bytes) {
        let id = self.ask(Verb::WriteZeroes {
            offset,
            length,
            may_unmap: true,
            fua: false,
        });
        assert_eq!(self.answer(id), Some(Ok(())));
    }

    pub(crate) fn begin_read(&mut self, block: u64) -> u64 {
        self.ask(Verb::Read {
            offset: Offset::new(block * BLOCK_BYTES),
            length: Bytes::new(BLOCK_BYTES),
        })
    }

    pub(crate) fn read(&mut self, block: u64) -> Result<Vec<u8>, IoError> {
        let id = self.begin_read(block);
        self.bytes(id).expect("a read is answered")
    }

    pub(crate) fn read_run(&mut self, block: u64, blocks: u64) -> Result<Vec<u8>, IoError> {
        let id = self.ask(Verb::Read {
            offset: Offset::new(block * BLOCK_BYTES),
            length: Bytes::new(blocks * BLOCK_BYTES),
        });
        self.bytes(id).expect("a read is answered")
    }

    pub(crate) fn status(&mut self) -> DirtyStatus {
        let disk = self.disk;
        self.cache_mut().facts().write_back_of(disk).unwrap()
    }

    pub(crate) fn origin_block(&self, block: u64) -> Vec<u8> {
        self.origin[at(Offset::new(block * BLOCK_BYTES), 4096)].to_vec()
    }

    pub(crate) fn durable_block(&self, block: u64) -> Vec<u8> {
        self.origin_durable[at(Offset::new(block * BLOCK_BYTES), 4096)].to_vec()
    }

    pub(crate) fn fill_origin(&mut self, block: u64, byte: u8) {
        let range = at(Offset::new(block * BLOCK_BYTES), 4096);
        self.origin[range.clone()].fill(byte);
        self.origin_durable[range].fill(byte);
    }

    /// Whether a page of the flash is this.
    pub(crate) fn has_on_flash(&self, bytes: &[u8]) -> bool {
        self.flash.chunks_exact(4096).any(|page| page == bytes)
    }

    /// What is on the flash.
    pub(crate) fn flash(&self) -> &[u8] {
        &self.flash
    }

    /// The process ends, and another one finds this on the flash.
    pub(crate) fn restart_with(&mut self, flash: &[u8]) {
        self.flash.copy_from_slice(flash);
        self.power_cut_of_nothing();
    }

    /// Damages every page of the flash that has these bytes.
    pub(crate) fn damage(&mut self, bytes: &[u8]) {
        for page in self.flash.chunks_exact_mut(4096) {
            if page == bytes {
                page[100] ^= 1;
            }
        }
    }

    pub(crate) fn stop(&mut self) {
        let id = self.command(Command::Stop);
        assert!(matches!(self.outcome(id), Some(Ok(_))));
    }

    pub(crate) fn destage(&mut self) {
        let id = self.command(Command::Destage { disk: self.disk });
        self.pass(Duration::from_millis(200));
        assert_eq!(self.outcome(id), Some(Ok(ControlOutcome::Done)));
    }
}
