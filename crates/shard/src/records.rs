//! What a shard has written down outside its flash, on threads of its own, and waits for: that the
//! flash was given up, and who has a disk.
//!
//! ```text
//!   the cache ── Effect::Retire, Effect::Own ──► thread ── file ──► message ──► the cache
//!                                   └── no answer in time: it is told that it failed
//! ```

use crate::control::{Message, ShardError};
use crate::limits::RETIRE_TIME_MAX;
use crate::owners::{OwnerError, OwnerFile};
use crate::run::Shard;
use block_io::{FailureKind, Token};
use cache::{ControlError, Mode, OwnerRecord};
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

    /// Records, on a thread of its own, that what is on the flash must not be believed again.
    pub(crate) fn retire(&mut self, token: Token, incarnation: u64) {
        if let Mode::Retiring { reason } = self.cache.status().mode {
            let kind = FailureKind::FlashGivenUp;
            tracing::error!(kind = kind.name(), message_id = kind.message_id(),
                cache = self.config.name, flash = %self.config.flash.display(), reason,
                "the flash was given up: every disk of this cache is served from its origin");
        }
        self.record = self.record.without_flash(incarnation);
        self.retiring = Some((token, self.now + RETIRE_TIME_MAX));
        let (record, file) = (self.record, self.record_file.clone());
        let sender = self.sender.clone();
        let spawned = std::thread::Builder::new()
            .name("retire".to_owned())
            .spawn(move || {
                let stored = file.store(record);
                if let Err(error) = &stored {
                    tracing::error!(%error, "writes to disks of this cache fail until this is recorded");
                }
                let recorded = stored.is_ok();
                // A shard that has ended needs no answer.
                let _ended = sender.send(Message::Retired { token, recorded });
            });
        if let Err(error) = spawned {
            tracing::error!(%error, "no thread to record that the flash was given up");
            self.retired(token, false);
        }
    }

    pub(crate) fn retired(&mut self, token: Token, recorded: bool) {
        if self.retiring.is_some_and(|(asked, _)| asked == token) {
            self.retiring = None;
            self.cache.retired(token, recorded, self.now);
        }
    }

    /// Lets waiting writes fail if recording a retirement takes too long.
    pub(crate) fn watch_retirement(&mut self) {
        if let Some((token, deadline)) = self.retiring
            && deadline <= self.now
        {
            tracing::error!(
                cache = self.config.name,
                "the state directory does not answer: writes to disks of this cache fail"
            );
            self.retired(token, false);
        }
    }
}
