//! One VM's device, on a shard's thread and ring.
//!
//! The shard's loop drives it as it drives an NBD client:
//!
//! ```text
//!  source ready ─► poll(&mut incoming) ─► requests to the disk
//!  disk answers ─► reply(key, result)  ┐ any number, then
//!                  poll(&mut incoming) ◄ once: all answers of the turn are published together
//!  is_finished() ─► drop it
//! ```
//!
//! ```text
//!  Open ── close() ──────────────────────────► Draining ── all answered ──► Finished
//!    └──── socket closed, failed, nonsense,  ► Broken ──── all answered ──► Finished
//!          memory lost
//! ```
//!
//! Invariants:
//! - Every [`Incoming`] is answered by exactly one [`Connection::reply`] or
//!   [`Connection::reply_in_place`], also when its VM has gone; only then is the connection finished.
//! - A broken connection writes nothing more into the guest's memory: QEMU may have handed the rings
//!   to another. What the kernel was asked to read there before is waited for.
//! - A reply that QEMU waits for while a queue drains is sent when the queue's last interrupt was
//!   delivered; no message is read meanwhile.
//! - At a limit nothing is taken from the rings: the guest's requests wait in its own memory.

use crate::bell;
use crate::device::{Device, Disk, bits};
use crate::guard;
use crate::intake::length_of;
use crate::obey::Wait;
use crate::quota::{MappingLimits, Quota};
use crate::slots::{self, Slot, Slots};
use crate::socket::{Message, Socket};
use crate::tokens::Task;
use block_io::{BufPool, IoError, Landing as _, Payload, Slice};
use frontend::budget::Account;
use frontend::limits::ConnectionLimits;
use frontend::{Counters, Incoming, RequestKey, Reservation, Reserving, Verb};
use ring::{Completion, Foreign, Op, Ring, Source, SourceId};
use std::fmt;
use std::os::fd::OwnedFd;
use units::Bytes;
use vhost_protocol::Header;
use vhost_protocol::blk::Status;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Open,
    /// Nothing more is taken; answers still go out.
    Draining,
    /// Nothing goes in or out; requests at the disk are waited for.
    Broken,
}

/// A VM's device. See the module's text for how it is driven.
pub struct Connection {
    pub(crate) source: Source,
    pub(crate) socket: Socket,
    pub(crate) name: String,
    pub(crate) device: Device,
    pub(crate) pool: BufPool,
    pub(crate) limits: ConnectionLimits,
    pub(crate) slots: Slots,
    /// A one for eventfds.
    pub(crate) one: Slice,
    /// Queues with answers that were not published, a bit each.
    pub(crate) to_publish: u64,
    /// The queue that is looked at first.
    pub(crate) first_queue: usize,
    pub(crate) counters: Counters,
    pub(crate) phase: Phase,
    /// The socket may have something.
    pub(crate) is_readable: bool,
    is_listening: bool,
    pub(crate) held: Option<(Header, Wait)>,
    pub(crate) reserving: Reserving,
    /// Whoever drives it looks at its rings while awake.
    pub(crate) is_watched: bool,
    /// A message that waits for the reservation of the disk.
    pub(crate) parked: Option<Message>,
    pub(crate) account: Account,
    /// A request that waits for room in the memory budget: its queue and head.
    pub(crate) waiting: Option<(usize, u16)>,
    /// [`guard::losses`] when it was last looked at.
    losses: u64,
}

impl Connection {
    /// Takes over a VM's socket. Call [`Connection::poll`] next.
    ///
    /// It has a reservation of its own; give connections to one disk the same with
    /// [`Connection::reserving`].
    ///
    /// # Panics
    /// If the disk's sector is not 512 or 4096, or its size no multiple of that.
    pub fn new(
        socket: OwnedFd,
        disk: &Disk,
        ring: &Ring,
        pool: &BufPool,
        limits: ConnectionLimits,
    ) -> Self {
        Self {
            source: ring.source(),
            socket: Socket::new(socket),
            name: disk.name.clone(),
            device: Device::new(disk),
            pool: pool.clone(),
            limits,
            slots: Slots::default(),
            one: bell::one(pool),
            to_publish: 0,
            first_queue: 0,
            counters: Counters::default(),
            phase: Phase::Open,
            is_readable: true,
            is_listening: false,
            held: None,
            reserving: Reserving::default(),
            is_watched: false,
            parked: None,
            account: Account::default(),
            waiting: None,
            losses: guard::losses(),
        }
    }

    /// The same, sharing a reservation with other connections to the disk. The first message that
    /// starts a queue takes it, or waits for it; no message is read meanwhile. It is released when
    /// every queue was stopped, or the connection is dropped.
    #[must_use]
    pub fn reserving(mut self, reservation: Reservation) -> Self {
        self.reserving = Reserving::new(reservation);
        self
    }

    /// The same, mapping of its guest's memory no more than this.
    #[must_use]
    pub fn mapping_within(mut self, limits: &MappingLimits) -> Self {
        self.device.quota = Quota::new(limits.clone());
        self
    }

    /// The same, for who calls [`Connection::has_work`] while awake and [`Connection::rest`] before
    /// sleeping: meanwhile the guest is not asked to kick.
    #[must_use]
    pub fn watched(mut self) -> Self {
        self.is_watched = true;
        self
    }

    /// Whether the guest has put something into a ring of which it tells nobody. Never of a
    /// connection that is not [watched](Connection::watched).
    pub fn has_work(&self) -> bool {
        self.phase == Phase::Open
            && bits(self.device.quiet, 0).any(|queue| self.device.vrings[queue].has_work())
    }

    /// Whether a ring is to be looked at: [`Connection::rest`] has found something.
    pub fn is_pending(&self) -> bool {
        self.device.pending != 0
    }

    /// Whether there are rings of which the guest tells nobody.
    pub fn is_quiet(&self) -> bool {
        self.device.quiet != 0
    }

    /// Looks at the rings of which the guest tells nobody.
    fn look_at_quiet(&mut self) {
        for queue in bits(self.device.quiet, 0) {
            if self.device.vrings[queue].has_work() {
                self.device.look_at(queue);
            }
        }
    }

    /// Asks the guest to kick from now on. True: something has come already, and
    /// [`Connection::poll`] is to be called. It does not touch the ring.
    pub fn rest(&mut self) -> bool {
        let mut found = false;
        for queue in bits(std::mem::take(&mut self.device.quiet), 0) {
            let vring = &mut self.device.vrings[queue];
            // What is wrong with a ring is found out, and said, when it is looked at.
            if vring.is_served() && !matches!(vring.listen(), Ok(false)) {
                self.device.look_at(queue);
                found = true;
            }
        }
        found && self.phase == Phase::Open
    }

    /// Whether its VM waits for another connection's queues to stop. Poll it when they have.
    pub fn waits_for_reservation(&self) -> bool {
        self.parked.is_some()
    }

    /// Queues that run.
    pub fn queues(&self) -> usize {
        self.device
            .vrings
            .iter()
            .filter(|vring| vring.is_running())
            .count()
    }

    /// The source to watch on the ring.
    pub fn id(&self) -> SourceId {
        self.source.id()
    }

    /// What the disk is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Requests at the disk.
    pub fn in_flight(&self) -> usize {
        self.slots.len()
    }

    /// What was counted so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Handles what the ring has for this connection, appends new requests to `incoming`, and
    /// publishes the answers put in since the last call. Call it when the source is ready and,
    /// once a turn, after replying.
    pub fn poll(&mut self, incoming: &mut Vec<Incoming>) {
        while let Some(completion) = self.source.pop() {
            self.completed(&completion);
        }
        self.look_at_memory();
        if self.phase == Phase::Open {
            self.hear();
        }
        if self.phase == Phase::Open {
            self.announce();
            self.look_at_quiet();
        }
        self.take_waiting(incoming);
        if self.phase == Phase::Open {
            self.take_requests(incoming);
        }
        if self.phase != Phase::Broken {
            self.look_at_memory();
        }
        if self.phase != Phase::Broken {
            self.publish();
            self.settle();
        }
        if self.phase == Phase::Open {
            self.listen();
        }
        for token in self.device.to_cancel.drain(..) {
            self.source.cancel(token);
        }
        self.account.settle(self.slots.budget());
    }

    /// Answers a request; a read with exactly its bytes, anything else with no bytes. The guest
    /// sees it after the next [`Connection::poll`]. What comes back, if anything, is one more step
    /// of the same request, to be treated like any other [`Incoming`].
    ///
    /// # Panics
    /// If the request was answered before, or a read gets more or fewer bytes than it asked for.
    #[must_use = "a durable discard goes on with a flush"]
    pub fn reply(&mut self, key: RequestKey, result: Result<Payload, IoError>) -> Option<Incoming> {
        let slot = self.slots.get_mut(key);
        if slot.answer == slots::Answer::WordAfterFlush && result.is_ok() {
            slot.answer = slots::Answer::Word;
            let verb = Verb::Flush;
            return Some(Incoming { key, verb });
        }
        let slot = self.slots.remove(key);
        if let Ok(data) = &result {
            let bytes: usize = data.iter().map(|slice| slice.len()).sum();
            assert!(
                bytes as u64 == length_of(&slot.data).get(),
                "a read gets what it asked for"
            );
        }
        if self.phase == Phase::Broken {
            return None;
        }
        let result = result.and_then(|data| {
            let copied = slot.memory.scatter(&slot.data, &data);
            copied.map_err(|_| IoError::Invalid)
        });
        self.answer(&slot, result);
        None
    }

    /// Where a read's data goes, for a disk that can put it there itself; `None` if the request is
    /// no read, or its memory lies in more pieces than one operation takes.
    ///
    /// # Panics
    /// If there is no such request in flight.
    pub fn buffers(&self, key: RequestKey) -> Option<Foreign> {
        let slot = self.slots.get(key).expect("a request in flight");
        if slot.answer != slots::Answer::Data {
            return None;
        }
        slot.memory.foreign(&slot.data)
    }

    /// Puts part of a read's data in, `at` bytes behind the beginning, unless the connection is
    /// broken.
    ///
    /// # Panics
    /// If there is no such request in flight, or it asked for fewer bytes.
    pub fn put(&mut self, key: RequestKey, at: usize, bytes: &[u8]) {
        if self.phase != Phase::Broken {
            let into = self.buffers(key).expect("a read with memory for its data");
            into.store(at, bytes);
        }
    }

    /// Answers a read whose data was put into [`Connection::buffers`].
    ///
    /// # Panics
    /// If the request was answered before, or is no read.
    pub fn reply_in_place(&mut self, key: RequestKey, result: Result<(), IoError>) {
        let slot = self.slots.remove(key);
        assert!(
            slot.answer == slots::Answer::Data,
            "only reads are filled in place"
        );
        if self.phase != Phase::Broken {
            self.answer(&slot, result);
        }
    }

    /// Takes no more requests. Those taken are still answered; then the connection is finished.
    pub fn close(&mut self) {
        if self.phase == Phase::Open {
            self.phase = Phase::Draining;
        }
    }

    /// True once nothing more will come of it: drop it then, which closes the socket.
    pub fn is_finished(&self) -> bool {
        let answered = self.slots.len() == 0;
        match self.phase {
            Phase::Open => false,
            Phase::Draining => answered && self.to_publish == 0 && self.device.is_idle(),
            Phase::Broken => answered,
        }
    }

    /// The disk has another size now. The guest is told if QEMU listens.
    ///
    /// # Panics
    /// If the size is no multiple of the disk's sector.
    pub fn resize(&mut self, size: Bytes) {
        let sector = u64::from(self.device.config.terms.sector);
        assert!(size.is_multiple_of(sector), "a disk has whole sectors");
        self.device.config.resize(size);
        self.tell_of_size();
    }

    fn answer(&mut self, slot: &Slot, result: Result<(), IoError>) {
        let (status, written) = match result {
            Ok(()) => (Status::Ok, length_of(&slot.data).get()),
            Err(_) => (Status::Failed, 0),
        };
        // A read that failed may have been filled in part.
        self.mark_all(&slot.data);
        self.end(
            slot.queue,
            slot.head,
            &slot.memory,
            slot.status,
            status,
            written,
        );
    }

    fn completed(&mut self, completion: &Completion) {
        match Task::of(completion.token) {
            Task::Socket => {
                self.is_listening = false;
                self.is_readable = true;
            }
            Task::Again | Task::Signal => {}
            Task::Kick { queue, generation } => self.kicked(queue, generation),
            Task::Interrupt { queue } => {
                let bell = &mut self.device.vrings[queue].bell;
                bell.rang(queue, &self.source, &self.one);
            }
        }
    }

    fn kicked(&mut self, queue: usize, generation: u32) {
        let vring = &mut self.device.vrings[queue];
        if vring.generation != generation {
            return;
        }
        let Some(kick) = &mut vring.kick else { return };
        kick.is_heard = false;
        self.counters.kicks += 1;
        if bell::clear(&kick.fd) {
            self.device.look_at(queue);
        } else {
            // It can never be heard again; QEMU may set another.
            vring.kick = None;
        }
    }

    /// Ends the connection if memory of its guest lost its file.
    fn look_at_memory(&mut self) {
        let losses = guard::losses();
        if losses != self.losses {
            self.losses = losses;
            if self.device.is_lost() {
                self.fail("memory of the guest was cut off under us");
            }
        }
    }

    /// Waits for what can come next.
    fn listen(&mut self) {
        if !self.is_listening && !self.is_deaf() {
            self.is_listening = true;
            let fd = std::rc::Rc::clone(self.socket.fd());
            self.source.submit(Task::Socket.token(), Op::PollIn { fd });
        }
        let unheard = std::mem::take(&mut self.device.to_hear);
        for queue in bits(unheard, 0) {
            let vring = &mut self.device.vrings[queue];
            let generation = vring.generation;
            // One that is not served is heard when it is enabled.
            if !vring.is_served() {
                continue;
            }
            if let Some(kick) = &mut vring.kick
                && !kick.is_heard
            {
                kick.is_heard = true;
                let fd = std::rc::Rc::clone(&kick.fd);
                let token = Task::Kick { queue, generation }.token();
                self.source.submit(token, Op::PollIn { fd });
            }
        }
    }

    pub(crate) fn fail(&mut self, error: impl fmt::Display) {
        let disk = &self.name;
        tracing::warn!(disk, %error, "the VM's connection is given up");
        self.phase = Phase::Broken;
        self.waiting = None;
        self.account.withdraw();
        // QEMU learns of it at once rather than when the disk has answered.
        if let Err(error) = rustix::net::shutdown(self.socket.fd(), rustix::net::Shutdown::Both) {
            tracing::trace!(disk, %error, "the socket was shut down already");
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // The poll in flight holds the socket open until its cancellation is through.
        if let Err(error) = rustix::net::shutdown(self.socket.fd(), rustix::net::Shutdown::Both) {
            tracing::trace!(disk = self.name, %error, "the socket was shut down already");
        }
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("disk", &self.name)
            .field("phase", &self.phase)
            .field("in_flight", &self.slots.len())
            .field("held", &self.held)
            .finish_non_exhaustive()
    }
}
