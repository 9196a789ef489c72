//! Commands that are under way: what the cache was asked, and who waits for which end.

use crate::control::Attached;
use crate::disk::Disk;
use crate::error::{Reply, ShardError};
use block_io::{IoError, Payload};
use cache::{Borrowed, ControlId, LoanId, NotLent};
use slab::Slab;
use units::{Bytes, DiskSlot, Map, TenantSlot};

/// Commands that are under way.
#[derive(Default)]
pub(crate) struct Jobs {
    next: u64,
    /// What the cache has been asked.
    asked: Map<ControlId, Job>,
    /// Who waits for a request to the cache.
    requests: Slab<Waiting>,
    /// Hosts that wait for what this cache lends.
    loans: Slab<Reply<Borrowed<Vec<u8>>>>,
    /// Who waits for the end; not empty once stopping began.
    stopping: Vec<Reply<()>>,
    stop_asked: bool,
    /// The cache has stopped: nothing is left to do.
    stopped: bool,
}

/// Who waits for a request to the cache.
enum Waiting {
    End(Reply<()>),
    Read(PeerRead),
    /// What was read is here, and not yet durable.
    Durable {
        bytes: Vec<u8>,
        reply: Reply<Vec<u8>>,
    },
}

/// A read for another host: of which disk, for which VM, and who waits.
pub(crate) struct PeerRead {
    pub(crate) disk: DiskSlot,
    pub(crate) vm: TenantSlot,
    pub(crate) reply: Reply<Vec<u8>>,
}

/// What was read for another host goes there when it is durable: the cache is asked for that under this number.
pub(crate) struct WantsDurable {
    pub(crate) request: usize,
    pub(crate) disk: DiskSlot,
    pub(crate) vm: TenantSlot,
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
    /// A command whose disk may leave before it has ended.
    Told(Reply<()>),
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

    /// Nobody waits any more for what is brought to the origin of a disk before its detach. False if nothing is.
    pub(crate) fn give_up_flush(&mut self, slot: DiskSlot) -> bool {
        let mut jobs = self.asked.values_mut();
        let flush = jobs.find(|job| matches!(job, Job::FlushFirst(disk) if *disk == slot));
        let Some(flush) = flush else {
            return false;
        };
        *flush = Job::Told(Box::new(|_| {}));
        true
    }

    /// Whether the cache is busy with a command about a disk.
    pub(crate) fn concern(&self, slot: DiskSlot) -> bool {
        self.asked.values().any(|job| match job {
            Job::FlushFirst(disk)
            | Job::Detach(disk)
            | Job::Grow { disk, .. }
            | Job::Word { disk, .. } => *disk == slot,
            Job::Attach { .. } | Job::Told(_) | Job::Stop => false,
        })
    }

    /// A command makes a request that brings nothing; its number is that of [`Jobs::answered`].
    pub(crate) fn wait_for_end(&mut self, reply: Reply<()>) -> usize {
        self.requests.insert(Waiting::End(reply))
    }

    /// Another host waits for what the cache is asked to lend it.
    pub(crate) fn wait_for_loan(&mut self, reply: Reply<Borrowed<Vec<u8>>>) -> LoanId {
        LoanId(self.loans.insert(reply) as u64)
    }

    /// The cache has answered a loan.
    ///
    /// # Panics
    /// If it was not asked, or has answered before.
    pub(crate) fn lent(&mut self, loan: LoanId, result: Result<Borrowed, NotLent>) {
        let place = usize::try_from(loan.0).expect("it is a place in the table");
        let reply = self.loans.remove(place);
        let result = result.map(|borrowed| match borrowed {
            Borrowed::Segments(segments) => Borrowed::Segments(segments),
            Borrowed::Contents(blocks) => Borrowed::Contents(blocks),
            Borrowed::Blocks(payload) => Borrowed::Blocks(bytes_of(&payload)),
            Borrowed::Records(shipment) => {
                Borrowed::Records(shipment.map(|payload| bytes_of(&payload)))
            }
        });
        reply(result.map_err(ShardError::NotLent));
    }

    /// A command reads; its number is that of [`Jobs::answered`].
    pub(crate) fn wait_for_read(&mut self, read: PeerRead) -> usize {
        self.requests.insert(Waiting::Read(read))
    }

    /// A request that a command has made has ended. It may need another one.
    pub(crate) fn answered(
        &mut self,
        request: usize,
        result: Result<Payload, IoError>,
    ) -> Option<WantsDurable> {
        let result = result.map_err(ShardError::Io);
        match (self.requests.remove(request), result) {
            (Waiting::End(reply), result) => reply(result.map(drop)),
            (Waiting::Read(PeerRead { disk, vm, reply }), Ok(payload)) => {
                let bytes = bytes_of(&payload);
                let request = self.requests.insert(Waiting::Durable { bytes, reply });
                return Some(WantsDurable { request, disk, vm });
            }
            (Waiting::Read(PeerRead { reply, .. }), Err(error)) => reply(Err(error)),
            (Waiting::Durable { bytes, reply }, result) => reply(result.map(|_| bytes)),
        }
        None
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

fn bytes_of(payload: &Payload) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(payload.iter().map(|slice| slice.len()).sum());
    for slice in payload {
        bytes.extend_from_slice(slice);
    }
    bytes
}
