//! What guests say of their own disks.

use super::State;
use crate::api::ControlError;
use admission::Hint;
use units::{BLOCK_BYTES, BlockIndex, Bytes, DiskSlot, Offset};

/// Takes what the guest of one disk says; each call ends at once. A guest may say anything: it changes nothing but what is its own.
pub struct Guest<'a> {
    state: &'a mut State,
    disk: DiskSlot,
}

impl<'a> Guest<'a> {
    pub(super) fn of(state: &'a mut State, disk: DiskSlot) -> Self {
        Self { state, disk }
    }
}

impl Guest<'_> {
    /// It says this of the whole blocks within so many bytes, which may be anything. False if its VM has said too much already,
    /// of this disk and others: then nothing has changed.
    ///
    /// # Errors
    /// [`ControlError::NotAttached`]; [`ControlError::Shared`], since no guest speaks for the others that read an image.
    pub fn hint(
        &mut self,
        (offset, length): (Offset, Bytes),
        hint: Hint,
    ) -> Result<bool, ControlError> {
        let (disk, disks) = (self.disk, &mut self.state.disks);
        let attached = disks.attached(disk)?;
        if attached.views.is_some() {
            return Err(ControlError::Shared);
        }
        let tenant = attached.tenant;
        let own = disks.iter().filter(|(_, of)| of.tenant == tenant);
        let others = own.filter(|(slot, _)| *slot != disk);
        let others = others.map(|(slot, _)| disks.hints().ranges(slot)).sum();
        let disk_end = disks.cached_end(disk);
        let end = offset.get().saturating_add(length.get()).min(disk_end);
        let first = offset.get().min(disk_end).div_ceil(BLOCK_BYTES);
        let whole = (BlockIndex::new(first), BlockIndex::new(end / BLOCK_BYTES));
        Ok(disks.hints_mut().say(disk, whole, hint, others))
    }

    /// What it has said no longer counts.
    pub fn forget_hints(&mut self) {
        self.state.disks.hints_mut().forget(self.disk);
    }

    /// Whether it reads ahead what it is told of ([`crate::Effect::Expected`]), from now on.
    pub fn set_listening(&mut self, listens: bool) {
        let known = self.state.disks.get(self.disk);
        let is_own = known.is_some_and(|disk| disk.views.is_none());
        let foresight = self.state.reads.foresight_mut();
        foresight.set_listening(self.disk, listens && is_own);
    }

    /// It has read so many bytes because it was told of them, and has not used them. The worst that it can say is that nothing is
    /// read ahead of its VM for a while.
    pub fn unused(&mut self, bytes: Bytes) {
        let blocks = bytes.get() / BLOCK_BYTES;
        let foresight = self.state.reads.foresight_mut();
        foresight.unused_by_guest(self.disk, blocks);
    }
}
