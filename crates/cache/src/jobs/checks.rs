//! What a command asks of its disk before it begins.

use crate::api::ControlError;
use crate::cache::Cache;
use crate::disks::Disk;
use block_store::DirtyDisk;
use flash_format::DISK_BYTES_MAX;
use units::{BLOCK_BYTES, Bytes, DiskSlot};

impl Cache {
    pub(super) fn attached(&self, disk: DiskSlot) -> Result<&Disk, ControlError> {
        self.disks.get(disk).ok_or(ControlError::NotAttached)
    }

    pub(super) fn idle_disk(&self, disk: DiskSlot) -> Result<(), ControlError> {
        if self.attached(disk)?.in_flight > 0 {
            Err(ControlError::Busy)
        } else {
            Ok(())
        }
    }

    /// A disk whose origin has everything.
    pub(super) fn clean_disk(&self, disk: DiskSlot) -> Result<(), ControlError> {
        self.attached(disk)?;
        let bytes = self.flash.dirty_bytes(disk);
        let log = self.flash.log_of(disk);
        match log.and_then(DirtyDisk::locked) {
            _ if !bytes.is_zero() => Err(ControlError::Dirty { bytes }),
            // Its segments are not given up, whatever is left in them.
            Some(reason) => Err(ControlError::Locked(reason)),
            None => Ok(()),
        }
    }

    /// Whether a disk that is served may get this size.
    pub(super) fn may_grow(&self, disk: DiskSlot, size: Bytes) -> Result<(), ControlError> {
        let disk = self.attached(disk)?;
        let is_whole = |size: Bytes| size.is_multiple_of(BLOCK_BYTES);
        if size > DISK_BYTES_MAX {
            Err(ControlError::UnsupportedSize)
        } else if disk.views.is_some() {
            Err(ControlError::Shared)
        } else if size < disk.size || size != disk.size && !(is_whole(disk.size) && is_whole(size))
        {
            Err(ControlError::OnlyGrows)
        } else {
            Ok(())
        }
    }
}
