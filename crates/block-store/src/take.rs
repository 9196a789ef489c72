//! Clean blocks that come into the cache, and those that leave it since they are written.

use crate::journal::Ticket;
use crate::ports::{Ports, Tag};
use crate::store::Store;
use segment_log::Source;
use units::{BlockIndex, DiskSlot};

/// How a block was cached that is about to be written.
pub enum Taken {
    /// It was not.
    NotCached,
    /// No recovery would find its copy.
    Untrusted,
    /// The copy may be trusted until this is durable.
    Trusted(Ticket),
}

impl Store {
    /// Takes a block out of the index, and nothing else.
    pub fn forget(&mut self, disk: DiskSlot, block: BlockIndex) -> Taken {
        match self.log.forget(disk, block) {
            None => Taken::NotCached,
            Some(_) => Taken::Untrusted,
        }
    }

    /// Takes a block that is about to be written out of the index.
    pub fn take_for_write<T: Tag>(
        &mut self,
        ports: &mut Ports<T>,
        disk: DiskSlot,
        block: BlockIndex,
    ) -> Taken {
        let Some(slot) = self.log.forget(disk, block) else {
            return Taken::NotCached;
        };
        if self.trusted.contains(slot) {
            Taken::Trusted(self.distrust(ports, slot, 1))
        } else {
            Taken::Untrusted
        }
    }

    /// Appends a block and enters it into the index, if there is room. True if there was.
    pub fn admit<T: Tag>(
        &mut self,
        ports: &mut Ports<T>,
        disk: DiskSlot,
        block: BlockIndex,
        source: Source,
        bytes: &[u8],
    ) -> bool {
        let Some(slot) = self.append(ports, disk, block, source, bytes) else {
            return false;
        };
        if self.log.enter(disk, block, slot).is_err() {
            ports.stats.not_taken.index_full += 1;
            return false;
        }
        if source == Source::Update {
            let count = self.origins.write_count(disk);
            self.rest(ports, disk, block, slot, count);
        }
        true
    }
}
