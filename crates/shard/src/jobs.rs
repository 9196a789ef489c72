//! Commands and what they wait for.
//!
//! ```text
//!  attach ─► cache ─► Attached ─► served ─► answer
//!  detach ─► clients close, requests end ─► cache ─► gone ─► answer
//!  stop   ─► detach of every disk ─► cache stops ─► the thread ends ─► answer
//! ```

mod serving;

use crate::clients::Client;
use crate::control::{Attached, Message, Reply, ShardError};
use crate::disk::{Disk, Phase, slot};
use crate::limits::{FAREWELL_TIME_MAX, LATE_TIME_MAX};
use crate::run::{Owner, Shard};
use crate::spec::DiskSpec;
use crate::status::RequestTimes;
use block_io::IoError;
use cache::{Command, ControlError, ControlId, ControlOutcome, OfDirty};
use origin::{Opened, Origin as _};
use slab::Slab;
use units::{Bytes, DiskId, DiskSlot, Instant, Map};

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
    pub(crate) stopped: bool,
    /// How long the requests of disks that have been detached had taken.
    detached_times: RequestTimes,
}

enum Job {
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
    fn is_stopping(&self) -> bool {
        !self.stopping.is_empty()
    }

    /// A flush that a command asked for has ended.
    pub(crate) fn flushed(&mut self, flush: usize, result: Result<(), IoError>) {
        let reply = self.flushes.remove(flush);
        reply(result.map_err(ShardError::Io));
    }

    /// Tells everybody who waits that the shard has stopped.
    pub(crate) fn say_stopped(self) {
        for reply in self.stopping {
            reply(Ok(()));
        }
    }

    /// How long the requests of disks that have been detached had taken.
    pub(crate) fn detached_times(&self) -> &RequestTimes {
        &self.detached_times
    }

    fn ask(&mut self, job: Job) -> ControlId {
        let id = ControlId(self.next);
        self.next += 1;
        self.asked.insert(id, job);
        id
    }

    /// Whether the cache is busy with a command about a disk.
    fn concern(&self, slot: DiskSlot) -> bool {
        self.asked.values().any(|job| match job {
            Job::FlushFirst(disk)
            | Job::Detach(disk)
            | Job::Grow { disk, .. }
            | Job::Word { disk, .. } => *disk == slot,
            Job::Attach { .. } | Job::Stop => false,
        })
    }
}

impl Shard {
    /// Begins to do what a message says.
    pub(crate) fn obey(&mut self, message: Message) {
        let always = matches!(
            message,
            Message::Status { .. }
                | Message::Recorded { .. }
                | Message::ProgressStored
                | Message::Owned { .. }
                | Message::Stop { .. }
        );
        if self.jobs.is_stopping() && !always {
            return message.refuse(ShardError::Stopping);
        }
        match message {
            Message::Attach {
                spec,
                opened,
                reply,
            } => self.attach(*spec, opened, reply),
            Message::Detach { disk, dirty, reply } => match self.slots.get(&disk) {
                Some(Some(slot)) => self.detach_if_clean(*slot, dirty, reply),
                Some(None) | None => reply(Err(ShardError::NoSuchDisk)),
            },
            Message::Drop { .. }
            | Message::SetPolicy { .. }
            | Message::SetWriteBack { .. }
            | Message::Destage { .. } => self.obey_about_disk(message),
            Message::Grow { disk, size, reply } => self.grow(disk, size, reply),
            Message::Flush { disk, reply } => match self.serving(disk) {
                Ok(disk) => self.flush(disk, reply),
                Err(error) => reply(Err(error)),
            },
            Message::Tap { disk, tap, reply } => reply(self.tap(disk, tap)),
            Message::SetTenancy { settings, reply } => {
                reply(self.set_tenancy(settings.map(|boxed| *boxed)));
            }
            Message::SetTenant {
                tenant,
                settings,
                reply,
            } => {
                reply(self.set_tenant(&tenant, *settings));
            }
            Message::Status { reply } => reply(Ok(self.status())),
            Message::Connect {
                disk,
                client,
                vm,
                reply,
            } => reply(self.connect(disk, client, vm.as_deref())),
            Message::Stop { reply } => self.stop(reply),
            Message::Recorded { token, recorded } => self.recorded(token, recorded),
            Message::ProgressStored => self.progress_stored(),
            Message::Owned {
                token,
                disk,
                outcome,
            } => self.owned(token, disk, outcome),
        }
    }

    /// The cache has ended a command.
    pub(crate) fn control_done(
        &mut self,
        id: ControlId,
        result: Result<ControlOutcome, ControlError>,
    ) {
        let job = self.jobs.asked.remove(&id);
        match job.expect("the cache ends each command once") {
            Job::Attach { disk, reply } => self.attached(disk, reply, result),
            Job::FlushFirst(slot) if result.is_ok() => self.leave_now(slot),
            Job::FlushFirst(slot) | Job::Detach(slot) => self.detached(slot, result),
            Job::Grow { disk, size, reply } => {
                if result.is_ok() {
                    self.has_grown(disk, size);
                }
                self.answer(disk, reply, result);
            }
            Job::Word { disk, reply } => self.answer(disk, reply, result),
            Job::Stop => self.jobs.stopped = true,
        }
        self.stop_if_empty();
    }

    fn attach(&mut self, spec: DiskSpec, opened: Opened, reply: Reply<Attached>) {
        let found = opened.geometry().size;
        if let Some(expected) = spec.size
            && expected != found
        {
            // Who hears of it may open the origin again at once, so it is let go first.
            drop(opened);
            return reply(Err(ShardError::Size { expected, found }));
        }
        if self.slots.contains_key(&spec.id) {
            drop(opened);
            return reply(Err(ShardError::AlreadyAttached));
        }
        match spec.cipher() {
            Ok(cipher) => self.cache.set_cipher(spec.id, cipher),
            Err(error) => {
                drop(opened);
                return reply(Err(error));
            }
        }
        let origin = opened.start(&self.ring, &self.pool);
        let command = Command::Attach {
            disk: spec.id,
            name: spec.name.clone(),
            size: found,
            policy: spec.policy,
            read_only: spec.read_only || origin.geometry().read_only,
            tenant: spec.tenant.clone(),
            shared: spec.shared,
            fingerprint: origin.fingerprint(),
            owner: spec.owned_by,
            write_back: spec.write_back,
        };
        self.slots.insert(spec.id, None);
        self.owning.enter(spec.id, spec.owner.clone());
        let disk = Box::new(Disk::new(spec, origin));
        let id = self.jobs.ask(Job::Attach { disk, reply });
        self.cache.control(id, command, self.now);
    }

    fn attached(
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
                let error = self.explain(Some(disk.spec.id), error);
                self.slots.remove(&disk.spec.id);
                self.owning.leave(disk.spec.id);
                drop(disk);
                return reply(Err(error));
            }
        };
        let geometry = disk.geometry;
        disk.warm_blocks = warm_blocks;
        disk.dropped = dropped;
        tracing::info!(disk = disk.spec.name, size = %geometry.size, warm_blocks, ?dropped, "disk attached");
        self.slots.insert(disk.spec.id, Some(slot));
        let place = &mut self.disks[slot.index()];
        assert!(place.is_none(), "a slot has one disk");
        *place = Some(disk);
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

    /// The slot of a disk that takes commands and clients.
    pub(crate) fn serving(&self, disk: DiskId) -> Result<DiskSlot, ShardError> {
        let slot = self.slots.get(&disk).copied().flatten();
        let slot = slot.ok_or(ShardError::NoSuchDisk)?;
        match &self.disks[slot.index()] {
            Some(disk) if disk.is_serving() => Ok(slot),
            Some(_) | None => Err(ShardError::Detaching),
        }
    }

    /// Detaches a disk, unless it is known already that this will be refused: then its clients
    /// keep their connections.
    fn detach_if_clean(&mut self, slot: DiskSlot, dirty: OfDirty, reply: Reply<()>) {
        let lacking = self.cache.write_back_of(slot).map(|status| status.distinct);
        match lacking {
            Some(bytes) if dirty == OfDirty::Refuse && !bytes.is_zero() => {
                reply(Err(ControlError::Dirty { bytes }.into()));
            }
            _ => self.detach(slot, dirty, reply),
        }
    }

    fn detach(&mut self, slot: DiskSlot, dirty: OfDirty, reply: Reply<()>) {
        let disk = self.disks[slot.index()]
            .as_mut()
            .expect("a slot that is known has a disk");
        match &mut disk.phase {
            Phase::Draining(waiting) | Phase::Leaving(waiting) => return waiting.push(reply),
            Phase::Serving => disk.phase = Phase::Draining(vec![reply]),
        }
        disk.of_dirty = dirty;
        disk.late_until = Some(self.now + LATE_TIME_MAX);
        self.draining.push(slot);
        let mut closing = Vec::new();
        for (key, client) in &mut self.clients {
            if client.disk == slot {
                client.connection.close();
                client.farewell = Some(self.now + FAREWELL_TIME_MAX);
                closing.push(key);
            }
        }
        for client in closing {
            self.touch(client);
        }
        self.cache.cut_prefetches(slot, self.now);
    }

    /// Lets draining disks go on. True if the cache was asked something.
    pub(crate) fn watch_draining(&mut self) -> bool {
        if self.draining.is_empty() {
            return false;
        }
        self.drop_silent_clients();
        let mut progress = false;
        for slot in std::mem::take(&mut self.draining) {
            if self.is_drained(slot) {
                self.leave(slot);
                progress = true;
            } else {
                self.draining.push(slot);
            }
        }
        progress
    }

    /// Drops clients that have had all the time they get, and have nothing at their disk.
    fn drop_silent_clients(&mut self) {
        let now = self.now;
        let late = |client: &Client| {
            let overdue = client.farewell.is_some_and(|farewell| farewell <= now);
            overdue && client.connection.in_flight() == 0
        };
        let silent = self.clients.iter().filter(|(_, client)| late(client));
        let silent: Vec<usize> = silent.map(|(key, _)| key).collect();
        for client in silent {
            self.forget_client(client);
        }
    }

    /// When the next client's time to say farewell ends, or a disk's to wait for late writes.
    pub(crate) fn next_farewell(&self) -> Option<Instant> {
        if self.draining.is_empty() {
            return None;
        }
        let farewells = self
            .clients
            .iter()
            .filter_map(|(_, client)| client.farewell);
        let draining = self.draining.iter();
        let lates = draining.filter_map(|slot| self.disks[slot.index()].as_ref()?.late_until);
        // One that has passed waits for its disk, and is looked at when that answers.
        let both = farewells.chain(lates);
        both.filter(|farewell| *farewell > self.now).min()
    }

    fn is_drained(&self, slot: DiskSlot) -> bool {
        self.disks[slot.index()].as_ref().is_some_and(|disk| {
            disk.connections == 0
                && disk.origin.in_flight() == 0
                && self.has_waited_for_late_writes(disk)
                && self.cache.in_flight(slot) == 0
                && !self.jobs.concern(slot)
        })
    }

    fn has_waited_for_late_writes(&self, disk: &Disk) -> bool {
        let is_late = disk.late_until.is_none_or(|until| until <= self.now);
        is_late || disk.origin.condition().late.is_zero()
    }

    fn leave(&mut self, slot: DiskSlot) {
        let disk = self.disks[slot.index()].as_mut();
        let disk = disk.expect("a draining disk is there");
        if let Phase::Draining(waiting) = &mut disk.phase {
            disk.phase = Phase::Leaving(std::mem::take(waiting));
        }
        if disk.of_dirty == OfDirty::Flush {
            let id = self.jobs.ask(Job::FlushFirst(slot));
            let command = Command::Destage { disk: slot };
            return self.cache.control(id, command, self.now);
        }
        self.leave_now(slot);
    }

    /// Nobody writes the origin any more, so its fingerprint will hold.
    fn leave_now(&mut self, slot: DiskSlot) {
        let disk = self.disks[slot.index()].as_ref();
        let disk = disk.expect("a leaving disk is there");
        let fingerprint = disk.origin.fingerprint();
        let dirty = disk.of_dirty;
        let id = self.jobs.ask(Job::Detach(slot));
        let command = Command::Detach {
            disk: slot,
            fingerprint,
            dirty,
        };
        self.cache.control(id, command, self.now);
    }

    /// The cache no longer knows the disk; if it never did, so much the better. If it refused, the
    /// disk is served again; unless everything stops.
    fn detached(&mut self, slot: DiskSlot, result: Result<ControlOutcome, ControlError>) {
        let mut disk = self.disks[slot.index()]
            .take()
            .expect("a leaving disk is there");
        if let Err(error) = result {
            let error = self.explain(Some(disk.spec.id), error);
            tracing::error!(disk = disk.spec.name, %error, "the disk was not detached");
            if !self.jobs.is_stopping() {
                let phase = std::mem::replace(&mut disk.phase, Phase::Serving);
                self.disks[slot.index()] = Some(disk);
                return phase.answer(&Err(error));
            }
        }
        self.slots.remove(&disk.spec.id);
        self.owning.leave(disk.spec.id);
        self.deadlines.set(slot, None);
        for source in disk.origin.sources() {
            self.own(Some(source), Owner::Nobody);
        }
        self.tell_of_last(slot, &disk.spec.name);
        disk.add_times(&mut self.jobs.detached_times);
        tracing::info!(disk = disk.spec.name, "disk detached");
        let Disk { origin, phase, .. } = *disk;
        // Who hears of it may open the origin at once.
        drop(origin);
        phase.answer(&Ok(()));
    }

    fn stop(&mut self, reply: Reply<()>) {
        self.jobs.stopping.push(reply);
        let attached: Vec<DiskSlot> = self.attached_slots().collect();
        for slot in attached {
            self.detach(slot, OfDirty::Keep, Box::new(|_| {}));
        }
        self.stop_if_empty();
    }

    fn stop_if_empty(&mut self) {
        if self.jobs.is_stopping() && self.slots.is_empty() && !self.jobs.stop_asked {
            self.jobs.stop_asked = true;
            let id = self.jobs.ask(Job::Stop);
            self.cache.control(id, Command::Stop, self.now);
        }
    }

    pub(crate) fn attached_slots(&self) -> impl Iterator<Item = DiskSlot> {
        let disks = self.disks.iter().enumerate();
        disks
            .filter(|(_, disk)| disk.is_some())
            .map(|(index, _)| slot(index))
    }
}
