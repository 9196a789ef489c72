//! The owner's records of the disks that are attached, about to be, or leaving: written on threads of
//! their own, and waited for.
//!
//! ```text
//!   the cache ── Effect::Own ──► thread ── file ──► message ──► the cache
//!                                  └── no answer in time: it is told that it failed
//! ```

use crate::control::Message;
use crate::error::ShardError;
use crate::limits::RETIRE_TIME_MAX;
use crate::owners::{OwnerError, OwnerFile};
use block_io::Token;
use cache::{ControlError, OwnerRecord};
use events::EventKind;
use ring::Sender;
use units::{DiskId, Instant, Map};

pub(crate) struct OwnerRecords {
    /// What the log calls the cache.
    cache: String,
    /// To the shard, for the threads that write.
    sender: Sender<Message>,
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

/// A record that the cache waits for no longer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Written {
    pub(crate) token: Token,
    /// Whether it is durable.
    pub(crate) is_written: bool,
}

impl OwnerRecords {
    pub(crate) fn new(cache: &str, sender: Sender<Message>) -> Self {
        Self {
            cache: cache.to_owned(),
            sender,
            disks: Map::default(),
            under_way: Vec::new(),
            next: 0,
        }
    }

    pub(crate) fn enter(&mut self, disk: DiskId, file: OwnerFile) {
        self.disks.insert(disk, Place { file, error: None });
    }

    pub(crate) fn leave(&mut self, disk: DiskId) {
        self.disks.remove(&disk);
    }

    /// Whether there is a place for a disk's record: once its origin was let go, whoever has it must
    /// not find our word.
    pub(crate) fn has(&self, disk: DiskId) -> bool {
        self.disks.contains_key(&disk)
    }

    /// Begins to write a disk's record. What has ended already is said.
    pub(crate) fn write(
        &mut self,
        token: Token,
        disk: DiskId,
        record: OwnerRecord,
        now: Instant,
    ) -> Option<Written> {
        let Some(place) = self.disks.get(&disk) else {
            let is_written = false;
            return Some(Written { token, is_written });
        };
        let (file, number, sender) = (place.file.clone(), self.next, self.sender.clone());
        self.next += 1;
        let deadline = now + RETIRE_TIME_MAX;
        self.under_way.push(Writing {
            token,
            disk,
            deadline,
        });
        let thread = std::thread::Builder::new().name("owner".to_owned());
        let spawned = thread.spawn(move || {
            let outcome = file.store(record, number);
            // A shard that has ended needs no answer.
            let _ended = sender.send(Message::Owned {
                token,
                disk,
                outcome,
            });
        });
        match spawned {
            Ok(_) => None,
            Err(_) => self.late(token, disk),
        }
    }

    /// A record is written, or cannot be. Nothing if nobody waits for it any more.
    pub(crate) fn ended(
        &mut self,
        token: Token,
        disk: DiskId,
        outcome: Result<(), OwnerError>,
    ) -> Option<Written> {
        let is_it = |writing: &Writing| writing.token == token && writing.disk == disk;
        let at = self.under_way.iter().position(is_it)?;
        self.under_way.swap_remove(at);
        if let Err(error) = &outcome {
            tracing::error!(event = EventKind::RecordFailed.word(),
                cache = self.cache, %disk, %error, "who has the disk is not recorded");
        }
        let is_written = outcome.is_ok();
        if let Some(place) = self.disks.get_mut(&disk) {
            place.error = outcome.err();
        }
        Some(Written { token, is_written })
    }

    fn late(&mut self, token: Token, disk: DiskId) -> Option<Written> {
        let place = self.disks.get(&disk);
        let path = place.map(|place| place.file.path().to_owned());
        let path = path.unwrap_or_default();
        self.ended(token, disk, Err(OwnerError::Late { path }))
    }

    /// A record that took too long to write: a folder on a network may never answer.
    pub(crate) fn take_late(&mut self, now: Instant) -> Option<Written> {
        let mut under_way = self.under_way.iter();
        let late = under_way.find(|writing| writing.deadline <= now)?;
        self.late(late.token, late.disk)
    }

    /// When the next record should have been written.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.under_way.iter().map(|writing| writing.deadline).min()
    }

    /// What the cache refused, with the reason that only the shell knows.
    pub(crate) fn explain(&self, disk: Option<DiskId>, error: ControlError) -> ShardError {
        let place = disk.and_then(|disk| self.disks.get(&disk));
        match (error, place.and_then(|place| place.error.clone())) {
            (ControlError::NotRecorded, Some(error)) => ShardError::Owner(error),
            (error, _) => ShardError::Cache(error),
        }
    }
}
