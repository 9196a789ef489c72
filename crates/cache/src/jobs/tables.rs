//! What jobs tell the tables of disks that come, and what is recorded of them.

use super::{Newcomer, Ports, Step};
use crate::guard::{Guard, holds};
use block_store::Served;

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
