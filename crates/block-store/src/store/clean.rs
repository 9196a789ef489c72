//! Clean blocks that come into the cache, and those that leave it since they are written.

use super::Store;
use crate::chunks::Entry;
use crate::journal::Ticket;
use crate::ports::{Payload, Ports, Tag};
use crate::trust::distrust;
use segment_log::{Source, StreamKey};
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

impl<P: Payload> Store<P> {
    /// Takes a block out of the index, and nothing else.
    pub fn forget(&mut self, disk: DiskSlot, block: BlockIndex) -> Taken {
        match self.segments.forget(disk, block) {
            None => Taken::NotCached,
            Some(_) => Taken::Untrusted,
        }
    }

    /// Takes a block that is about to be written out of the index.
    pub fn take_for_write<T: Tag<Payload = P>>(
        &mut self,
        ports: &mut Ports<T>,
        disk: DiskSlot,
        block: BlockIndex,
    ) -> Taken {
        let Some(slot) = self.segments.forget(disk, block) else {
            return Taken::NotCached;
        };
        if self.trust.contains(slot) {
            Taken::Trusted(distrust(ports, &mut self.journal, &self.segments, slot))
        } else {
            Taken::Untrusted
        }
    }

    /// Appends a block and enters it into the index, if there is room. True if there was.
    pub fn admit<T: Tag<Payload = P>>(
        &mut self,
        ports: &mut Ports<T>,
        disk: DiskSlot,
        block: BlockIndex,
        source: Source,
        bytes: &P::Block,
    ) -> bool {
        let count = self.origins.write_count(disk);
        let entry = Entry {
            block,
            source,
            count,
        };
        let (writer, mut streams) = self.writer();
        let key = StreamKey::of(disk, source);
        let Some(slot) = writer.append(ports, &mut streams, key, entry, bytes) else {
            return false;
        };
        if self.segments.enter(disk, block, slot).is_err() {
            ports.stats_mut().not_taken.index_full += 1;
            return false;
        }
        if source == Source::Update {
            let (mut copies, resting) = self.copies();
            resting.rest(ports, &mut copies, disk, block, slot, count);
        }
        true
    }

    /// The trusted copies beside a write's blocks go to rest, with the commit that the write waits for.
    pub fn rest_around<T: Tag<Payload = P>>(
        &mut self,
        ports: &mut Ports<T>,
        disk: DiskSlot,
        first: BlockIndex,
        blocks: u64,
    ) {
        let (mut copies, resting) = self.copies();
        resting.rest_around(ports, &mut copies, disk, first, blocks);
    }

    /// Trusts every block at rest whose disk is `disk` (or any, for none) and whose bytes the
    /// origin cannot lose. All chunks have been written.
    pub fn trust_resting<T: Tag<Payload = P>>(
        &mut self,
        ports: &mut Ports<T>,
        disk: Option<DiskSlot>,
    ) {
        let (mut copies, resting) = self.copies();
        resting.end(ports, &mut copies, disk);
    }

    /// Forgets every copy of bytes that a disk's origin may have lost.
    pub fn forget_unflushed<T: Tag<Payload = P>>(&mut self, ports: &mut Ports<T>, disk: DiskSlot) {
        if self.origins.covers_all(disk) {
            return;
        }
        let mut suspects = self.resting.take_unflushed(&self.origins, disk);
        suspects.extend(self.writer.unflushed(&self.segments, &self.origins, disk));
        for (block, slot) in suspects {
            if self.segments.forget_if(disk, block, slot) {
                ports.left(disk, block);
            }
        }
        if !self.origins.take_untagged(disk) {
            return;
        }
        let trust = &self.trust;
        self.segments.forget_of_disk(
            disk,
            |slot| !trust.contains(slot),
            |block| ports.left(disk, block),
        );
    }
}
