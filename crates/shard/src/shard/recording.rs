//! What the shard has written down outside its flash: whether that is to be believed after a crash, how
//! far it is, and who has a disk.

use super::Shard;
use crate::cache_record::{Recorded, Word};
use crate::owner_records::Written;
use block_io::Token;
use cache::OwnerRecord;
use units::DiskId;

impl Shard {
    /// Records whether what is on the flash is to be believed.
    pub(super) fn record_cache(&mut self, token: Token, word: Word, incarnation: u64) {
        let ended = self.cache_record.write(token, word, incarnation, self.now);
        self.cache_recorded(ended);
    }

    /// The cache's record is written, or cannot be.
    pub(super) fn cache_recorded(&mut self, ended: Option<Recorded>) {
        let Some(Recorded {
            token,
            word,
            is_written,
        }) = ended
        else {
            return;
        };
        match word {
            Word::Retired => self.cache.retired(token, is_written, self.now),
            Word::Reinstated => self.cache.reinstated(token, is_written, self.now),
        }
    }

    /// Records who has a disk.
    pub(super) fn record_owner(&mut self, token: Token, disk: DiskId, record: OwnerRecord) {
        if self.owner_records.has(disk) && record.open && !self.retained.reserve() {
            return self.cache.owned(token, false, self.now);
        }
        let ended = self.owner_records.write(token, disk, record, self.now);
        self.owner_recorded(ended);
    }

    /// An owner's record is written, or cannot be.
    pub(super) fn owner_recorded(&mut self, ended: Option<Written>) {
        if let Some(Written { token, is_written }) = ended {
            self.cache.owned(token, is_written, self.now);
        }
    }

    /// Lets what waits for a record go on without, if writing it takes too long.
    pub(super) fn give_up_late_records(&mut self) {
        let late = self.cache_record.take_late(self.now);
        self.cache_recorded(late);
        while let Some(late) = self.owner_records.take_late(self.now) {
            self.owner_recorded(Some(late));
        }
    }

    /// Notes how far the flash is durable. Once a turn.
    pub(super) fn note_progress(&mut self) {
        if let Some(committed) = self.cache.facts().committed()
            && self.progress.note(committed, self.now)
        {
            self.retained.note_committed(committed);
        }
    }

    /// The cache has stopped. May block.
    pub(super) fn store_last_progress(&self) {
        if let Some(committed) = self.cache.facts().committed() {
            self.progress.store_last(committed, &self.config.name);
        }
    }
}
