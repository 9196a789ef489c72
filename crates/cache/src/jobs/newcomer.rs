//! A disk that is about to be attached: what jobs tell the tables of it, and what is recorded of it.

use super::step::Step;
use crate::api::{DropReason, OwnerRecord};
use crate::disks::Disk;
use crate::guard::{Guard, holds};
use crate::ports::Ports;
use block_store::Served;
use std::num::NonZeroU64;
use units::{DiskId, DiskSlot};

/// A disk that is about to be attached.
#[derive(Clone, Debug)]
pub(crate) struct Newcomer {
    pub(crate) slot: DiskSlot,
    pub(crate) id: DiskId,
    pub(crate) name: String,
    pub(crate) disk: Disk,
    pub(crate) dropped: Option<DropReason>,
    /// The slot was another disk's, of which nothing is left.
    pub(crate) takes_over: bool,
    /// Nothing counts of its dirty log on flash.
    pub(crate) void: bool,
    /// The tag of its key.
    pub(crate) key: Option<NonZeroU64>,
    /// What its origin has now, if that is known: it is the same if it is not served in the end.
    pub(crate) fingerprint: Option<u128>,
    /// What is to be recorded before it is served.
    pub(crate) record: Option<OwnerRecord>,
}

impl Newcomer {
    /// What the table is to say of it.
    pub(super) fn served(&self) -> Served {
        Served {
            id: self.id,
            name: self.name.clone(),
            size: self.disk.size,
            // Of a disk that we only read any change is somebody else's, however this life ends.
            fingerprint: self.fingerprint.filter(|_| self.disk.read_only),
            epoch: self.disk.epoch,
            key: self.key,
        }
    }

    /// The tables have the disk: what is left is to record who has it.
    pub(super) fn after_tables(&self, ports: &mut Ports) -> Step {
        match self.record {
            None => Step::Done,
            Some(record) => {
                let token = ports.own(self.slot, self.id, record);
                if holds(Guard::RecordOpenBeforeWrite) {
                    Step::Owning(token)
                } else {
                    Step::Done
                }
            }
        }
    }
}
