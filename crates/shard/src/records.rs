//! What a shard has written down outside its flash, on threads of its own, and waits for: whether the
//! flash is to be believed after a crash, and who has a disk.
//!
//! ```text
//!   the cache ── Effect::Retire, Effect::Reinstate, Effect::Own ──► thread ── file ──► message ──► the cache
//!                                   └── no answer in time: it is told that it failed
//! ```

use crate::control::{Message, ShardError};
use crate::limits::RETIRE_TIME_MAX;
use crate::owners::{OwnerError, OwnerFile};
use crate::run::Shard;
use block_io::Token;
use cache::{ControlError, OwnerRecord};
use units::{DiskId, Instant, Map};

/// The owner's records of the disks that are attached, about to be, or leaving.
#[derive(Default)]
pub(crate) struct Owning {
    disks: Map<DiskId, Place>,
    under_way: Vec<Writing>,
    /// The number of the next record: see [`OwnerFile::store`].
    next: u64,
}

struct Place {
    file: OwnerFile,
    /// Why the last record could not be written.
    error: Option<OwnerError>,
}

struct Writing {
    token: Token,
    disk: DiskId,
    deadline: Instant,
}

impl Owning {
    pub(crate) fn enter(&mut self, disk: DiskId, file: OwnerFile) {
        self.disks.insert(disk, Place { file, error: None });
    }

    pub(crate) fn leave(&mut self, disk: DiskId) {
        self.disks.remove(&disk);
    }

    /// When the next record should have been written.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.under_way.iter().map(|writing| writing.deadline).min()
    }
}

impl Shard {
    /// Records, on a thread of its own, who has a disk.
    pub(crate) fn record_owner(&mut self, token: Token, disk: DiskId, record: OwnerRecord) {
        let Some(place) = self.owning.disks.get(&disk) else {
            // Its origin was let go: whoever has it now must not find our word.
            return self.cache.owned(token, false, self.now);
        };
        if record.open && !self.lasting.reserve() {
            return self.cache.owned(token, false, self.now);
        }
        let (file, number, sender) = (place.file.clone(), self.owning.next, self.sender.clone());
        self.owning.next += 1;
        let deadline = self.now + RETIRE_TIME_MAX;
        self.owning.under_way.push(Writing {
            token,
            disk,
            deadline,
        });
        let spawned = std::thread::Builder::new()
            .name("owner".to_owned())
            .spawn(move || {
                let outcome = file.store(record, number);
                // A shard that has ended needs no answer.
                let _ended = sender.send(Message::Owned {
                    token,
                    disk,
                    outcome,
                });
            });
        if spawned.is_err() {
            self.owned_late(token, disk);
        }
    }

    pub(crate) fn owned(&mut self, token: Token, disk: DiskId, outcome: Result<(), OwnerError>) {
        let is_it = |writing: &Writing| writing.token == token && writing.disk == disk;
        let Some(at) = self.owning.under_way.iter().position(is_it) else {
            return;
        };
        self.owning.under_way.swap_remove(at);
        if let Err(error) = &outcome {
            tracing::error!(cache = self.config.name, %disk, %error, "who has the disk is not recorded");
        }
        let recorded = outcome.is_ok();
        if let Some(place) = self.owning.disks.get_mut(&disk) {
            place.error = outcome.err();
        }
        self.cache.owned(token, recorded, self.now);
    }

    fn owned_late(&mut self, token: Token, disk: DiskId) {
        let place = self.owning.disks.get(&disk);
        let path = place.map(|place| place.file.path().to_owned());
        let path = path.unwrap_or_default();
        self.owned(token, disk, Err(OwnerError::Late { path }));
    }

    /// Lets what waits for a record fail if writing it takes too long: a folder on a network may
    /// never answer.
    pub(crate) fn watch_owning(&mut self) {
        let late = |writing: &&Writing| writing.deadline <= self.now;
        let late = self.owning.under_way.iter().filter(late);
        let late: Vec<(Token, DiskId)> = late.map(|one| (one.token, one.disk)).collect();
        for (token, disk) in late {
            self.owned_late(token, disk);
        }
    }

    /// What the cache refused, with the reason that only the shell knows.
    pub(crate) fn explain(&self, disk: Option<DiskId>, error: ControlError) -> ShardError {
        let place = disk.and_then(|disk| self.owning.disks.get(&disk));
        match (error, place.and_then(|place| place.error.clone())) {
            (ControlError::NotRecorded, Some(error)) => ShardError::Owner(error),
            (error, _) => ShardError::Cache(error),
        }
    }

    /// Records, on a thread of its own, that what is on the flash must not be believed.
    pub(crate) fn retire(&mut self, token: Token, incarnation: u64) {
        self.record = self.record.without_flash(incarnation);
        self.store_record(token, Word::Retired);
    }

    /// Records, on a thread of its own, that what is on the flash may be believed again.
    pub(crate) fn reinstate(&mut self, token: Token, incarnation: u64) {
        self.record = self.record.reinstated(incarnation);
        self.store_record(token, Word::Reinstated);
    }

    fn store_record(&mut self, token: Token, word: Word) {
        let deadline = self.now + RETIRE_TIME_MAX;
        // What was asked before is not waited for any more.
        self.recording = Some(Recording {
            token,
            word,
            deadline,
        });
        let (record, file, sender) = (self.record, self.record_file.clone(), self.sender.clone());
        let spawned = std::thread::Builder::new()
            .name("record".to_owned())
            .spawn(move || {
                let stored = file.store_in_order(record, token.0);
                if let Err(error) = &stored {
                    tracing::error!(%error, "{}", word.remains());
                }
                let recorded = matches!(stored, Ok(true));
                // A shard that has ended needs no answer.
                let _ended = sender.send(Message::Recorded { token, recorded });
            });
        if let Err(error) = spawned {
            tracing::error!(%error, "no thread for the cache's record: {}", word.remains());
            self.recorded(token, false);
        }
    }

    pub(crate) fn recorded(&mut self, token: Token, recorded: bool) {
        let Some(recording) = self.recording.take_if(|asked| asked.token == token) else {
            return;
        };
        match recording.word {
            Word::Retired => self.cache.retired(token, recorded, self.now),
            Word::Reinstated => self.cache.reinstated(token, recorded, self.now),
        }
    }

    /// Lets what waits for the cache's record go on without if writing it takes too long.
    pub(crate) fn watch_record(&mut self) {
        if let Some(Recording {
            token,
            word,
            deadline,
        }) = self.recording
            && deadline <= self.now
        {
            let cache = &self.config.name;
            tracing::error!(
                cache,
                "the state directory does not answer: {}",
                word.remains()
            );
            self.recorded(token, false);
        }
    }
}

/// What is written of an incarnation into the cache's record.
#[derive(Clone, Copy, Debug)]
enum Word {
    /// It is not to be believed.
    Retired,
    /// It may be believed again.
    Reinstated,
}

impl Word {
    /// What is so until it is written.
    fn remains(self) -> &'static str {
        match self {
            Self::Retired => "writes to disks of this cache wait or fail until it can be written",
            Self::Reinstated => "the cache would start empty until it can be written",
        }
    }
}

/// A record of the cache that is being written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recording {
    token: Token,
    word: Word,
    deadline: Instant,
}

impl Recording {
    /// Until when it should have been written.
    pub(crate) fn deadline(&self) -> Instant {
        self.deadline
    }
}
