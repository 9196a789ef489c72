//! What the guests of a disk change that is here, noted for the host that copies its cache: each change is told once, when
//! it has ended.

use super::{Around, Life};
use crate::sites::link::Frame;
use block_io::Verb;
use borrowing::{Changes, Run};
use units::{Bytes, DiskSlot};

/// What is noted of a disk that is here, for the host that copies its cache.
#[derive(Default)]
pub(super) struct Noted {
    changes: Changes<u64>,
    watched: Option<Watched>,
}

struct Watched {
    epoch: u64,
    slot: DiskSlot,
}

impl Noted {
    /// A guest's request goes to the cache.
    pub(super) fn begins(&mut self, request: u64, verb: &Verb) {
        let (offset, length) = match verb {
            Verb::Write { offset, data, .. } => (*offset, Bytes::new(data.len() as u64)),
            Verb::Discard { offset, length } | Verb::WriteZeroes { offset, length, .. } => {
                (*offset, *length)
            }
            Verb::Read { .. } | Verb::Prefetch { .. } | Verb::Flush => return,
        };
        self.changes.begins(request, offset, length);
    }

    /// It has ended.
    pub(super) fn ends(&mut self, request: u64, has_failed: bool) {
        self.changes.ends(&request, has_failed);
    }

    /// The other host begins to copy the disk, which is here in this slot and epoch.
    pub(super) fn watch(&mut self, epoch: u64, (slot, failed_flushes): (DiskSlot, u64)) {
        self.changes.watch(failed_flushes);
        self.watched = Some(Watched { epoch, slot });
    }

    /// It copies no more.
    pub(super) fn unwatch(&mut self) {
        self.changes.unwatch();
        self.watched = None;
    }

    /// Whether the disk is copied, and has this epoch.
    pub(super) fn is_copied(&self, epoch: u64) -> bool {
        self.watched.as_ref().is_some_and(|of| of.epoch == epoch)
    }

    fn take(
        &mut self,
        epoch: u64,
        most: usize,
        failed_flushes: impl FnOnce(DiskSlot) -> u64,
    ) -> Option<Vec<Run>> {
        let watched = self.watched.as_ref().filter(|of| of.epoch == epoch)?;
        self.changes.take(most, failed_flushes(watched.slot))
    }
}

impl Life {
    /// The other host asks what is stale.
    pub(super) fn tell_stale(&mut self, from: usize, (number, epoch): (u64, u64), at: &mut Around) {
        let most = 1 + at.run.index(6);
        let runs = match self.process.cache() {
            None => None,
            Some(cache) => {
                let facts = cache.facts();
                let failed = |slot| facts.failed_flushes(slot);
                self.noted.take(epoch, most, failed)
            }
        };
        at.link.send(from, Frame::Stale { number, runs }, at.run);
    }
}
