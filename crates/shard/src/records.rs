//! What the shard has written down outside its flash: whether that is to be believed after a crash, how far it is, what
//! is in retained memory, and who has a disk.

use crate::cache_record::{CacheRecord, Recorded, Word};
use crate::error::{Reply, ShardError};
use crate::owner_records::{OwnerRecords, Written};
use crate::owners::{OwnerError, OwnerFile};
use crate::progress::Progress;
use crate::retained::RetainedMemory;
use block_io::Token;
use cache::{Cache, ControlError, ControlOutcome, OwnerRecord, RetainedUpdate};
use units::{DiskId, Instant};

/// What the shard has written down outside its flash. What of it the cache waits for is told to the cache.
pub(crate) struct Records {
    cache: CacheRecord,
    owners: OwnerRecords,
    progress: Progress,
    retained: RetainedMemory,
}

impl Records {
    pub(crate) fn new(
        cache: CacheRecord,
        owners: OwnerRecords,
        progress: Progress,
        retained: RetainedMemory,
    ) -> Self {
        Self {
            cache,
            owners,
            progress,
            retained,
        }
    }

    /// A disk is attached; its owner's record is this.
    pub(crate) fn enter(&mut self, disk: DiskId, file: OwnerFile) {
        self.owners.enter(disk, file);
    }

    /// A disk is not attached any more.
    pub(crate) fn leave(&mut self, disk: DiskId) {
        self.owners.leave(disk);
    }

    /// What a command is told of an error, with what is known of the disk's record.
    pub(crate) fn explain(&self, disk: Option<DiskId>, error: ControlError) -> ShardError {
        self.owners.explain(disk, error)
    }

    /// Says how a command about a disk has ended.
    pub(crate) fn answer(
        &self,
        disk: Option<DiskId>,
        reply: Reply<()>,
        result: Result<ControlOutcome, ControlError>,
    ) {
        reply(result.map(drop).map_err(|error| self.explain(disk, error)));
    }

    /// Records whether what is on the flash is to be believed.
    pub(crate) fn record_cache(
        &mut self,
        token: Token,
        word: Word,
        incarnation: u64,
        cache: &mut Cache,
        now: Instant,
    ) {
        let ended = self.cache.write(token, word, incarnation, now);
        tell_recorded(ended, cache, now);
    }

    /// The cache's record is written, or cannot be.
    pub(crate) fn cache_recorded(
        &mut self,
        token: Token,
        is_written: bool,
        cache: &mut Cache,
        now: Instant,
    ) {
        tell_recorded(self.cache.ended(token, is_written), cache, now);
    }

    /// Records who has a disk.
    pub(crate) fn record_owner(
        &mut self,
        token: Token,
        disk: DiskId,
        record: OwnerRecord,
        cache: &mut Cache,
        now: Instant,
    ) {
        if self.owners.has(disk) && record.open && !self.retained.reserve() {
            return cache.owned(token, false, now);
        }
        tell_owned(self.owners.write(token, disk, record, now), cache, now);
    }

    /// An owner's record is written, or cannot be.
    pub(crate) fn owner_recorded(
        &mut self,
        token: Token,
        disk: DiskId,
        outcome: Result<(), OwnerError>,
        cache: &mut Cache,
        now: Instant,
    ) {
        tell_owned(self.owners.ended(token, disk, outcome), cache, now);
    }

    /// Lets what waits for a record go on without, if writing it takes too long.
    pub(crate) fn give_up_late(&mut self, cache: &mut Cache, now: Instant) {
        tell_recorded(self.cache.take_late(now), cache, now);
        while let Some(late) = self.owners.take_late(now) {
            tell_owned(Some(late), cache, now);
        }
    }

    /// Keeps something in retained memory.
    pub(crate) fn retain(&mut self, what: &RetainedUpdate) {
        self.retained.carry_out(what);
    }

    /// Notes how far the flash is durable. Once a turn.
    pub(crate) fn note_progress(&mut self, cache: &Cache, now: Instant) {
        if let Some(committed) = cache.facts().committed()
            && self.progress.note(committed, now)
        {
            self.retained.note_committed(committed);
        }
    }

    /// What was noted is stored, or could not be.
    pub(crate) fn progress_stored(&mut self) {
        self.progress.stored();
    }

    /// The cache, called `name`, has stopped. May block.
    pub(crate) fn store_last_progress(&self, cache: &Cache, name: &str) {
        if let Some(committed) = cache.facts().committed() {
            self.progress.store_last(committed, name);
        }
    }

    /// When something is late, or the progress is to be stored.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        let all = [
            self.cache.next_deadline(),
            self.owners.next_deadline(),
            self.progress.next_deadline(),
        ];
        all.into_iter().flatten().min()
    }
}

fn tell_recorded(ended: Option<Recorded>, cache: &mut Cache, now: Instant) {
    let Some(Recorded {
        token,
        word,
        is_written,
    }) = ended
    else {
        return;
    };
    match word {
        Word::Retired => cache.retired(token, is_written, now),
        Word::Reinstated => cache.reinstated(token, is_written, now),
    }
}

fn tell_owned(ended: Option<Written>, cache: &mut Cache, now: Instant) {
    if let Some(Written { token, is_written }) = ended {
        cache.owned(token, is_written, now);
    }
}
