//! Commands and what they wait for.
//!
//! ```text
//!  attach ─► cache ─► Attached ─► served ─► answer
//!  detach ─► clients close, requests end ─► cache ─► gone ─► answer
//!  stop   ─► detach of every disk ─► cache stops ─► the thread ends ─► answer
//! ```

use crate::clients::{Asker, Client};
use crate::control::{Attached, Message, Reply, ShardError};
use crate::disk::{Disk, Phase};
use crate::limits::{FAREWELL_TIME_MAX, RETIRE_TIME_MAX};
use crate::run::{Owner, Shard, slot};
use crate::spec::DiskSpec;
use crate::status::ShardStatus;
use crate::tap::Tap;
use block_io::{IoError, Token};
use cache::{Command, ControlError, ControlId, ControlOutcome, Mode, Request, Verb};
use origin::{Opened, Origin as _};
use slab::Slab;
use units::{DiskId, DiskSlot, Instant, Map};

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
}

enum Job {
    Attach {
        disk: Box<Disk>,
        reply: Reply<Attached>,
    },
    Detach(DiskSlot),
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

    fn ask(&mut self, job: Job) -> ControlId {
        let id = ControlId(self.next);
        self.next += 1;
        self.asked.insert(id, job);
        id
    }

    /// Whether the cache is busy with a command about a disk.
    fn concern(&self, slot: DiskSlot) -> bool {
        self.asked.values().any(|job| match job {
            Job::Detach(disk) | Job::Word { disk, .. } => *disk == slot,
            Job::Attach { .. } | Job::Stop => false,
        })
    }
}

impl Shard {
    /// Begins to do what a message says.
    pub(crate) fn obey(&mut self, message: Message) {
        let always = matches!(
            message,
            Message::Status { .. } | Message::Retired { .. } | Message::Stop { .. }
        );
        if self.jobs.is_stopping() && !always {
            return message.refuse(ShardError::Stopping);
        }
        match message {
            Message::Attach {
                spec,
                opened,
                reply,
            } => self.attach(spec, opened, reply),
            Message::Detach { disk, reply } => match self.slots.get(&disk) {
                Some(Some(slot)) => self.detach(*slot, reply),
                Some(None) | None => reply(Err(ShardError::NoSuchDisk)),
            },
            Message::Drop { disk, reply } => {
                self.ask_about(disk, reply, |disk| Command::Drop { disk });
            }
            Message::SetPolicy {
                disk,
                policy,
                reply,
            } => self.ask_about(disk, reply, |disk| Command::SetPolicy { disk, policy }),
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
            } => reply(self.connect(disk, *client, vm.as_deref())),
            Message::ConnectVhost {
                disk,
                client,
                vm,
                reply,
            } => reply(self.connect_vhost(disk, client, vm.as_deref())),
            Message::Stop { reply } => self.stop(reply),
            Message::Retired { token, recorded } => self.retired(token, recorded),
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
            Job::Detach(slot) => self.detached(slot),
            Job::Word { reply, .. } => reply(result.map(drop).map_err(ShardError::Cache)),
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
            owner: None,
            write_back: cache::WriteBack::default(),
        };
        self.slots.insert(spec.id, None);
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
                self.slots.remove(&disk.spec.id);
                drop(disk);
                return reply(Err(error.into()));
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
            self.detach(slot, Box::new(|_| {}));
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

    fn ask_about(
        &mut self,
        disk: DiskId,
        reply: Reply<()>,
        command: impl FnOnce(DiskSlot) -> Command,
    ) {
        match self.serving(disk) {
            Ok(disk) => {
                let id = self.jobs.ask(Job::Word { disk, reply });
                self.cache.control(id, command(disk), self.now);
            }
            Err(error) => reply(Err(error)),
        }
    }

    fn flush(&mut self, disk: DiskSlot, reply: Reply<()>) {
        if self.disks[disk.index()]
            .as_ref()
            .is_some_and(|disk| disk.spec.shared)
        {
            // It is never written.
            return reply(Ok(()));
        }
        let vm = self.cache.tenant_of(disk).expect("it is serving");
        let flush = self.jobs.flushes.insert(reply);
        let request = Request {
            id: Asker::Command(flush).id(),
            disk,
            vm,
            verb: Verb::Flush,
        };
        self.cache.request(request, self.now);
    }

    fn tap(&mut self, disk: DiskId, tap: Option<Tap>) -> Result<(), ShardError> {
        let slot = self.serving(disk)?;
        let disk = self.disks[slot.index()].as_mut().expect("it is serving");
        disk.tap = tap;
        Ok(())
    }

    fn detach(&mut self, slot: DiskSlot, reply: Reply<()>) {
        let disk = self.disks[slot.index()]
            .as_mut()
            .expect("a slot that is known has a disk");
        match &mut disk.phase {
            Phase::Draining(waiting) | Phase::Leaving(waiting) => return waiting.push(reply),
            Phase::Serving => disk.phase = Phase::Draining(vec![reply]),
        }
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

    /// When the next client's time to say farewell ends.
    pub(crate) fn next_farewell(&self) -> Option<Instant> {
        if self.draining.is_empty() {
            return None;
        }
        let farewells = self
            .clients
            .iter()
            .filter_map(|(_, client)| client.farewell);
        // One that has passed waits for its disk, and is looked at when that answers.
        farewells.filter(|farewell| *farewell > self.now).min()
    }

    fn is_drained(&self, slot: DiskSlot) -> bool {
        self.disks[slot.index()].as_ref().is_some_and(|disk| {
            disk.connections == 0
                && disk.origin.in_flight() == 0
                && self.cache.in_flight(slot) == 0
                && !self.jobs.concern(slot)
        })
    }

    fn leave(&mut self, slot: DiskSlot) {
        let disk = self.disks[slot.index()].as_mut();
        let disk = disk.expect("a draining disk is there");
        if let Phase::Draining(waiting) = &mut disk.phase {
            disk.phase = Phase::Leaving(std::mem::take(waiting));
        }
        let fingerprint = disk.origin.fingerprint();
        let id = self.jobs.ask(Job::Detach(slot));
        let command = Command::Detach {
            disk: slot,
            fingerprint,
            dirty: cache::OfDirty::Refuse,
        };
        self.cache.control(id, command, self.now);
    }

    /// The cache no longer knows the disk; if it never did, so much the better.
    fn detached(&mut self, slot: DiskSlot) {
        let disk = self.disks[slot.index()].take();
        let disk = disk.expect("a leaving disk is there");
        self.slots.remove(&disk.spec.id);
        self.deadlines.set(slot, None);
        for source in disk.origin.sources() {
            self.own(Some(source), Owner::Nobody);
        }
        tracing::info!(disk = disk.spec.name, "disk detached");
        let Disk { origin, phase, .. } = *disk;
        // Who hears of it may open the origin at once.
        drop(origin);
        if let Phase::Leaving(waiting) = phase {
            for reply in waiting {
                reply(Ok(()));
            }
        }
    }

    fn stop(&mut self, reply: Reply<()>) {
        self.jobs.stopping.push(reply);
        let attached: Vec<DiskSlot> = self.attached_slots().collect();
        for slot in attached {
            self.detach(slot, Box::new(|_| {}));
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

    fn attached_slots(&self) -> impl Iterator<Item = DiskSlot> {
        let disks = self.disks.iter().enumerate();
        disks
            .filter(|(_, disk)| disk.is_some())
            .map(|(index, _)| slot(index))
    }

    /// Records, on a thread of its own, that what is on the flash must not be believed again.
    pub(crate) fn retire(&mut self, token: Token, incarnation: u64) {
        if let Mode::Retiring { reason } = self.cache.status().mode {
            tracing::error!(cache = self.config.name, flash = %self.config.flash.display(), reason,
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

    fn retired(&mut self, token: Token, recorded: bool) {
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

    fn status(&self) -> ShardStatus {
        let flash_latency = self
            .flash
            .as_ref()
            .map(|flash| flash.inner().latency().clone());
        let disks = self.attached_slots().filter_map(|slot| {
            let disk = self.disks[slot.index()].as_ref()?;
            Some(disk.status(slot, &self.cache, self.vhost_status(slot)))
        });
        ShardStatus {
            name: self.config.name.clone(),
            flash: self.config.flash.clone(),
            cache: self.cache.status(),
            stats: self.cache.stats().clone(),
            opening: self.opening.clone(),
            turns: self.turns,
            flash_latency: flash_latency.unwrap_or_default(),
            disks: disks.collect(),
            reports: self.cache.tenant_reports(),
            host: self.cache.host_report(),
            tenants: self.cache.tenants(),
        }
    }
}
