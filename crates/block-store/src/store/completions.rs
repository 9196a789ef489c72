//! Operations of the store's own that have ended.

use super::Store;
use crate::effects::{Errand, Own};
use crate::limits::FLASH_FAILURES_MAX;
use crate::ports::{Payload, Ports, Tag};
use flash_format::SegmentIndex;

/// What has come of an operation that others may wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Nothing.
    None,
    /// There is room in the write buffer, or a place in retained memory.
    Room,
    /// Something that was queued for the journal is durable.
    Journal,
    /// A checkpoint may be complete ([`Facts::has_checkpoint`](crate::Facts::has_checkpoint)).
    Checkpoint,
}

impl<P: Payload> Store<P> {
    /// An operation of the store's own has ended, well or not; if it was a read, this was read.
    pub fn completed<T: Tag<Payload = P>>(
        &mut self,
        ports: &mut Ports<T>,
        own: Own,
        ok: bool,
        read: Option<P::Read>,
    ) -> Progress {
        let read = read.filter(|_| ok);
        let Own(errand) = own;
        match errand {
            Errand::Chunk(id) | Errand::LogChunk(id) => {
                self.chunk_done(ports, id, ok);
                return Progress::Room;
            }
            Errand::Footer(segment) => self.footer_done(ports, segment, ok),
            Errand::Journal if ok => {
                self.journal_done(ports);
                return Progress::Journal;
            }
            Errand::Journal => ports.fail("the journal could not be written"),
            Errand::CheckpointPages if ok => self.checkpoint.pages_durable(),
            Errand::CheckpointPages => checkpoint_failed(ports),
            Errand::Superblock => {
                if ok {
                    let replay_from = self.checkpoint.complete_now();
                    self.journal.truncate(replay_from);
                    ports.stats_mut().checkpoints += 1;
                } else {
                    checkpoint_failed(ports);
                }
                return Progress::Checkpoint;
            }
            Errand::ReclaimFooter => self.reclaiming().footer_done(ports, read.as_ref()),
            Errand::ReclaimRun { first, count } => {
                if read.is_none() && self.reclaim.disk().is_some() {
                    self.failed(ports);
                }
                let read = read.as_ref();
                self.reclaiming().run_done(ports, first, count, read);
            }
            Errand::LogFlush(disk) if ok => self.write_back().flush_done(ports, disk),
            Errand::LogFlush(_) => ports.fail("a dirty log could not be made durable"),
            Errand::FlashFlush if ok => {}
            Errand::FlashFlush => self.failed(ports),
        }
        Progress::None
    }

    /// A chunk has been written, or has failed to be.
    fn chunk_done<T: Tag<Payload = P>>(&mut self, ports: &mut Ports<T>, id: usize, written: bool) {
        let Some(chunk) = self.writer.take_written(id, written) else {
            ports.fail("a part of a dirty log could not be written");
            return;
        };
        if let Some(of_log) = chunk.of_log {
            self.failures = 0;
            self.write_back().chunk_written(ports, &chunk, of_log);
        } else if written {
            self.failures = 0;
            let (mut copies, resting) = self.copies();
            resting.trust_fills(ports, &mut copies, &chunk);
        } else {
            self.failed(ports);
            // Nothing in it was ever trusted, so forgetting it is all there is to do.
            for (page, entry) in (chunk.page + 1..).zip(&chunk.entries) {
                let slot = self.identity.geometry.slot(chunk.segment, page);
                if self.segments.forget_if(chunk.disk, entry.block, slot) {
                    ports.left(chunk.disk, entry.block);
                }
                self.reclaim.lost(slot);
            }
        }
        self.write_ended(ports, chunk.segment);
    }

    /// A footer has been written, or has failed to be: without it recovery walks the chunks.
    fn footer_done<T: Tag<Payload = P>>(
        &mut self,
        ports: &mut Ports<T>,
        segment: SegmentIndex,
        written: bool,
    ) {
        if written {
            self.failures = 0;
        } else {
            self.failed(ports);
        }
        self.write_ended(ports, segment);
    }

    /// A batch of the journal is durable: what waited for it goes on.
    pub(super) fn journal_done<T: Tag<Payload = P>>(&mut self, ports: &mut Ports<T>) {
        ports.stats_mut().journal_commits += 1;
        for entry in self.journal.batch_durable() {
            self.trust.entry_durable(&self.segments, entry);
        }
        self.write_back().journal_durable(ports);
        let durable = self.journal.durable();
        self.trust
            .forget_condemned(ports, &mut self.segments, durable);
    }

    /// A read has succeeded: the flash does not fail all the time.
    #[inline]
    pub fn succeeded(&mut self) {
        self.failures = 0;
    }

    /// Counts a failed flash operation.
    pub fn failed<T: Tag<Payload = P>>(&mut self, ports: &mut Ports<T>) {
        ports.stats_mut().flash_errors += 1;
        self.failures += 1;
        if self.failures >= FLASH_FAILURES_MAX {
            ports.fail("too many flash operations failed");
        }
    }

    fn write_ended<T: Tag<Payload = P>>(&mut self, ports: &mut Ports<T>, segment: SegmentIndex) {
        if self.segments.table_mut().write_ended(segment) {
            // Bounds what a power cut takes from the device's own cache; nothing waits for it.
            P::flush(ports, Errand::FlashFlush);
        }
    }
}

fn checkpoint_failed<T: Tag>(ports: &mut Ports<T>) {
    ports.stats_mut().flash_errors += 1;
    ports.fail("a checkpoint could not be written");
}
