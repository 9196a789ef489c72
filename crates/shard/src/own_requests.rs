//! Requests that the shard makes of its cache itself: for an operator, for another host, and for what is copied from
//! there.
//!
//! Invariant: a disk that the cache is detaching is asked nothing more. Its clients are closed by then, but what another host
//! says comes at any time.

use crate::asker::Asker;
use crate::disk::Disk;
use crate::disks::Disks;
use crate::error::{Reply, ShardError};
use crate::jobs::{Jobs, PeerRead};
use block_io::IoError;
use borrowing::Run;
use cache::{Cache, Request, Verb};
use units::{BLOCK_BYTES, Bytes, DiskId, DiskSlot, Instant, Offset};

/// The parts of a shard that its own requests need.
pub(crate) struct OwnRequests<'a> {
    cache: &'a mut Cache,
    disks: &'a Disks,
    jobs: &'a mut Jobs,
    now: Instant,
}

impl<'a> OwnRequests<'a> {
    pub(crate) fn of(
        cache: &'a mut Cache,
        disks: &'a Disks,
        jobs: &'a mut Jobs,
        now: Instant,
    ) -> Self {
        Self {
            cache,
            disks,
            jobs,
            now,
        }
    }

    /// Flushes a disk that is served.
    pub(crate) fn flush(&mut self, disk: DiskSlot, reply: Reply<()>) {
        if self.disks.get(disk).is_some_and(Disk::is_shared) {
            // It is never written.
            return reply(Ok(()));
        }
        if self.is_leaving(disk) {
            return reply(Err(ShardError::NoSuchDisk));
        }
        let flush = self.jobs.wait_for_end(reply);
        self.ask(flush, disk, Verb::Flush);
    }

    /// Reads a disk that is served for the other host.
    pub(crate) fn read(&mut self, disk: DiskSlot, at: (Offset, Bytes), reply: Reply<Vec<u8>>) {
        if self.is_leaving(disk) {
            return reply(Err(ShardError::NoSuchDisk));
        }
        let (offset, length) = at;
        let end = offset.checked_add(length);
        if end.is_none_or(|end| end.from_start() > self.size(disk)) {
            return reply(Err(ShardError::Io(IoError::Invalid)));
        }
        let vm = self.cache.facts().tenant_of(disk).expect("it is attached");
        let read = self.jobs.wait_for_read(PeerRead { disk, vm, reply });
        self.ask(read, disk, Verb::Read { offset, length });
    }

    /// Prefetches runs of a disk; the last one's end is that of all.
    pub(crate) fn prefetch(&mut self, disk: DiskSlot, runs: &[Run], reply: Reply<()>) {
        let Some((last, others)) = runs.split_last() else {
            return reply(Ok(()));
        };
        if self.is_leaving(disk) {
            return reply(Err(ShardError::NoSuchDisk));
        }
        let others = others.iter().map(|run| (run, None));
        for (run, reply) in others.chain([(last, Some(reply))]) {
            let prefetch = self
                .jobs
                .wait_for_end(reply.unwrap_or_else(|| Box::new(|_| {})));
            let offset = run.first.start();
            let length = Bytes::new(u64::from(run.count) * BLOCK_BYTES);
            self.ask(prefetch, disk, Verb::Prefetch { offset, length });
        }
    }

    /// Discards what the other host has changed of a disk that is attached as its.
    pub(crate) fn stale(&mut self, disk: DiskId, run: Run, reply: Reply<()>) {
        let slot = self.disks.others(disk);
        let Some(slot) = slot.filter(|slot| !self.is_leaving(*slot)) else {
            return reply(Err(ShardError::NoSuchDisk));
        };
        let offset = run.first.start();
        // The last block may not be whole.
        let left = self.size(slot).get().saturating_sub(offset.get());
        let length = Bytes::new((u64::from(run.count) * BLOCK_BYTES).min(left));
        let discard = self.jobs.wait_for_end(reply);
        self.ask(discard, slot, Verb::Discard { offset, length });
    }

    fn is_leaving(&self, disk: DiskSlot) -> bool {
        self.disks.get(disk).is_some_and(Disk::is_leaving)
    }

    fn size(&self, disk: DiskSlot) -> Bytes {
        let known = self.disks.get(disk);
        known.expect("it is attached").geometry().size
    }

    fn ask(&mut self, command: usize, disk: DiskSlot, verb: Verb) {
        let vm = self.cache.facts().tenant_of(disk);
        let request = Request {
            id: Asker::Command(command).id(),
            disk,
            vm: vm.expect("it is attached"),
            verb,
        };
        self.cache.request(request, self.now);
    }
}
