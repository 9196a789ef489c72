//! Whether anything is taken in: for a disk, and at all.

use units::{DiskSlot, Set};

/// What a store takes in.
#[derive(Debug, Default)]
pub struct Intake {
    /// Disks to which nothing is admitted: they are being dropped or detached.
    closed_to: Set<DiskSlot>,
    /// Nothing is admitted any more: the cache is stopping.
    stopping: bool,
}

impl Intake {
    /// Admits nothing of a disk from now on.
    pub fn close_to(&mut self, disk: DiskSlot) {
        self.closed_to.insert(disk);
    }

    /// Admits blocks of a disk again.
    pub fn open_to(&mut self, disk: DiskSlot) {
        self.closed_to.remove(&disk);
    }

    /// Admits nothing any more.
    pub fn stop(&mut self) {
        self.stopping = true;
    }

    /// Whether nothing is admitted any more.
    #[inline]
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopping
    }

    /// Whether blocks of a disk are admitted.
    pub(crate) fn takes(&self, disk: DiskSlot) -> bool {
        !self.stopping && !self.closed_to.contains(&disk)
    }
}
