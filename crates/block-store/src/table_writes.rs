//! The tables on their way to flash: batches of the journal, pages of checkpoints.

use crate::checkpoint::{Checkpoint, Step};
use crate::effects::Errand;
use crate::identity::Identity;
use crate::journal::Journal;
use crate::ports::{Payload, Ports, Tag};
use crate::snapshot::Snapshot;
use flash_format::{PAGE_BYTES, Superblock};
use std::ops::Range;
use units::Duration;

/// Encodes what journal and checkpoint want written, and issues it.
pub(crate) struct TableWrites {
    identity: Identity,
    flash_timeout: Duration,
}

impl TableWrites {
    pub(crate) fn new(identity: Identity, flash_timeout: Duration) -> Self {
        Self {
            identity,
            flash_timeout,
        }
    }

    /// Writes what comes next of the checkpoint, if something does.
    pub(crate) fn checkpoint<T: Tag>(
        &self,
        ports: &mut Ports<T>,
        checkpoint: &mut Checkpoint,
        tables: &Snapshot<'_, T::Payload>,
    ) {
        let geometry = self.identity.geometry;
        let pages = geometry.checkpoint_pages();
        let Some(step) = checkpoint.next_step(tables.journal, pages) else {
            return;
        };
        ports.wake_at(ports.now() + self.flash_timeout);
        match step {
            Step::Pages {
                number,
                area,
                pages,
            } => self.checkpoint_pages(ports, tables, number, area, pages),
            Step::Superblock {
                sequence,
                number,
                area,
                replay_from,
                clean_end,
            } => {
                let superblock = Superblock {
                    uuid: self.identity.uuid,
                    sequence,
                    geometry,
                    incarnation: self.identity.incarnation,
                    checkpoint: number,
                    checkpoint_area: area,
                    replay_from,
                    clean_end,
                };
                ports.count_written(None, |written| written.checkpoint += PAGE_BYTES as u64);
                let (errand, offset) = (Errand::Superblock, superblock.offset());
                T::Payload::write_table(ports, errand, offset, PAGE_BYTES, true, |page| {
                    page.copy_from_slice(&superblock.encode());
                });
            }
        }
    }

    fn checkpoint_pages<T: Tag>(
        &self,
        ports: &mut Ports<T>,
        tables: &Snapshot<'_, T::Payload>,
        number: u64,
        area: u8,
        pages: Range<u64>,
    ) {
        let Identity { geometry, uuid, .. } = &self.identity;
        let offset = geometry.checkpoint_page_offset(area, pages.start);
        let count = usize::try_from(pages.end - pages.start).expect("at most 64");
        let bytes = count * PAGE_BYTES;
        ports.count_written(None, |written| written.checkpoint += bytes as u64);
        T::Payload::write_table(ports, Errand::CheckpointPages, offset, bytes, true, |buf| {
            for (page, to) in pages.zip(buf.chunks_exact_mut(PAGE_BYTES)) {
                let encoded = tables.page(page).encode(geometry, *uuid, number, page);
                to.copy_from_slice(&encoded);
            }
        });
    }

    /// Writes the next batch of the journal, if there is one.
    pub(crate) fn journal<T: Tag>(&self, ports: &mut Ports<T>, journal: &mut Journal) {
        let Some(batch) = journal.start_batch(ports.now()) else {
            return;
        };
        let bytes = batch.pages * PAGE_BYTES;
        ports.count_written(None, |written| written.journal += bytes as u64);
        ports.wake_at(ports.now() + self.flash_timeout);
        let geometry = &self.identity.geometry;
        let offset = geometry.journal_page_offset(batch.first_sequence);
        T::Payload::write_table(ports, Errand::Journal, offset, bytes, true, |buf| {
            for (page, to) in journal.pages().zip(buf.chunks_exact_mut(PAGE_BYTES)) {
                to.copy_from_slice(&page.encode(self.identity.uuid));
            }
        });
    }
}
