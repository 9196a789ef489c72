//! The turn of a shard's loop.
//!
//! ```text
//!   wait ─► who is ready, whose time has come ─► completions, requests, messages to the cache
//!    ▲                                                            │
//!    │          ┌──────── requests ◄── poll touched clients ◄──┐  ▼
//!    └── done ──┴► effects: flash, origin, replies ────────────┴─ settle until nothing is left
//! ```
//!
//! Invariants:
//! - Nothing is left to do when the loop waits: every effect was carried out, every touched
//!   client was polled, so all replies of a turn leave in one send a client. Only what came from
//!   flash may be more than a turn takes on ([`Arrived`]): then the loop looks, and does not wait.
//! - The wait ends at the earliest deadline of the cache, the flash, any origin, any farewell,
//!   a record that is being written and failures that are counted.

use crate::arrived::Arrived;
use crate::clients::{Asker, Client};
use crate::control::{Message, ShardHandle, SpawnError};
use crate::deadlines::Deadlines;
use crate::disk::{Disk, RequestKind};
use crate::failures::Repeats;
use crate::jobs::Jobs;
use crate::lasting::LastingMemory;
use crate::limits::{LANDING_BYTES_MIN, RING_ENTRIES};
use crate::memory::MemoryWatch;
use crate::open::{self, Flash};
use crate::progress::Progress;
use crate::records::Owning;
use crate::records::Recording;
use crate::retirement::{Record, RecordFile};
use crate::slow_flash::Told;
use crate::spec::ShardConfig;
use crate::standstill::Standstill;
use crate::status::Opening;
use crate::tripwire::Tripwire;
use crate::watch::{Rings, Watched};
use block_io::{BufPool, FlashOp, IoError, OriginDone, OriginOp, Payload, Slice};
use cache::{Cache, Effect, Request, RequestId, Verb};
use device::Device as _;
use frontend::budget::MemoryBudget;
use frontend::{Incoming, RequestKey, State};
use origin::Origin as _;
use ring::{Mailbox, Ring, Sender, SourceId};
use slab::Slab;
use std::io;
use std::sync::mpsc;
use units::{DiskId, DiskSlot, Duration, Instant, Map};

/// A shard: one cache, its disks, their clients, on a thread of its own.
pub struct Shard {
    pub(crate) config: ShardConfig,
    pub(crate) ring: Ring,
    pub(crate) pool: BufPool,
    pub(crate) memory: MemoryBudget,
    pub(crate) memory_watch: MemoryWatch,
    pub(crate) cache: Cache,
    pub(crate) flash: Option<Flash>,
    pub(crate) opening: Opening,
    pub(crate) record: Record,
    pub(crate) record_file: RecordFile,
    pub(crate) lasting: LastingMemory,
    pub(crate) mailbox: Mailbox<Message>,
    /// For the shard's own helper threads; gone once it stops.
    pub(crate) sender: Sender<Message>,
    pub(crate) disks: Vec<Option<Box<Disk>>>,
    /// Disks that are attached (with their slot) or about to be (without).
    pub(crate) slots: Map<DiskId, Option<DiskSlot>>,
    pub(crate) draining: Vec<DiskSlot>,
    pub(crate) deadlines: Deadlines,
    pub(crate) clients: Slab<Client>,
    pub(crate) jobs: Jobs,
    pub(crate) now: Instant,
    pub(crate) standstill: Standstill,
    pub(crate) told: Told,
    pub(crate) turns: u64,
    pub(crate) recording: Option<Recording>,
    pub(crate) owning: Owning,
    pub(crate) repeats: Repeats,
    pub(crate) progress: Progress,
    owners: Vec<Owner>,
    pub(crate) touched: Vec<usize>,
    pub(crate) watched: Vec<Watched>,
    pub(crate) arrived: Arrived,
    pub(crate) scratch: Scratch,
}

/// Whose a source on the ring is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    Nobody,
    Mailbox,
    Flash,
    Origin(DiskSlot),
    Client(usize),
}

/// Vectors that are filled and emptied every turn.
#[derive(Default)]
pub(crate) struct Scratch {
    ready: Vec<SourceId>,
    effects: Vec<Effect>,
    origin_done: Vec<OriginDone>,
    incoming: Vec<Incoming>,
    messages: Vec<Message>,
    pub(crate) granted: Vec<usize>,
}

impl Shard {
    /// Starts a shard on a thread of its own. Returns when its flash was looked at; commands
    /// are answered once it has been opened, which may take seconds.
    ///
    /// # Errors
    /// [`SpawnError`]. Flash that cannot be used is none: the shard serves without it, and
    /// says so in its status.
    pub fn spawn(config: ShardConfig) -> Result<ShardHandle, SpawnError> {
        if !config.has_file_name() {
            return Err(SpawnError::Name(config.name));
        }
        let (tell, told) = mpsc::channel();
        std::thread::Builder::new()
            .name(format!("shard-{}", config.name))
            .spawn(move || run(config, &tell))?;
        told.recv().unwrap_or_else(|_| {
            Err(SpawnError::System(io::Error::other(
                "the shard's thread ended while it started",
            )))
        })
    }

    fn serve(mut self) {
        let _tripwire = Tripwire;
        if let Some(flash) = &self.flash {
            let source = flash.source();
            self.own(source, Owner::Flash);
        }
        self.own(Some(self.mailbox.id()), Owner::Mailbox);
        // Messages may have come while the flash was being opened.
        self.read_mailbox();
        loop {
            self.settle();
            self.note_progress();
            if self.jobs.stopped {
                self.store_last_progress();
                // Everything is let go first, so that who hears of it can start anew at once.
                let jobs = std::mem::take(&mut self.jobs);
                drop(self);
                return jobs.say_stopped();
            }
            let wait = self.time_to_wait();
            self.standstill.waits(self.now, wait);
            let mut rings = Rings::new(&mut self.clients, &mut self.watched);
            if let Err(error) = self.ring.wait_watching(wait, &mut rings) {
                tracing::error!(cache = self.config.name, %error, "the ring failed: the shard ends");
                return;
            }
            self.now = self.ring.now();
            self.turns += 1;
            if let Err(error) = self.discount_standstill() {
                tracing::error!(cache = self.config.name, %error, "the ring failed: the shard ends");
                return;
            }
            self.hear();
            self.look_at_rings();
        }
    }

    /// Takes in what the ring has, and what is due.
    fn hear(&mut self) {
        let mut ready = std::mem::take(&mut self.scratch.ready);
        self.ring.take_ready(&mut ready);
        for id in ready.drain(..) {
            match self.owners.get(id.index()).copied() {
                None | Some(Owner::Nobody) => {}
                Some(Owner::Mailbox) => self.read_mailbox(),
                Some(Owner::Flash) => self.poll_flash(),
                Some(Owner::Origin(slot)) => self.poll_origin(slot),
                Some(Owner::Client(client)) => self.touch(client),
            }
        }
        self.scratch.ready = ready;
        self.poll_what_is_due();
        // Before the tick, which judges what has not come.
        self.tell_of_flash();
        self.do_what_is_due();
    }

    fn is_due(&self, deadline: Option<Instant>) -> bool {
        deadline.is_some_and(|deadline| deadline <= self.now)
    }

    /// Polls the flash and the origins that asked for it.
    fn poll_what_is_due(&mut self) {
        if self.is_due(self.flash.as_ref().and_then(Flash::next_deadline)) {
            self.poll_flash();
        }
        // Taken out first: one that is still overdue after its poll must not be polled for ever.
        let mut late = Vec::new();
        while let Some(slot) = self.deadlines.due(self.now) {
            self.deadlines.clear(slot);
            late.push(slot);
        }
        for slot in late {
            self.poll_origin(slot);
        }
    }

    fn do_what_is_due(&mut self) {
        if self.is_due(self.cache.next_deadline()) {
            self.cache.tick(self.now);
        }
        self.tell_of_slow_flash();
        self.watch_record();
        self.watch_owning();
        self.watch_memory();
        self.tell_of_repeats();
    }

    fn time_to_wait(&self) -> Option<Duration> {
        if !self.arrived.is_empty() {
            return Some(Duration::ZERO);
        }
        let flash = self.flash.as_ref().and_then(Flash::next_deadline);
        let origins = self.deadlines.first().into_iter();
        let farewells = self.next_farewell();
        let recording = self.recording.as_ref().map(Recording::deadline);
        let owning = self.owning.next_deadline();
        let first = origins
            .chain(flash)
            .chain(self.cache.next_deadline())
            .chain(farewells)
            .chain(recording)
            .chain(owning)
            .chain(self.next_memory_look())
            .chain(self.repeats.next_deadline())
            .chain(self.progress_due())
            .min()?;
        Some(first - self.now)
    }

    pub(crate) fn own(&mut self, source: Option<SourceId>, owner: Owner) {
        let Some(source) = source else { return };
        if source.index() >= self.owners.len() {
            self.owners.resize(source.index() + 1, Owner::Nobody);
        }
        self.owners[source.index()] = owner;
    }

    fn read_mailbox(&mut self) {
        let mut messages = std::mem::take(&mut self.scratch.messages);
        self.mailbox.drain(&mut messages);
        for message in messages.drain(..) {
            self.obey(message);
        }
        self.scratch.messages = messages;
    }

    pub(crate) fn poll_origin(&mut self, slot: DiskSlot) {
        let Some(disk) = &mut self.disks[slot.index()] else {
            return;
        };
        disk.origin.poll(self.now, &mut self.scratch.origin_done);
        self.deadlines.set(slot, disk.origin.next_deadline());
        self.repeats.origin_polled(slot, disk, self.now);
        for done in self.scratch.origin_done.drain(..) {
            self.cache.origin_done(done, self.now);
        }
        let sources = disk.origin.sources();
        for source in sources {
            self.own(Some(source), Owner::Origin(slot));
        }
    }

    /// Carries out everything that the cache asks, and everything that follows from it.
    fn settle(&mut self) {
        let mut effects = std::mem::take(&mut self.scratch.effects);
        loop {
            self.cache.take_effects(&mut effects);
            self.touch_granted();
            if effects.is_empty() && self.touched.is_empty() && !self.watch_draining() {
                break;
            }
            for effect in effects.drain(..) {
                self.carry_out(effect);
            }
            // Clients last: what they send goes out together, and the answers to what they
            // ask now may be there already.
            let mut touched = std::mem::take(&mut self.touched);
            for client in touched.drain(..) {
                self.poll_client(client);
            }
            if self.touched.is_empty() {
                self.touched = touched;
            }
        }
        self.scratch.effects = effects;
    }

    fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Flash(op) => self.pass_to_flash(op),
            Effect::Origin(op) => self.pass_to_origin(op),
            Effect::Reply { request, result } => self.reply(request, result),
            Effect::Landed { request, rest } => self.landed(request, &rest),
            Effect::Retire { token, incarnation } => self.retire(token, incarnation),
            Effect::Reinstate { token, incarnation } => self.reinstate(token, incarnation),
            Effect::Own {
                token, id, record, ..
            } => self.record_owner(token, id, record),
            Effect::Lasting(what) => self.lasting.carry_out(&what),
            Effect::Damaged { disk, block, at } => self.tell_of_damage(disk, block, at),
            Effect::ControlDone { id, result } => self.control_done(id, result),
        }
    }

    fn pass_to_flash(&mut self, op: FlashOp) {
        let flash = self.flash.as_mut();
        flash
            .expect("a cache without flash asks nothing of it")
            .submit(op, self.now);
    }

    fn pass_to_origin(&mut self, op: OriginOp) {
        let Some(disk) = &mut self.disks[op.disk.index()] else {
            // A disk leaves only when nothing of it is in flight, so nobody waits for this.
            let done = OriginDone {
                token: op.token,
                buf: op.verb.into_buf(),
                result: Err(IoError::ShuttingDown),
            };
            return self.cache.origin_done(done, self.now);
        };
        let slot = op.disk;
        disk.origin.submit(op, self.now);
        self.deadlines.set(slot, disk.origin.next_deadline());
    }

    fn reply(&mut self, request: RequestId, result: Result<Payload, IoError>) {
        match Asker::of(request) {
            Asker::Command(command) => self.jobs.flushed(command, result.map(drop)),
            Asker::Client { client, key } => {
                self.count_answer(client, key, result.is_err());
                let asker = &mut self.clients[client];
                let more = asker.connection.reply(key, result);
                self.touch(client);
                if let Some(incoming) = more {
                    self.request(client, incoming);
                }
            }
        }
    }

    /// A read's bytes are where its client wants them, all but `rest`.
    fn landed(&mut self, request: RequestId, rest: &[(usize, Slice)]) {
        let Asker::Client { client, key } = Asker::of(request) else {
            panic!("commands read nothing");
        };
        self.count_answer(client, key, false);
        self.clients[client].connection.reply_in_place(key, rest);
        self.touch(client);
    }

    fn count_answer(&mut self, client: usize, key: RequestKey, failed: bool) {
        let asker = &self.clients[client];
        let (start, kind) = asker.start_of(key);
        if let Some(disk) = &mut self.disks[asker.disk.index()] {
            disk.answered(kind, self.now - start, failed);
        }
    }

    /// Lists a client to be polled when the cache has settled.
    pub(crate) fn touch(&mut self, client: usize) {
        let Some(known) = self.clients.get_mut(client) else {
            return;
        };
        if !known.touched {
            known.touched = true;
            self.touched.push(client);
        }
    }

    fn poll_client(&mut self, client: usize) {
        let Some(known) = self.clients.get_mut(client) else {
            return;
        };
        let mut incoming = std::mem::take(&mut self.scratch.incoming);
        known.touched = false;
        let state = known.connection.poll(&mut incoming);
        let released = known.reservation().take_released();
        let slot = known.disk;
        for one in incoming.drain(..) {
            self.request(client, one);
        }
        self.scratch.incoming = incoming;
        match state {
            State::Open => {}
            State::Quiet => self.watch_client(client),
            State::Finished => self.forget_client(client),
        }
        if released {
            self.touch_clients_of(slot);
        }
    }

    fn request(&mut self, client: usize, incoming: Incoming) {
        let asker = &mut self.clients[client];
        if let Some(disk) = self.disks[asker.disk.index()].as_deref_mut()
            && let Some(tap) = &disk.tap
            && !tap.tell(&incoming.verb, asker.vm, self.now)
        {
            disk.tap = None;
        }
        asker.begin(incoming.key, RequestKind::of(&incoming.verb), self.now);
        let id = Asker::Client {
            client,
            key: incoming.key,
        };
        let request = Request {
            id: id.id(),
            disk: asker.disk,
            vm: asker.vm,
            verb: incoming.verb,
        };
        let into = match request.verb {
            Verb::Read { length, .. } if length >= LANDING_BYTES_MIN && self.flash.is_some() => {
                asker.connection.read_buffer(incoming.key)
            }
            _ => None,
        };
        match into {
            Some(into) => self.cache.request_into(request, into, self.now),
            None => self.cache.request(request, self.now),
        }
    }
}

/// The life of a shard's thread.
fn run(config: ShardConfig, tell: &mpsc::Sender<Result<ShardHandle, SpawnError>>) {
    match start(config, tell) {
        Ok(shard) => shard.serve(),
        // The caller waits for this until the handle was sent; afterwards it can only be logged.
        Err(error) => {
            if let Err(mpsc::SendError(Err(error))) = tell.send(Err(error)) {
                tracing::error!(%error, "a shard could not be started");
            }
        }
    }
}

fn start(
    config: ShardConfig,
    tell: &mpsc::Sender<Result<ShardHandle, SpawnError>>,
) -> Result<Shard, SpawnError> {
    let (ring, pool) = (Ring::new(RING_ENTRIES)?, BufPool::new());
    let (sender, mailbox) = ring::mailbox(&ring)?;
    let record_file = RecordFile::new(&config.state_dir, &config.name);
    let found = open::look(&config, &record_file)?;
    let handle = ShardHandle::new(sender.clone());
    if tell.send(Ok(handle)).is_err() {
        return Err(io::Error::other("nobody waits for the shard").into());
    }
    let ready = open::open(found, &config, &record_file, &ring, &pool)?;
    Ok(Shard {
        memory: MemoryBudget::new(config.request_memory),
        memory_watch: MemoryWatch::default(),
        now: ring.now(),
        standstill: Standstill::new(),
        told: Told::at_start(&ready.cache),
        turns: 0,
        cache: ready.cache,
        flash: ready.flash,
        opening: ready.opening,
        record: ready.record,
        lasting: ready.lasting,
        record_file,
        config,
        ring,
        pool,
        mailbox,
        sender,
        disks: std::iter::repeat_with(|| None)
            .take(DiskSlot::COUNT)
            .collect(),
        slots: Map::default(),
        draining: Vec::new(),
        deadlines: Deadlines::default(),
        clients: Slab::new(),
        jobs: Jobs::default(),
        recording: None,
        owning: Owning::default(),
        repeats: Repeats::default(),
        progress: Progress::default(),
        owners: Vec::new(),
        touched: Vec::new(),
        watched: Vec::new(),
        arrived: Arrived::default(),
        scratch: Scratch::default(),
    })
}
