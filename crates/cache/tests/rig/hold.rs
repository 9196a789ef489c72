//! Operations that a test held up: they go on, or never end.

use super::Rig;
use block_io::{FlashOp, FlashVerb, IoError, OriginVerb};

impl Rig {
    /// What the flash was asked and is held never ends.
    pub(crate) fn lose_held_flash(&mut self) {
        self.held_flash.clear();
        self.hold_flash = false;
    }

    /// Lets everything go on that is held.
    pub(crate) fn free(&mut self) {
        self.hold_flash = false;
        self.hold_flash_flush = false;
        self.hold_reads = false;
        self.hold_writes = false;
        self.hold_flush = false;
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

    /// The process ends, and another one begins.
    pub(crate) fn power_cut_of_nothing(&mut self) {
        self.held_flash.clear();
        self.held_origin.clear();
        self.hold_flash = false;
        self.hold_writes = false;
        self.hold_flush = false;
        self.recover();
    }

    pub(super) fn holds_on_flash(&self, op: &FlashOp) -> bool {
        self.hold_flash || (self.hold_flash_flush && matches!(op.verb, FlashVerb::Flush))
    }

    pub(super) fn holds(&self, verb: &OriginVerb) -> bool {
        match verb {
            OriginVerb::Read { .. } => self.hold_reads,
            OriginVerb::Flush => self.hold_flush,
            _ => self.hold_writes,
        }
    }
}
