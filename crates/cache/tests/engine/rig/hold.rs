//! Operations that a test held up: they go on, or never end.

use super::Rig;
use block_io::{FlashOp, FlashVerb, IoError, OriginOp, OriginVerb};
use cache::{WriteBack, WritePolicy};
use flash_format::{Geometry, PAGE_BYTES};
use units::{BLOCK_BYTES, Bytes};

impl Rig {
    /// What the flash was asked and is held never ends.
    pub(crate) fn lose_held_flash(&mut self) {
        self.held_flash.clear();
        self.hold_flash = false;
    }

    /// Lets everything go on that is held.
    pub(crate) fn free(&mut self) {
        self.hold_flash = false;
        self.hold_flash_writes = false;
        self.hold_flash_flush = false;
        self.hold_journal = false;
        self.hold_reads = false;
        self.hold_writes = false;
        self.hold_flush = false;
        self.drive();
    }

    /// Of the reads that the origin was asked for and are held, the one that begins with this block is answered.
    ///
    /// # Panics
    /// If there is none.
    pub(crate) fn answer_held_read(&mut self, block: u64) {
        let begins = |op: &OriginOp| matches!(op.verb, OriginVerb::Read { offset, .. } if offset.get() == block * BLOCK_BYTES);
        let at = self.held_origin.iter().position(begins);
        let op = self.held_origin.remove(at.expect("the read is held"));
        let now = self.now;
        let done = self.origin_op(op);
        self.cache_mut().origin_done(done, now);
        self.drive();
    }

    /// Reads that the origin was asked and are held fail.
    pub(crate) fn fail_held_reads(&mut self) {
        let now = self.now;
        for op in std::mem::take(&mut self.held_origin) {
            let mut done = self.origin_op(op);
            done.result = Err(IoError::Failed);
            self.cache_mut().origin_done(done, now);
        }
        self.drive();
    }

    /// Of the flushes that the origin was asked for and are held, this one fails, and loses what was not
    /// flushed.
    ///
    /// # Panics
    /// If there are not so many.
    pub(crate) fn fail_held_flush(&mut self, number: usize) {
        let flushes = self.held_origin.iter().enumerate();
        let mut flushes = flushes.filter(|(_, op)| matches!(op.verb, OriginVerb::Flush));
        let (at, _) = flushes.nth(number).expect("so many flushes are held");
        let op = self.held_origin.remove(at);
        let (loses, now) = (std::mem::replace(&mut self.flush_loses, true), self.now);
        let done = self.origin_op(op);
        self.flush_loses = loses;
        self.cache_mut().origin_done(done, now);
        self.drive();
    }

    /// The process ends, and another one begins.
    pub(crate) fn power_cut_of_nothing(&mut self) {
        self.held_flash.clear();
        self.held_origin.clear();
        self.hold_flash = false;
        self.hold_flash_writes = false;
        self.hold_writes = false;
        self.hold_flush = false;
        self.recover();
    }

    /// The host records the least incarnation that may be believed, if it can.
    pub(super) fn record_least(&mut self, least: u64) -> bool {
        if !self.retire_error {
            self.least = Some(least);
        }
        !self.retire_error
    }

    /// The process dies with a disk under `through`, and another one begins. What the flash was asked
    /// and is held never comes to it.
    pub(crate) fn kill_through(&mut self) {
        self.hold_reads = false;
        self.power_cut_of_nothing();
        self.attach(WritePolicy::Through, WriteBack::default())
            .unwrap();
    }

    pub(super) fn holds_on_flash(&self, op: &FlashOp) -> bool {
        self.hold_flash
            || (self.hold_flash_flush && matches!(op.verb, FlashVerb::Flush))
            || (self.hold_flash_writes && matches!(op.verb, FlashVerb::Write { .. }))
            || (self.hold_journal && self.is_of_journal(&op.verb))
    }

    fn is_of_journal(&self, verb: &FlashVerb) -> bool {
        let geometry = Geometry::new(Bytes::new(self.flash.len() as u64), Bytes::kib(256)).unwrap();
        let first = geometry.journal_page_offset(0);
        let length = Bytes::new(geometry.journal_pages() * PAGE_BYTES as u64);
        let journal = first..first + length;
        matches!(verb, FlashVerb::Write { offset, .. } if journal.contains(offset))
    }

    pub(super) fn holds(&self, verb: &OriginVerb) -> bool {
        match verb {
            OriginVerb::Read { .. } => self.hold_reads,
            OriginVerb::Flush => self.hold_flush,
            _ => self.hold_writes,
        }
    }
}
