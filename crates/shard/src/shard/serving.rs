//! Attaching a disk, and commands about one that is served.

use super::Shard;
use crate::control::Attached;
use crate::disk::{Disk, Found};
use crate::error::{Reply, ShardError};
use crate::jobs::Job;
use crate::spec::DiskSpec;
use block_io::BlockCipher;
use cache::{Command, ControlError, ControlOutcome, OfDirty, Tenure};
use events::EventKind;
use origin::{Opened, Origin};
use units::{Bytes, DiskId, DiskSlot};

impl Shard {
    pub(super) fn attach(&mut self, spec: DiskSpec, opened: Opened, reply: Reply<Attached>) {
        let found = opened.geometry().size;
        if let Some(expected) = spec.size
            && expected != found
        {
            // Who hears of it may open the origin again at once, so it is let go first.
            drop(opened);
            return reply(Err(ShardError::Size { expected, found }));
        }
        if self.disks.has(spec.id) {
            drop(opened);
            return reply(Err(ShardError::AlreadyAttached));
        }
        let cipher = match spec.cipher() {
            Ok(cipher) => cipher,
            Err(error) => {
                drop(opened);
                return reply(Err(error));
            }
        };
        let origin = opened.start(&self.ring, &self.pool);
        let origin = self.standbys.with_loans(spec.id, origin);
        self.begin_attach(spec, cipher, origin, reply);
    }

    pub(super) fn begin_attach(
        &mut self,
        spec: DiskSpec,
        cipher: Option<Box<dyn BlockCipher>>,
        origin: Box<dyn Origin>,
        reply: Reply<Attached>,
    ) {
        self.cache.set_cipher(spec.id, cipher);
        let command = Command::Attach {
            disk: spec.id,
            name: spec.name.clone(),
            size: origin.geometry().size,
            policy: spec.policy,
            read_only: spec.read_only || origin.geometry().read_only,
            tenant: spec.tenant.clone(),
            shared: spec.shared,
            fingerprint: origin.fingerprint(),
            owner: spec.owned_by,
            write_back: spec.write_back,
            tenure: spec.tenure,
        };
        self.disks.expect(spec.id);
        self.records.enter(spec.id, spec.owner.clone());
        let disk = Box::new(Disk::new(spec, origin));
        let id = self.jobs.ask(Job::Attach { disk, reply });
        self.cache.control(id, command, self.now);
    }

    pub(super) fn attached(
        &mut self,
        mut disk: Box<Disk>,
        reply: Reply<Attached>,
        result: Result<ControlOutcome, ControlError>,
    ) {
        let (slot, warm_blocks, dropped) = match result {
            Ok(ControlOutcome::Attached {
                disk,
                warm_blocks,
                dropped,
                ..
            }) => (disk, warm_blocks, dropped),
            Ok(ControlOutcome::Done) => unreachable!("attaching a disk gives it a slot"),
            Err(error) => {
                let error = self.records.explain(Some(disk.id()), error);
                self.disks.forget(disk.id());
                self.records.leave(disk.id());
                drop(disk);
                return reply(Err(error));
            }
        };
        let geometry = disk.geometry();
        disk.set_found(Found {
            warm_blocks,
            dropped,
        });
        tracing::info!(event = EventKind::DiskAttached.word(),
            disk = disk.name(), size = %geometry.size, warm_blocks, ?dropped, "disk attached");
        let id = disk.id();
        disk.set_roams(self.standbys.has(id));
        let is_here = disk.tenure() != Tenure::Standby;
        self.throttles.set(slot, disk.limits());
        self.disks.insert(slot, disk);
        if is_here {
            self.seat_clients(id, slot);
        }
        // Something may have happened to the origin while nobody listened.
        self.poll_origin(slot);
        reply(Ok(Attached {
            geometry,
            warm_blocks,
            dropped,
        }));
        if self.jobs.is_stopping() {
            self.detach(slot, OfDirty::Keep, Box::new(|_| {}));
        }
    }

    pub(super) fn grow(&mut self, disk: DiskId, size: Bytes, reply: Reply<()>) {
        let slot = match self.disks.serving(disk) {
            Ok(slot) => slot,
            Err(error) => return reply(Err(error)),
        };
        let disk = self.disks.get_mut(slot).expect("it is serving");
        if let Err(error) = disk.origin_mut().grow(size) {
            return reply(Err(error.into()));
        }
        self.poll_origin(slot);
        let id = self.jobs.ask(Job::Grow {
            disk: slot,
            size,
            reply,
        });
        let command = Command::Grow { disk: slot, size };
        self.cache.control(id, command, self.now);
    }

    /// The cache takes requests up to a disk's new end.
    pub(super) fn has_grown(&mut self, slot: DiskSlot, size: Bytes) {
        if let Some(disk) = self.disks.get_mut(slot)
            && disk.set_size(size)
        {
            self.clients.resize(slot, size);
        }
    }
}
