//! Operations that a test held up: they go on, or never end.

use super::Rig;

impl Rig {
    /// What the flash was asked and is held never ends.
    pub(crate) fn lose_held_flash(&mut self) {
        self.held_flash.clear();
        self.hold_flash = false;
    }

    /// Lets everything go on that is held.
    pub(crate) fn free(&mut self) {
        self.hold_flash = false;
        self.hold_reads = false;
        self.hold_writes = false;
        self.hold_flush = false;
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
}
