//! From rings to requests, and back.
//!
//! ```text
//!  pending queue ─► take() ─► Chain ─► Call ─┬─ for the disk ─► Asked, Incoming
//!    ▲                                       ├─ known already ─► answered at once
//!    └── room again, kick, enable            └─ nonsense ─► the ring is broken
//! ```

use crate::asked::{Answer, Asked, Place};
use crate::bell::Signals;
use crate::device::Device;
use crate::limits::CHAINS_PER_TURN;
use crate::memory::Memory;
use crate::tokens::Task;
use crate::vring::RingError;
use block_io::{BufPool, GuestBuffer as _, IoError, Payload};
use frontend::budget::Account;
use frontend::limits::{ConnectionLimits, weight_of_range};
use frontend::{Counters, InFlight, Incoming, RequestKey, Verb, Weight};
use ring::{Foreign, Op};
use std::rc::Rc;
use units::Bytes;
use vhost_protocol::blk::{Ask, Call, Status, serial};
use vhost_protocol::limits::SERIAL_BYTES;
use vhost_protocol::{Chain, GuestAddress, Segment, Segments};

/// How looking through a queue ended.
enum Looked {
    /// It is empty, and the guest kicks when it is not, or whoever waits looks at it.
    Empty,
    /// There is no room for more in flight; answers bring the next look.
    Full,
    /// It had its turn.
    Tired,
}

/// What a request comes to.
enum Step {
    /// It is known how it ends, and how many bytes of data were written.
    Known(Status, u64),
    /// The disk is asked; this weighs on the connection meanwhile.
    Disk(Verb, Answer, Bytes),
}

/// The requests of a connection, taken from its queues and not answered yet.
///
/// Invariant: at a limit nothing is taken from the queues: the guest's requests wait in its own memory.
pub(crate) struct Requests {
    /// What the log calls the disk.
    disk: String,
    pool: BufPool,
    limits: ConnectionLimits,
    in_flight: InFlight<Asked>,
    account: Account,
    /// A request that waits for room in the memory budget: its queue and head.
    waiting: Option<(usize, u16)>,
    /// The queue that is looked at first.
    first_queue: usize,
    /// Queues with answers that were not published, a bit each.
    to_publish: u64,
    /// Whoever drives the connection looks at its queues while awake.
    is_watched: bool,
    counters: Counters,
}

impl Requests {
    pub(crate) fn new(disk: &str, pool: &BufPool, limits: ConnectionLimits) -> Self {
        Self {
            disk: disk.to_owned(),
            pool: pool.clone(),
            limits,
            in_flight: InFlight::default(),
            account: Account::default(),
            waiting: None,
            first_queue: 0,
            to_publish: 0,
            is_watched: false,
            counters: Counters::default(),
        }
    }

    pub(crate) fn set_account(&mut self, account: Account) {
        self.account = account;
    }

    pub(crate) fn set_watched(&mut self) {
        self.is_watched = true;
    }

    pub(crate) fn account(&self) -> &Account {
        &self.account
    }

    /// Tells the account what is held.
    pub(crate) fn settle_account(&self) {
        self.account.settle(self.in_flight.weight().memory);
    }

    /// Requests at the disk.
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Whether there are answers that were not published.
    pub(crate) fn has_unpublished(&self) -> bool {
        self.to_publish != 0
    }

    /// What was counted so far of chains, interrupts and broken queues.
    pub(crate) fn counters(&self) -> Counters {
        self.counters
    }

    /// The connection is broken: nothing more is taken.
    pub(crate) fn give_up(&mut self) {
        self.waiting = None;
        self.account.withdraw();
    }

    /// Answers a request; of a connection that is broken (no device) its guest sees nothing.
    ///
    /// # Panics
    /// If the request was answered before, or a read gets more or fewer bytes than it asked for.
    pub(crate) fn reply(
        &mut self,
        device: Option<&mut Device>,
        key: RequestKey,
        result: Result<Payload, IoError>,
    ) -> Option<Incoming> {
        let asked = self.in_flight.get_mut(key);
        if asked.answer == Answer::WordAfterFlush && result.is_ok() {
            asked.answer = Answer::Word;
            let verb = Verb::Flush;
            return Some(Incoming { key, verb });
        }
        let asked = self.in_flight.remove(key);
        if let Ok(data) = &result {
            let bytes: usize = data.iter().map(|slice| slice.len()).sum();
            assert!(
                bytes as u64 == length_of(&asked.data).get(),
                "a read gets what it asked for"
            );
        }
        let device = device?;
        let result = result.and_then(|data| {
            let copied = asked.memory.scatter(&asked.data, &data);
            copied.map_err(|_| IoError::Invalid)
        });
        self.answer(device, &asked, result);
        None
    }

    /// Where a read's data goes; `None` if the request is no read, or its memory lies in more pieces
    /// than one operation takes.
    ///
    /// # Panics
    /// If there is no such request in flight.
    pub(crate) fn buffers(&self, key: RequestKey) -> Option<Foreign> {
        let asked = self.in_flight.get(key).expect("a request in flight");
        if asked.answer != Answer::Data {
            return None;
        }
        asked.memory.foreign(&asked.data)
    }

    /// Puts part of a read's data in, `at` bytes behind the beginning.
    ///
    /// # Panics
    /// If there is no such request in flight, or it asked for fewer bytes.
    pub(crate) fn put(&self, key: RequestKey, at: usize, bytes: &[u8]) {
        let into = self.buffers(key).expect("a read with memory for its data");
        into.store(at, bytes);
    }

    /// Answers a read whose data was put into its buffers; as [`Requests::reply`].
    ///
    /// # Panics
    /// If the request was answered before, or is no read.
    pub(crate) fn reply_in_place(
        &mut self,
        device: Option<&mut Device>,
        key: RequestKey,
        result: Result<(), IoError>,
    ) {
        let asked = self.in_flight.remove(key);
        assert!(
            asked.answer == Answer::Data,
            "only reads are filled in place"
        );
        if let Some(device) = device {
            self.answer(device, &asked, result);
        }
    }

    fn answer(&mut self, device: &mut Device, asked: &Asked, result: Result<(), IoError>) {
        let (status, written) = match result {
            Ok(()) => (Status::Ok, length_of(&asked.data).get()),
            Err(_) => (Status::Failed, 0),
        };
        // A read that failed may have been filled in part.
        device.mark_all(&asked.data);
        self.end(device, &asked.memory, asked.place, status, written);
    }

    /// Takes requests from every queue that may have some, as far as there is room.
    pub(crate) fn take(
        &mut self,
        device: &mut Device,
        signals: &Signals,
        incoming: &mut Vec<Incoming>,
    ) {
        let mut left = CHAINS_PER_TURN;
        for queue in device.queues().pending(self.first_queue) {
            if !device.queues().vring(queue).is_served() {
                // It is looked at again when it is enabled or started.
                device.queues_mut().is_looked_through(queue);
                continue;
            }
            match self.look_through(device, queue, &mut left, incoming) {
                Ok(Looked::Empty) => device.queues_mut().is_looked_through(queue),
                Ok(Looked::Full) => {
                    self.first_queue = queue;
                    return;
                }
                Ok(Looked::Tired) => {
                    self.first_queue = queue + 1;
                    return signals.source().submit(Task::Again.token(), Op::Nop);
                }
                Err(error) => self.break_off(device, signals, queue, &error),
            }
        }
    }

    /// Goes on with the request that waited for memory, if there is room now. One of a queue that is
    /// to stop, or of a connection that closes, waits no longer: whoever stops it waits for it.
    pub(crate) fn take_waiting(
        &mut self,
        device: &mut Device,
        signals: &Signals,
        is_open: bool,
        incoming: &mut Vec<Incoming>,
    ) {
        let Some((queue, head)) = self.waiting.take() else {
            return;
        };
        let can_wait = is_open && !device.queues().vring(queue).is_stopping();
        if let Err(error) = self.accept(device, queue, head, can_wait, incoming) {
            device.queues_mut().vring_mut(queue).give_up(head);
            self.break_off(device, signals, queue, &error);
        }
    }

    /// Whether there is memory for a request, or it cannot wait for it.
    fn has_memory(&self, bytes: u64, can_wait: bool) -> bool {
        if bytes == 0 || self.account.charge(bytes) {
            return true;
        }
        if !can_wait {
            self.account.force(bytes);
        }
        !can_wait
    }

    fn look_through(
        &mut self,
        device: &mut Device,
        queue: usize,
        left: &mut usize,
        incoming: &mut Vec<Incoming>,
    ) -> Result<Looked, RingError> {
        device.queues_mut().set_quiet(queue, false);
        loop {
            if self.waiting.is_some() || !self.has_room() {
                return Ok(Looked::Full);
            }
            if *left == 0 {
                return Ok(Looked::Tired);
            }
            match device.queues_mut().vring_mut(queue).take()? {
                Some(head) => {
                    *left -= 1;
                    self.counters.chains += 1;
                    let can_wait = !device.queues().vring(queue).is_stopping();
                    if let Err(error) = self.accept(device, queue, head, can_wait, incoming) {
                        device.queues_mut().vring_mut(queue).give_up(head);
                        return Err(error);
                    }
                }
                None if self.is_watched => {
                    device.queues_mut().set_quiet(queue, true);
                    return Ok(Looked::Empty);
                }
                None => {
                    if !device.queues_mut().vring_mut(queue).listen()? {
                        return Ok(Looked::Empty);
                    }
                }
            }
        }
    }

    fn has_room(&self) -> bool {
        self.in_flight.len() < self.limits.requests
            && self.in_flight.weight().bytes < self.limits.bytes.get()
    }

    fn break_off(
        &mut self,
        device: &mut Device,
        signals: &Signals,
        queue: usize,
        error: &RingError,
    ) {
        device.queues_mut().is_looked_through(queue);
        let vring = device.queues_mut().vring_mut(queue);
        if vring.break_off() {
            let disk = &self.disk;
            tracing::warn!(disk, queue, %error, "the guest's driver is broken: its queue is not read any more");
            self.counters.broken += 1;
            vring.signal_error(signals);
        }
    }

    /// Makes a request of the chain at `head`.
    fn accept(
        &mut self,
        device: &mut Device,
        queue: usize,
        head: u16,
        can_wait: bool,
        incoming: &mut Vec<Incoming>,
    ) -> Result<(), RingError> {
        let memory = Rc::clone(device.memory());
        let mut chain = Chain::default();
        let ring = device
            .queues()
            .vring(queue)
            .queue()
            .ok_or(RingError::Unset)?;
        chain.read(ring, &*memory, head, device.may_be_indirect())?;
        let call = Call::read(&mut chain, &*memory, device.terms())?;
        memory.check(&[status_segment(call.status)])?;
        let budget = call.ask.as_ref().map_or(0, memory_of);
        if !self.has_memory(budget, can_wait) {
            self.waiting = Some((queue, head));
            return Ok(());
        }
        let place = Place {
            queue,
            head,
            status: call.status,
        };
        let step = match call.ask {
            Ok(ask) => self.step(device, &memory, &mut chain, ask),
            Err(status) => Step::Known(status, 0),
        };
        match step {
            Step::Known(status, written) => {
                self.end(device, &memory, place, status, written);
            }
            Step::Disk(verb, answer, bytes) => {
                let is_read = answer == Answer::Data;
                let asked = Asked {
                    place,
                    memory,
                    data: if is_read {
                        chain.writable
                    } else {
                        Segments::new()
                    },
                    answer,
                };
                let weight = Weight {
                    bytes: bytes.get(),
                    memory: budget,
                };
                let key = self.in_flight.insert(asked, weight);
                incoming.push(Incoming { key, verb });
            }
        }
        Ok(())
    }

    /// What a request comes to.
    fn step(&self, device: &mut Device, memory: &Memory, chain: &mut Chain, ask: Ask) -> Step {
        let fua = device.writes_through();
        match ask {
            Ask::Serial => tell_serial(device, memory, &chain.writable),
            Ask::Read { offset, length } => match memory.check(&chain.writable) {
                Ok(()) => Step::Disk(Verb::Read { offset, length }, Answer::Data, length),
                Err(_) => Step::Known(Status::Failed, 0),
            },
            Ask::Write { offset, length } => {
                // The one copy of a write: the guest can change its own at any time, and what goes
                // to the origin, to flash and into checksums must be the same bytes.
                let mut buf = self.pool.take(length.to_usize());
                let into = &mut buf[..length.to_usize()];
                if memory.gather(&chain.readable, into).is_err() {
                    return Step::Known(Status::Failed, 0);
                }
                let data = buf.freeze().slice(0..length.to_usize());
                Step::Disk(Verb::Write { offset, data, fua }, Answer::Word, length)
            }
            Ask::Flush => Step::Disk(Verb::Flush, Answer::Word, Bytes::ZERO),
            Ask::Discard { offset, length } => {
                let answer = if fua {
                    Answer::WordAfterFlush
                } else {
                    Answer::Word
                };
                Step::Disk(
                    Verb::Discard { offset, length },
                    answer,
                    weight_of_range(length),
                )
            }
            Ask::WriteZeroes {
                offset,
                length,
                may_unmap,
            } => {
                let verb = Verb::WriteZeroes {
                    offset,
                    length,
                    may_unmap,
                    fua,
                };
                Step::Disk(verb, Answer::Word, weight_of_range(length))
            }
        }
    }

    /// Puts a status and, behind it, the answer in; it is published at the end of the turn.
    /// `written` are the bytes of data before the status.
    fn end(
        &mut self,
        device: &mut Device,
        memory: &Memory,
        place: Place,
        status: Status,
        written: u64,
    ) {
        // Checked when the request was taken; memory in use does not go.
        if memory.write(place.status, &[status as u8]).is_ok() {
            device.mark(place.status, 1);
        }
        let total = u32::try_from(written + 1).expect("a payload is limited");
        device
            .queues_mut()
            .vring_mut(place.queue)
            .put(place.head, total);
        self.to_publish |= 1 << place.queue;
    }

    /// Shows guests what was answered, and interrupts them.
    pub(crate) fn publish(&mut self, device: &mut Device, signals: &Signals) {
        let answered = std::mem::take(&mut self.to_publish);
        if self.is_watched {
            device.queues_mut().be_quiet(answered);
        }
        self.counters.interrupts += device.queues_mut().publish(answered, signals);
        device.signal_log(signals);
    }
}

fn tell_serial(device: &mut Device, memory: &Memory, room: &[Segment]) -> Step {
    let text = serial(device.serial());
    let mut told = 0;
    for segment in room {
        let length = (segment.length as usize).min(SERIAL_BYTES - told);
        let part = &text[told..told + length];
        if memory.write(segment.address, part).is_err() {
            return Step::Known(Status::Failed, 0);
        }
        device.mark(segment.address, length as u64);
        told += length;
    }
    Step::Known(Status::Ok, told as u64)
}

/// Bytes of a payload as a length.
fn length_of(segments: &[Segment]) -> Bytes {
    let lengths = segments.iter().map(|one| u64::from(one.length));
    Bytes::new(lengths.sum())
}

/// What a request takes of memory: a write's payload, a read's bytes on their way.
fn memory_of(ask: &Ask) -> u64 {
    match ask {
        Ask::Read { length, .. } | Ask::Write { length, .. } => {
            BufPool::bytes_taken(length.to_usize()) as u64
        }
        Ask::Serial | Ask::Flush | Ask::Discard { .. } | Ask::WriteZeroes { .. } => 0,
    }
}

fn status_segment(address: GuestAddress) -> Segment {
    Segment { address, length: 1 }
}
