//! The tables on their way to flash: batches of the journal, checkpoints.

use crate::checkpoint::Step;
use crate::ports::{Errand, Ports, Tag};
use crate::snapshot::Snapshot;
use crate::store::Store;
use flash_format::{PAGE_BYTES, Superblock};
use std::ops::Range;

impl Store {
    pub(crate) fn pump_checkpoint<T: Tag>(&mut self, ports: &mut Ports<T>) {
        let pages = self.geometry.checkpoint_pages();
        let Some(step) = self.checkpoint.next_step(&self.journal, pages) else {
            return;
        };
        ports.wake_at(ports.now + self.config.flash_timeout);
        match step {
            Step::Pages {
                number,
                area,
                pages,
            } => self.write_checkpoint_pages(ports, number, area, pages),
            Step::Superblock {
                sequence,
                number,
                area,
                replay_from,
                clean_end,
            } => {
                let superblock = Superblock {
                    uuid: self.uuid,
                    sequence,
                    geometry: self.geometry,
                    incarnation: self.incarnation,
                    checkpoint: number,
                    checkpoint_area: area,
                    replay_from,
                    clean_end,
                };
                ports.count_written(None, |written| written.checkpoint += PAGE_BYTES as u64);
                let page = ports.pool.copy_of(&superblock.encode());
                ports.flash_write(Errand::Superblock, superblock.offset(), page, true);
            }
        }
    }

    fn write_checkpoint_pages<T: Tag>(
        &self,
        ports: &mut Ports<T>,
        number: u64,
        area: u8,
        pages: Range<u64>,
    ) {
        let offset = self.geometry.checkpoint_page_offset(area, pages.start);
        let count = usize::try_from(pages.end - pages.start).expect("at most 64");
        let bytes = count * PAGE_BYTES;
        let mut buf = ports.pool.take(bytes);
        let tables = self.snapshot();
        for (page, to) in pages.zip(buf[..bytes].chunks_exact_mut(PAGE_BYTES)) {
            let encoded = tables
                .page(page)
                .encode(&self.geometry, self.uuid, number, page);
            to.copy_from_slice(&encoded);
        }
        ports.count_written(None, |written| written.checkpoint += bytes as u64);
        let bytes = buf.freeze().slice(0..bytes);
        ports.flash_write(Errand::CheckpointPages, offset, bytes, true);
    }

    pub(crate) fn pump_journal<T: Tag>(&mut self, ports: &mut Ports<T>) {
        self.name_durable(ports);
        // An entry is true only after what a recovery has decided, and no entry tells that.
        if !self.checkpoint.has_found() {
            return;
        }
        let Some(batch) = self.journal.start_batch(ports.now) else {
            return;
        };
        let bytes = batch.pages.len() * PAGE_BYTES;
        let mut buf = ports.pool.take(bytes);
        for (page, to) in batch.pages.iter().zip(buf.chunks_exact_mut(PAGE_BYTES)) {
            to.copy_from_slice(&page.encode(self.uuid));
        }
        ports.count_written(None, |written| written.journal += bytes as u64);
        ports.wake_at(ports.now + self.config.flash_timeout);
        let offset = self.geometry.journal_page_offset(batch.first_sequence);
        ports.flash_write(Errand::Journal, offset, buf.freeze().slice(0..bytes), true);
    }

    /// The tables as a checkpoint that is written now has them.
    pub(crate) fn snapshot(&self) -> Snapshot<'_> {
        Snapshot {
            geometry: &self.geometry,
            disks: &self.disks,
            segments: &self.log,
            trust: &self.trust,
            journal: &self.journal,
        }
    }
}
