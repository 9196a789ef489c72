//! The turn of a shard's loop.
//!
//! ```text
//!   wait ─► who is ready, whose time has come ─► completions, requests, messages to the cache
//!    ▲                                                            │
//!    │          ┌──────── requests ◄── poll touched clients ◄──┐  ▼
//!    └── done ──┴► effects: flash, origin, replies ────────────┴─ settle until nothing is left
//! ```
//!
//! [`Shard`] routes between the cache and the parts, each of which has its own state; the files below
//! this one have the routes of commands, clients and records.
//!
//! Invariants:
//! - Nothing is left to do when the loop waits: every effect was carried out, every touched
//!   client was polled, so all replies of a turn leave in one send a client. Only what came from
//!   flash may be more than a turn takes on ([`FlashSide`]): then the loop looks, and does not wait.
//! - The wait ends at the earliest deadline of the cache and of every part.

mod connecting;
mod detaching;
mod messages;
mod serving;
mod standing_by;
mod start;
mod status;

use crate::asker::Asker;
use crate::cache_record::Word;
use crate::clients::Clients;
use crate::control::{Message, ShardHandle};
use crate::disks::Disks;
use crate::error::SpawnError;
use crate::failures::{FlashName, Repeats};
use crate::flash::FlashSide;
use crate::jobs::{Jobs, WantsDurable};
use crate::limits::STANDSTILL_TOLD;
use crate::lost_blocks::LostBlocks;
use crate::memory::ClientMemory;
use crate::records::Records;
use crate::requests::Requests;
use crate::slow_flash::Told;
use crate::sources::{Handler, Sources};
use crate::spec::ShardConfig;
use crate::standbys::{Answered, Standbys};
use crate::standstill::Standstill;
use crate::status::{Opening, RequestTimes};
use crate::throttles::Throttles;
use crate::tripwire::Tripwire;
use block_io::{BufPool, IoError, OriginDone, Payload, Slice};
use cache::{Cache, Effect, RequestId};
use events::EventKind;
use frontend::{Incoming, RequestKey, State};
use origin::Origin as _;
use ring::{Mailbox, Ring, SourceId};
use std::io;
use std::sync::mpsc;
use units::{Bytes, DiskSlot, Duration, Instant};

/// A shard: one cache, its disks, their clients, on a thread of its own.
pub struct Shard {
    config: ShardConfig,
    ring: Ring,
    pool: BufPool,
    mailbox: Mailbox<Message>,
    sources: Sources,
    now: Instant,
    turns: u64,
    cache: Cache,
    flash: FlashSide,
    disks: Disks,
    standbys: Standbys,
    clients: Clients,
    throttles: Throttles,
    memory: ClientMemory,
    jobs: Jobs,
    records: Records,
    standstill: Standstill,
    repeats: Repeats,
    lost_blocks: LostBlocks,
    told: Told,
    opening: Opening,
    /// How long the requests of disks that have been detached had taken.
    detached_times: RequestTimes,
    scratch: Scratch,
}

/// Vectors that are filled and emptied every turn.
#[derive(Default)]
struct Scratch {
    ready: Vec<SourceId>,
    effects: Vec<Effect>,
    origin_done: Vec<OriginDone>,
    incoming: Vec<Incoming>,
    messages: Vec<Message>,
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
            .spawn(move || start::run(config, &tell))?;
        told.recv().unwrap_or_else(|_| {
            Err(SpawnError::System(io::Error::other(
                "the shard's thread ended while it started",
            )))
        })
    }

    fn serve(mut self) {
        let _tripwire = Tripwire;
        if let Some(source) = self.flash.source() {
            self.sources.set(source, Handler::Flash);
        }
        self.sources.set(self.mailbox.id(), Handler::Mailbox);
        // Messages may have come while the flash was being opened.
        self.read_mailbox();
        loop {
            self.settle();
            self.records.note_progress(&self.cache, self.now);
            if self.jobs.has_stopped() {
                self.records
                    .store_last_progress(&self.cache, &self.config.name);
                // Everything is let go first, so that who is told of it can start anew at once.
                let jobs = std::mem::take(&mut self.jobs);
                drop(self);
                return jobs.say_stopped();
            }
            let wait = self.time_to_wait();
            self.standstill.waits(self.now, wait);
            if let Err(error) = self.wait(wait) {
                tracing::error!(cache = self.config.name, %error, "the ring failed: the shard ends");
                return;
            }
            self.take_in();
            self.clients.look_at_queues();
        }
    }

    /// Waits, and does not let the time that the loop itself stood still count against anybody.
    fn wait(&mut self, wait: Option<Duration>) -> io::Result<()> {
        self.ring.wait_watching(wait, &mut self.clients)?;
        self.now = self.ring.now();
        self.turns += 1;
        let Some(time) = self.standstill.ended(self.now) else {
            return Ok(());
        };
        // What has completed meanwhile is taken in, all of it.
        self.ring.submit_and_wait(Some(Duration::ZERO))?;
        self.now = self.ring.now();
        self.cache.stood_still(time, self.now);
        for disk in self.disks.all_mut() {
            disk.origin_mut().stood_still(time);
        }
        if time >= STANDSTILL_TOLD {
            tracing::warn!(event = EventKind::CacheStalled.word(), cache = self.config.name, %time,
                "the cache's thread stood still: the process was stopped, its host suspended or overloaded");
        }
        Ok(())
    }

    /// Takes in what the ring has, and what is due.
    fn take_in(&mut self) {
        let mut ready = std::mem::take(&mut self.scratch.ready);
        self.ring.take_ready(&mut ready);
        for source in ready.drain(..) {
            match self.sources.handler(source) {
                Handler::Nobody => {}
                Handler::Mailbox => self.read_mailbox(),
                Handler::Flash => self.poll_flash(),
                Handler::Origin(slot) => self.poll_origin(slot),
                Handler::Client(client) => self.clients.touch(client),
            }
        }
        self.scratch.ready = ready;
        self.poll_what_is_due();
        self.requests().pass_due();
        // Before the tick, which judges what has not come.
        let mut taken = Bytes::ZERO;
        while let Some(done) = self.flash.next(&mut taken) {
            self.cache.flash_done(done, self.now);
        }
        self.do_what_is_due();
    }

    fn is_due(&self, deadline: Option<Instant>) -> bool {
        deadline.is_some_and(|deadline| deadline <= self.now)
    }

    /// Polls the flash and the origins that asked for it.
    fn poll_what_is_due(&mut self) {
        if self.is_due(self.flash.next_deadline()) {
            self.poll_flash();
        }
        for slot in self.disks.take_due(self.now) {
            self.poll_origin(slot);
        }
    }

    fn do_what_is_due(&mut self) {
        if self.is_due(self.cache.next_deadline()) {
            self.cache.tick(self.now);
        }
        let at = FlashName {
            cache: &self.config.name,
            flash: &self.config.flash,
        };
        self.told.tell(&self.cache, at);
        self.records.give_up_late(&mut self.cache, self.now);
        let names = |slot| self.disks.name_of(slot);
        self.clients
            .cut_off_stalled(&mut self.memory, names, self.now);
        self.repeats.tell_due(&self.config.name, names, self.now);
    }

    fn time_to_wait(&self) -> Option<Duration> {
        if self.flash.has_arrived() {
            return Some(Duration::ZERO);
        }
        let first = [
            self.disks.first_deadline(),
            self.flash.next_deadline(),
            self.cache.next_deadline(),
            self.disks.next_end_of_draining(&self.clients, self.now),
            self.records.next_deadline(),
            self.memory.next_deadline(),
            self.repeats.next_deadline(),
            self.throttles.next_deadline(),
        ];
        let first = first.into_iter().flatten().min()?;
        Some(first - self.now)
    }

    fn read_mailbox(&mut self) {
        let mut messages = std::mem::take(&mut self.scratch.messages);
        self.mailbox.drain(&mut messages);
        for message in messages.drain(..) {
            self.handle(message);
        }
        self.scratch.messages = messages;
    }

    fn poll_flash(&mut self) {
        let at = FlashName {
            cache: &self.config.name,
            flash: &self.config.flash,
        };
        let (repeats, now) = (&mut self.repeats, self.now);
        self.flash.poll(&self.ring, now, |failure| {
            repeats.flash_failed(at, failure, now);
        });
    }

    fn poll_origin(&mut self, slot: DiskSlot) {
        let done = &mut self.scratch.origin_done;
        let Some(disk) = self.disks.poll(slot, self.now, done) else {
            return;
        };
        let (repeats, now) = (&mut self.repeats, self.now);
        disk.take_failures(|disk, failure| repeats.origin_failed(slot, disk, failure, now));
        for done in self.scratch.origin_done.drain(..) {
            self.cache.origin_done(done, self.now);
        }
        for source in disk.origin().sources() {
            self.sources.set(source, Handler::Origin(slot));
        }
    }

    /// Carries out everything that the cache asks, and everything that follows from it.
    fn settle(&mut self) {
        let mut effects = std::mem::take(&mut self.scratch.effects);
        loop {
            self.cache.take_effects(&mut effects);
            let clients = &mut self.clients;
            self.memory
                .take_granted(self.now, |account| clients.touch_account(account));
            if effects.is_empty() && !self.clients.has_touched() && !self.go_on_draining() {
                break;
            }
            for effect in effects.drain(..) {
                self.carry_out(effect);
            }
            // Clients last: what they send goes out together, and the answers to what they
            // ask now may be there already.
            let mut touched = self.clients.take_touched();
            for client in touched.drain(..) {
                self.poll_client(client);
            }
            self.clients.give_back(touched);
        }
        self.scratch.effects = effects;
    }

    fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Flash(op) => self.flash.submit(op, self.now),
            Effect::Origin(op) => {
                if let Err(done) = self.disks.submit(op, self.now) {
                    self.cache.origin_done(done, self.now);
                }
            }
            Effect::Reply { request, result } => self.reply(request, result),
            Effect::ReplyInPlace { request, rest } => self.reply_in_place(request, &rest),
            Effect::Retire { token, incarnation } => {
                let cache = &mut self.cache;
                self.records
                    .record_cache(token, Word::Retired, incarnation, cache, self.now);
            }
            Effect::Reinstate { token, incarnation } => {
                let cache = &mut self.cache;
                self.records
                    .record_cache(token, Word::Reinstated, incarnation, cache, self.now);
            }
            Effect::Own {
                token, id, record, ..
            } => {
                let cache = &mut self.cache;
                self.records
                    .record_owner(token, id, record, cache, self.now);
            }
            Effect::Retain(what) => self.records.retain(&what),
            Effect::Damaged(damage) => {
                let flash = FlashName {
                    cache: &self.config.name,
                    flash: &self.config.flash,
                };
                let disk = self.disks.name_of(damage.disk);
                if damage.is_dirty {
                    self.lost_blocks.told(flash, disk, damage);
                } else {
                    self.repeats.flash_damaged(flash, disk, damage, self.now);
                }
            }
            Effect::Expected { disk, first, count } => {
                if let Some(disk) = self.disks.get(disk) {
                    disk.tell_guest(first, count);
                }
            }
            Effect::Lent { loan, result } => self.jobs.lent(loan, result),
            Effect::ControlDone { id, result } => self.control_done(id, result),
        }
    }

    fn reply(&mut self, request: RequestId, result: Result<Payload, IoError>) {
        match Asker::of(request) {
            Asker::Command(command) => {
                if let Some(WantsDurable { request, disk, vm }) =
                    self.jobs.answered(command, result)
                {
                    let id = Asker::Command(request).id();
                    self.cache.when_durable(id, disk, vm, self.now);
                }
            }
            Asker::Client { client, key } => {
                self.count_answer(client, key, result.is_err());
                if let Some(incoming) = self.clients.answer(client, key, result) {
                    self.requests().request(client, incoming);
                }
            }
        }
    }

    /// A read's bytes are where its client wants them, all but `rest`.
    fn reply_in_place(&mut self, request: RequestId, rest: &[(usize, Slice)]) {
        let Asker::Client { client, key } = Asker::of(request) else {
            panic!("commands read nothing");
        };
        self.count_answer(client, key, false);
        let asker = self.clients.get_mut(client);
        asker.connection_mut().reply_in_place(key, rest);
        self.clients.touch(client);
    }

    fn count_answer(&mut self, client: usize, key: RequestKey, failed: bool) {
        let asker = self.clients.get(client);
        let (start, kind) = asker.start_of(key);
        let place = asker.place();
        let slot = asker.disk();
        if let Some(disk) = slot.and_then(|slot| self.disks.get_mut(slot)) {
            disk.answered(kind, self.now - start, failed);
        }
        if let Some(disk) = self.disks.roaming_at(place) {
            let answered = Answered {
                request: (client, key),
                failed,
            };
            self.standbys.answered(disk, &answered, self.now);
        }
    }

    fn poll_client(&mut self, client: usize) {
        let Some(known) = self.clients.begin_poll(client) else {
            return;
        };
        let mut incoming = std::mem::take(&mut self.scratch.incoming);
        let (state, has_released) = known.poll(&mut incoming);
        let place = known.place();
        for one in incoming.drain(..) {
            self.requests().request(client, one);
        }
        self.scratch.incoming = incoming;
        if let Some(disk) = self.disks.roaming_at(place) {
            self.standbys.look_at_rings(disk, client, &mut self.clients);
        }
        self.requests().pass_if_stopping(client);
        match state {
            State::Open => {}
            State::Quiet => self.clients.watch(client),
            State::HungUp => {
                self.requests().fail_waiting(client);
                if let Some(disk) = self.disks.roaming_at(place) {
                    let clients = &mut self.clients;
                    let again = self.standbys.client_hung_up(disk, client, clients);
                    self.request_again(again);
                }
            }
            State::Finished => self.forget_client(client),
        }
        if has_released {
            self.clients.touch_all_of(place);
        }
    }

    fn requests(&mut self) -> Requests<'_> {
        Requests::of(
            (&mut self.cache, self.flash.is_there()),
            &mut self.clients,
            &mut self.disks,
            &mut self.standbys,
            &mut self.throttles,
            self.now,
        )
    }
}
