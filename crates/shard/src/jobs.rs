//! Commands that are under way: what the cache was asked, and who waits for which end.

use crate::control::Attached;
use crate::disk::Disk;
use crate::error::{Reply, ShardError};
use block_io::IoError;
use cache::ControlId;
use slab::Slab;
use units::{Bytes, DiskSlot, Map};

/// Commands that are under way.
#[derive(Default)]
pub(crate) struct Jobs {
    next: u64,
    /// What the cache has been asked.
    asked: Map<ControlId, Job>,
    /// Who waits for a flush.
    flushes: Slab<Reply<()>>,
    /// Who waits for the end; not empty once stopping began.
    stopping: Vec<Reply<()>>,
    stop_asked: bool,
    /// The cache has stopped: nothing is left to do.
    stopped: bool,
}

pub(crate) enum Job {
    Attach {
        disk: Box<Disk>,
        reply: Reply<Attached>,
    },
    /// What the origin lacks is brought to it before its fingerprint is taken for a detach.
    FlushFirst(DiskSlot),
    Detach(DiskSlot),
    /// The disk is to have this size.
    Grow {
        disk: DiskSlot,
        size: Bytes,
        reply: Reply<()>,
    },
    /// A command about a disk whose outcome is a word.
    Word {
        disk: DiskSlot,
        reply: Reply<()>,
    },
    Stop,
}

impl Jobs {
    /// The cache is asked to do this.
    pub(crate) fn ask(&mut self, job: Job) -> ControlId {
        let id = ControlId(self.next);
        self.next += 1;
        self.asked.insert(id, job);
        id
    }

    /// The cache has ended a command.
    ///
    /// # Panics
    /// If it was not asked, or has ended it before.
    pub(crate) fn ended(&mut self, id: ControlId) -> Job {
        let job = self.asked.remove(&id);
        job.expect("the cache ends each command once")
    }

    /// Whether the cache is busy with a command about a disk.
    pub(crate) fn concern(&self, slot: DiskSlot) -> bool {
        self.asked.values().any(|job| match job {
            Job::FlushFirst(disk)
            | Job::Detach(disk)
            | Job::Grow { disk, .. }
            | Job::Word { disk, .. } => *disk == slot,
            Job::Attach { .. } | Job::Stop => false,
        })
    }

    /// A command asks for a flush; its number is that of [`Jobs::flushed`].
    pub(crate) fn wait_for_flush(&mut self, reply: Reply<()>) -> usize {
        self.flushes.insert(reply)
    }

    /// A flush that a command asked for has ended.
    pub(crate) fn flushed(&mut self, flush: usize, result: Result<(), IoError>) {
        let reply = self.flushes.remove(flush);
        reply(result.map_err(ShardError::Io));
    }

    /// The shard is to stop.
    pub(crate) fn stop(&mut self, reply: Reply<()>) {
        self.stopping.push(reply);
    }

    pub(crate) fn is_stopping(&self) -> bool {
        !self.stopping.is_empty()
    }

    /// The cache is asked to stop, if it has to be and was not asked before. To be called when no disk
    /// is left.
    pub(crate) fn ask_to_stop(&mut self) -> Option<ControlId> {
        if !self.is_stopping() || std::mem::replace(&mut self.stop_asked, true) {
            return None;
        }
        Some(self.ask(Job::Stop))
    }

    /// The cache has stopped.
    pub(crate) fn set_stopped(&mut self) {
        self.stopped = true;
    }

    /// Whether nothing is left to do.
    pub(crate) fn has_stopped(&self) -> bool {
        self.stopped
    }

    /// Tells everybody who waits that the shard has stopped.
    pub(crate) fn say_stopped(self) {
        for reply in self.stopping {
            reply(Ok(()));
        }
    }
}
