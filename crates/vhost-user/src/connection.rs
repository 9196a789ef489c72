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
//! - A broken session (`session.rs`) ends the connection, a broken queue (`requests.rs`) only itself.

use crate::bell::Signals;
use crate::device::{Device, Disk};
use crate::guard;
use crate::kick::Poll;
use crate::quota::{MappingLimits, Quota};
use crate::requests::Requests;
use crate::session::{Ended, Session};
use crate::tokens::Task;
use crate::vring::Vring;
use block_io::{BufPool, IoError, Payload};
use frontend::budget::Account;
use frontend::limits::ConnectionLimits;
use frontend::{Counters, Incoming, RequestKey, Reservation};
use ring::{Completion, Foreign, Ring, SourceId};
use std::fmt;
use std::os::fd::OwnedFd;
use units::Bytes;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Open,
    /// Nothing more is taken; answers still go out.
    Draining,
    /// Nothing goes in or out; requests at the disk are waited for.
    Broken,
}

/// A VM's device. See the module's text for how it is driven.
pub struct Connection {
    name: String,
    session: Session,
    device: Device,
    requests: Requests,
    signals: Signals,
    phase: Phase,
    kicks: u64,
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
            name: disk.name.clone(),
            session: Session::new(socket, &disk.name),
            device: Device::new(disk),
            requests: Requests::new(&disk.name, pool, limits),
            signals: Signals::new(ring.source(), pool),
            phase: Phase::Open,
            kicks: 0,
            losses: guard::losses(),
        }
    }

    /// The same, sharing a reservation with other connections to the disk. The first message that
    /// starts a queue takes it, or waits for it; no message is read meanwhile. It is released when
    /// every queue was stopped, or the connection is dropped.
    #[must_use]
    pub fn reserving(mut self, reservation: Reservation) -> Self {
        self.reserve_in(reservation);
        self
    }

    /// Its queues run under this reservation from now on; one that it has is released. Poll it afterwards.
    pub fn reserve_in(&mut self, reservation: Reservation) {
        self.session.reserve_in(reservation);
    }

    /// The same, mapping of its guest's memory no more than this.
    #[must_use]
    pub fn mapping_within(mut self, limits: &MappingLimits) -> Self {
        self.device.set_quota(Quota::new(limits.clone()));
        self
    }

    /// The same, for who calls [`Connection::has_work`] while awake and [`Connection::rest`] before
    /// sleeping: meanwhile the guest is not asked to kick.
    #[must_use]
    pub fn watched(mut self) -> Self {
        self.requests.set_watched();
        self
    }

    /// The same, taking its memory from a budget that it shares with others. Poll it when its account
    /// is told that it was granted room.
    #[must_use]
    pub fn charging(mut self, account: Account) -> Self {
        self.requests.set_account(account);
        self
    }

    /// Its account in the memory budget.
    pub fn account(&self) -> &Account {
        self.requests.account()
    }

    /// Whether the guest has put something into a ring of which it tells nobody. Never of a
    /// connection that is not [watched](Connection::watched).
    pub fn has_work(&self) -> bool {
        self.phase == Phase::Open && self.device.queues().has_quiet_work()
    }

    /// Whether a ring is to be looked at: [`Connection::rest`] has found something.
    pub fn is_pending(&self) -> bool {
        self.device.queues().is_pending()
    }

    /// Whether there are rings of which the guest tells nobody.
    pub fn is_quiet(&self) -> bool {
        self.device.queues().is_quiet()
    }

    /// Asks the guest to kick from now on. True: something has come already, and
    /// [`Connection::poll`] is to be called. It does not touch the ring.
    pub fn rest(&mut self) -> bool {
        self.device.queues_mut().rest() && self.phase == Phase::Open
    }

    /// Whether its VM waits for another connection's queues to stop. Poll it when they have.
    pub fn waits_for_reservation(&self) -> bool {
        self.session.waits_for_reservation()
    }

    /// Queues that run.
    pub fn queues(&self) -> usize {
        self.device.queues().running()
    }

    /// The source to watch on the ring.
    pub fn id(&self) -> SourceId {
        self.signals.source().id()
    }

    /// What the disk is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Requests at the disk.
    pub fn in_flight(&self) -> usize {
        self.requests.in_flight()
    }

    /// Whether QEMU waits for a queue to stop: it asks nothing more before.
    pub fn is_stopping(&self) -> bool {
        self.device.queues().all().iter().any(Vring::is_stopping)
    }

    /// What was counted so far.
    pub fn counters(&self) -> Counters {
        Counters {
            kicks: self.kicks,
            resumed: self.session.resumed(),
            ..self.requests.counters()
        }
    }

    /// Handles what the ring has for this connection, appends new requests to `incoming`, and
    /// publishes the answers put in since the last call. Call it when the source is ready and,
    /// once a turn, after replying.
    pub fn poll(&mut self, incoming: &mut Vec<Incoming>) {
        while let Some(completion) = self.signals.source_mut().pop() {
            self.completed(&completion);
        }
        self.look_at_memory();
        if self.phase == Phase::Open
            && let Err(ended) = self.session.read_messages(&mut self.device)
        {
            self.end(ended);
        }
        if self.phase == Phase::Open {
            if self.device.take_announcement() {
                // A QEMU that has known the disk under a connection before looks whether its size
                // is another. It listens when rings run.
                self.session.tell_size(&self.device);
            }
            self.device.queues_mut().look_at_quiet();
        }
        let (device, signals) = (&mut self.device, &self.signals);
        let is_open = self.phase == Phase::Open;
        self.requests
            .take_waiting(device, signals, is_open, incoming);
        if is_open {
            self.requests.take(device, signals, incoming);
        }
        if self.phase != Phase::Broken {
            self.look_at_memory();
        }
        if self.phase != Phase::Broken {
            self.requests.publish(&mut self.device, &self.signals);
            if self.session.holds_reply() {
                // QEMU does not listen to interrupts behind the reply.
                self.signals.source().send_signals();
            }
            if let Err(ended) = self.session.settle(&mut self.device) {
                self.end(ended);
            }
        }
        if self.phase == Phase::Open {
            self.session.poll_socket(self.signals.source());
            self.device.queues_mut().poll_kicks(self.signals.source());
        }
        for token in self.device.queues_mut().take_to_cancel() {
            self.signals.source().cancel(token);
        }
        self.requests.settle_account();
    }

    /// The device, unless the connection is broken: then nothing of it is touched any more.
    fn device(&mut self) -> (&mut Requests, Option<&mut Device>) {
        let is_broken = self.phase == Phase::Broken;
        let device = (!is_broken).then_some(&mut self.device);
        (&mut self.requests, device)
    }

    /// Answers a request; a read with exactly its bytes, anything else with no bytes. The guest
    /// sees it after the next [`Connection::poll`]. What comes back, if anything, is one more step
    /// of the same request, to be treated like any other [`Incoming`].
    ///
    /// # Panics
    /// If the request was answered before, or a read gets more or fewer bytes than it asked for.
    #[must_use = "a durable discard goes on with a flush"]
    pub fn reply(&mut self, key: RequestKey, result: Result<Payload, IoError>) -> Option<Incoming> {
        let (requests, device) = self.device();
        requests.reply(device, key, result)
    }

    /// Where a read's data goes, for a disk that can put it there itself; `None` if the request is
    /// no read, or its memory lies in more pieces than one operation takes.
    ///
    /// # Panics
    /// If there is no such request in flight.
    pub fn buffers(&self, key: RequestKey) -> Option<Foreign> {
        self.requests.buffers(key)
    }

    /// Puts part of a read's data in, `at` bytes behind the beginning, unless the connection is
    /// broken.
    ///
    /// # Panics
    /// If there is no such request in flight, or it asked for fewer bytes.
    pub fn put(&mut self, key: RequestKey, at: usize, bytes: &[u8]) {
        if self.phase != Phase::Broken {
            self.requests.put(key, at, bytes);
        }
    }

    /// Answers a read whose data was put into [`Connection::buffers`].
    ///
    /// # Panics
    /// If the request was answered before, or is no read.
    pub fn reply_in_place(&mut self, key: RequestKey, result: Result<(), IoError>) {
        let (requests, device) = self.device();
        requests.reply_in_place(device, key, result);
    }

    /// Takes no more requests. Those taken are still answered; then the connection is finished.
    pub fn close(&mut self) {
        if self.phase == Phase::Open {
            self.phase = Phase::Draining;
        }
    }

    /// True once nothing more will come of it: drop it then, which closes the socket.
    pub fn is_finished(&self) -> bool {
        let answered = self.requests.in_flight() == 0;
        match self.phase {
            Phase::Open => false,
            Phase::Draining => {
                answered && !self.requests.has_unpublished() && self.device.queues().is_idle()
            }
            Phase::Broken => answered,
        }
    }

    /// True once its VM has gone, or is not listened to any more: what is not at the disk yet need not get there.
    pub fn has_hung_up(&self) -> bool {
        self.phase == Phase::Broken
    }

    /// The disk has another size now. The guest is told if QEMU listens.
    ///
    /// # Panics
    /// If the size is no multiple of the disk's sector.
    pub fn resize(&mut self, size: Bytes) {
        let sector = u64::from(self.device.terms().sector);
        assert!(size.is_multiple_of(sector), "a disk has whole sectors");
        self.device.resize(size);
        if self.phase == Phase::Open {
            self.session.tell_size(&self.device);
        }
    }

    fn completed(&mut self, completion: &Completion) {
        match Task::of(completion.token) {
            Task::Socket => self.session.polled(),
            Task::HangUp if completion.result.is_ok() => self.session.hung_up(),
            Task::HangUp | Task::Again | Task::Signal => {}
            Task::Kick { queue, generation } => {
                let poll = match completion {
                    Completion { result: Err(_), .. } => Poll::Failed,
                    Completion { goes_on: true, .. } => Poll::GoesOn,
                    Completion { .. } => Poll::Ended,
                };
                let queues = self.device.queues_mut();
                self.kicks += u64::from(queues.kicked(queue, generation, poll));
            }
            Task::Interrupt { queue } => {
                let vring = self.device.queues_mut().vring_mut(queue);
                vring.interrupted(queue, &self.signals);
            }
            Task::Missed { queue } => {
                let vring = self.device.queues_mut().vring_mut(queue);
                vring.missed_interrupt(queue, &self.signals);
            }
        }
    }

    /// Ends the connection if memory of its guest lost its file.
    fn look_at_memory(&mut self) {
        let losses = guard::losses();
        if losses != self.losses {
            self.losses = losses;
            if self.device.is_lost() {
                self.fail(&"memory of the guest was cut off under us");
            }
        }
    }

    fn end(&mut self, ended: Ended) {
        match ended {
            Ended::Gone => {
                let disk = &self.name;
                tracing::debug!(disk, "the VM has gone");
                self.phase = Phase::Broken;
            }
            Ended::Failed(error) => self.fail(&error),
        }
    }

    fn fail(&mut self, error: &dyn fmt::Display) {
        let disk = &self.name;
        tracing::warn!(disk, %error, "the VM's connection is given up");
        self.phase = Phase::Broken;
        self.requests.give_up();
        // QEMU learns of it at once rather than when the disk has answered.
        self.session.shut_down();
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("disk", &self.name)
            .field("phase", &self.phase)
            .field("in_flight", &self.requests.in_flight())
            .finish_non_exhaustive()
    }
}
