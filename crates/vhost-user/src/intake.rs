//! From rings to requests, and back.
//!
//! ```text
//!  pending queue ─► take() ─► Chain ─► Call ─┬─ for the disk ─► slot, Incoming
//!    ▲                                       ├─ known already ─► answered at once
//!    └── room again, kick, enable            └─ nonsense ─► the ring is broken
//! ```

use crate::connection::{Connection, Phase};
use crate::device::bits;
use crate::limits::CHAINS_PER_TURN;
use crate::memory::Memory;
use crate::slots::{Answer, Slot};
use crate::tokens::Task;
use crate::vring::RingError;
use block_io::BufPool;
use frontend::budget::Account;
use frontend::limits::weight_of_range;
use frontend::{Incoming, Verb};
use ring::Op;
use std::rc::Rc;
use units::Bytes;
use vhost_protocol::blk::{Ask, Call, Status, serial};
use vhost_protocol::limits::SERIAL_BYTES;
use vhost_protocol::{Chain, Features, GuestAddress, Segment, Segments};

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

impl Connection {
    /// The same, taking its memory from a budget that it shares with others. Poll it when its account
    /// is told that it was granted room.
    #[must_use]
    pub fn charging(mut self, account: Account) -> Self {
        self.account = account;
        self
    }

    /// Its account in the memory budget.
    pub fn account(&self) -> &Account {
        &self.account
    }

    /// Takes requests from every queue that may have some, as far as there is room.
    pub(crate) fn take_requests(&mut self, incoming: &mut Vec<Incoming>) {
        let mut left = CHAINS_PER_TURN;
        let first = self.first_queue;
        for queue in bits(self.device.pending, first) {
            if !self.device.vrings[queue].is_served() {
                // It is looked at again when it is enabled or started.
                self.device.pending &= !(1 << queue);
                continue;
            }
            match self.look_through(queue, &mut left, incoming) {
                Ok(Looked::Empty) => self.device.pending &= !(1 << queue),
                Ok(Looked::Full) => {
                    self.first_queue = queue;
                    return;
                }
                Ok(Looked::Tired) => {
                    self.first_queue = queue + 1;
                    return self.source.submit(Task::Again.token(), Op::Nop);
                }
                Err(error) => self.break_off(queue, &error),
            }
        }
    }

    /// Goes on with the request that waited for memory, if there is room now. One of a queue that is
    /// to stop, or of a connection that closes, waits no longer: whoever stops it waits for it.
    pub(crate) fn take_waiting(&mut self, incoming: &mut Vec<Incoming>) {
        let Some((queue, head)) = self.waiting.take() else {
            return;
        };
        if let Err(error) = self.accept(queue, head, incoming) {
            self.device.vrings[queue].give_up(head);
            self.break_off(queue, &error);
        }
    }

    /// Whether there is memory for a request, or it cannot wait for it.
    fn has_memory(&self, queue: usize, bytes: u64) -> bool {
        if bytes == 0 || self.account.charge(bytes) {
            return true;
        }
        let must = self.phase != Phase::Open || self.device.vrings[queue].is_stopping;
        if must {
            self.account.force(bytes);
        }
        must
    }

    fn look_through(
        &mut self,
        queue: usize,
        left: &mut usize,
        incoming: &mut Vec<Incoming>,
    ) -> Result<Looked, RingError> {
        self.device.quiet &= !(1 << queue);
        loop {
            if self.waiting.is_some() || !self.has_room() {
                return Ok(Looked::Full);
            }
            if *left == 0 {
                return Ok(Looked::Tired);
            }
            match self.device.vrings[queue].take()? {
                Some(head) => {
                    *left -= 1;
                    self.counters.chains += 1;
                    if let Err(error) = self.accept(queue, head, incoming) {
                        self.device.vrings[queue].give_up(head);
                        return Err(error);
                    }
                }
                None if self.is_watched => {
                    self.device.quiet |= 1 << queue;
                    return Ok(Looked::Empty);
                }
                None => {
                    if !self.device.vrings[queue].listen()? {
                        return Ok(Looked::Empty);
                    }
                }
            }
        }
    }

    fn has_room(&self) -> bool {
        self.slots.len() < self.limits.requests && self.slots.bytes() < self.limits.bytes.get()
    }

    fn break_off(&mut self, queue: usize, error: &RingError) {
        self.device.pending &= !(1 << queue);
        let vring = &mut self.device.vrings[queue];
        if vring.break_off() {
            let disk = &self.name;
            tracing::warn!(disk, queue, %error, "the guest's driver is broken: its queue is not read any more");
            self.counters.broken += 1;
            if let Some(fd) = &vring.error {
                crate::bell::signal(fd, &self.source, &self.one);
            }
        }
    }

    /// Makes a request of the chain at `head`.
    fn accept(
        &mut self,
        queue: usize,
        head: u16,
        incoming: &mut Vec<Incoming>,
    ) -> Result<(), RingError> {
        let memory = Rc::clone(&self.device.memory);
        let may_be_indirect = self.device.features.has(Features::RING_INDIRECT_DESC);
        let mut chain = Chain::default();
        let ring = self.device.vrings[queue].queue().ok_or(RingError::Unset)?;
        chain.read(ring, &*memory, head, may_be_indirect)?;
        let call = Call::read(&mut chain, &*memory, &self.device.config.terms)?;
        memory.check(&[status_segment(call.status)])?;
        let budget = call.ask.as_ref().map_or(0, memory_of);
        if !self.has_memory(queue, budget) {
            self.waiting = Some((queue, head));
            return Ok(());
        }
        let step = match call.ask {
            Ok(ask) => self.step(&memory, &mut chain, ask),
            Err(status) => Step::Known(status, 0),
        };
        match step {
            Step::Known(status, written) => {
                self.end(queue, head, &memory, call.status, status, written);
            }
            Step::Disk(verb, answer, bytes) => {
                let is_read = answer == Answer::Data;
                let key = self.slots.insert(Slot {
                    queue,
                    head,
                    status: call.status,
                    memory,
                    data: if is_read {
                        chain.writable
                    } else {
                        Segments::new()
                    },
                    answer,
                    bytes: bytes.get(),
                    budget,
                });
                incoming.push(Incoming { key, verb });
            }
        }
        Ok(())
    }

    /// What a request comes to.
    fn step(&mut self, memory: &Memory, chain: &mut Chain, ask: Ask) -> Step {
        let fua = self.device.writes_through();
        match ask {
            Ask::Serial => self.tell_serial(memory, &chain.writable),
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

    fn tell_serial(&mut self, memory: &Memory, room: &[Segment]) -> Step {
        let text = serial(&self.device.serial);
        let mut told = 0;
        for segment in room {
            let length = (segment.length as usize).min(SERIAL_BYTES - told);
            let part = &text[told..told + length];
            if memory.write(segment.address, part).is_err() {
                return Step::Known(Status::Failed, 0);
            }
            self.mark(segment.address, length as u64);
            told += length;
        }
        Step::Known(Status::Ok, told as u64)
    }

    /// Puts a status and, behind it, the answer in; it is published at the end of the turn.
    /// `written` are the bytes of data before the status.
    pub(crate) fn end(
        &mut self,
        queue: usize,
        head: u16,
        memory: &Memory,
        at: GuestAddress,
        status: Status,
        written: u64,
    ) {
        // Checked when the request was taken; memory in use does not go.
        if memory.write(at, &[status as u8]).is_ok() {
            self.mark(at, 1);
        }
        let total = u32::try_from(written + 1).expect("a payload is limited");
        self.device.vrings[queue].put(head, total);
        self.to_publish |= 1 << queue;
    }

    /// Marks what was written into a buffer, while that is asked for.
    pub(crate) fn mark(&mut self, at: GuestAddress, length: u64) {
        if let Some(log) = self.device.data_log() {
            log.mark(at, length);
            self.device.has_marked = true;
        }
    }

    pub(crate) fn mark_all(&mut self, segments: &[Segment]) {
        if let Some(log) = self.device.data_log() {
            log.mark_all(segments);
            self.device.has_marked = true;
        }
    }

    /// Shows guests what was answered, and interrupts them.
    pub(crate) fn publish(&mut self) {
        let answered = std::mem::take(&mut self.to_publish);
        let to_wake = std::mem::take(&mut self.device.to_wake);
        for queue in bits(answered | to_wake, 0) {
            let vring = &mut self.device.vrings[queue];
            let wanted = vring.publish();
            if wanted || to_wake & (1 << queue) != 0 {
                self.counters.interrupts += u64::from(wanted);
                vring.bell.ring(queue, &self.source, &self.one);
            }
        }
        if std::mem::take(&mut self.device.has_marked)
            && let Some(fd) = &self.device.log_signal
        {
            crate::bell::signal(fd, &self.source, &self.one);
        }
    }
}

/// Bytes of a payload as a length.
pub(crate) fn length_of(segments: &[Segment]) -> Bytes {
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
