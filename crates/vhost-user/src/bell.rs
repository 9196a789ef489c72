//! Eventfds of QEMU's: read and written without ever waiting for them.
//!
//! They are whatever QEMU gave us, shared with it and with the guest's processor. So they are checked
//! to be eventfds, read only in a way that cannot wait, and written by the ring: while it takes the
//! submissions of a turn if the eventfd does not block, as QEMU's never do; else it waits in our place.

use crate::tokens::Task;
use block_io::{BufPool, Slice};
use ring::{Op, Source};
use rustix::io::ReadWriteFlags;
use std::io::IoSliceMut;
use std::os::fd::{AsRawFd, OwnedFd};
use std::rc::Rc;

/// Bytes of an eventfd's counter.
const COUNTER_BYTES: usize = 8;

/// Interrupts that are waited for after one that could not be delivered at once: trying costs a
/// blocking eventfd one failure in so many, and one that blocks no longer is found out soon.
const SLOW_RINGS: u8 = 64;

/// What the system calls an eventfd.
const EVENTFD: &[u8] = b"anon_inode:[eventfd]";

/// The descriptor is no eventfd.
#[derive(Debug, thiserror::Error)]
#[error("a descriptor that should be an eventfd is none")]
pub(crate) struct NotAnEventfd;

/// Checks what QEMU gave us. Where `/proc` is missing it is believed; a wrong one then costs its
/// device some turns.
pub(crate) fn eventfd(fd: OwnedFd) -> Result<Rc<OwnedFd>, NotAnEventfd> {
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    match rustix::fs::readlink(path, Vec::new()) {
        Ok(name) if name.as_bytes() != EVENTFD => Err(NotAnEventfd),
        Ok(_) | Err(_) => Ok(Rc::new(fd)),
    }
}

/// Takes an eventfd's counter down to zero, as far as it can be read.
pub(crate) fn clear(fd: &OwnedFd) {
    let mut counter = [0; COUNTER_BYTES];
    let mut into = [IoSliceMut::new(&mut counter)];
    // An offset of -1 is that of a stream.
    let _unreadable = rustix::io::preadv2(fd, &mut into, u64::MAX, ReadWriteFlags::NOWAIT);
}

/// What writes to eventfds: the connection's source, and a one as an eventfd takes it.
pub(crate) struct Signals {
    source: Source,
    one: Slice,
}

impl Signals {
    pub(crate) fn new(source: Source, pool: &BufPool) -> Self {
        let one = pool.copy_of(&1_u64.to_le_bytes());
        Self { source, one }
    }

    /// The source, which has other operations of the connection too.
    pub(crate) fn source(&self) -> &Source {
        &self.source
    }

    /// The same, to take completions.
    pub(crate) fn source_mut(&mut self) -> &mut Source {
        &mut self.source
    }

    /// Signals an eventfd, and nobody waits for that.
    pub(crate) fn signal(&self, fd: &Rc<OwnedFd>) {
        self.write(Task::Signal, fd);
    }

    /// Signals an eventfd with the submissions of this turn. False: this kernel cannot do so.
    fn signal_at_once(&self, missed: Task, fd: &Rc<OwnedFd>) -> bool {
        let token = u16::try_from(missed.token()).expect("a queue and a kind");
        self.source.signal(token, fd)
    }

    fn write(&self, task: Task, fd: &Rc<OwnedFd>) {
        let op = Op::Signal {
            eventfd: Rc::clone(fd),
            count: self.one.clone(),
        };
        self.source.submit(task.token(), op);
    }
}

/// A queue's interrupt. At most one that the ring waits for is on its way; those that come meanwhile
/// are one more.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    fd: Option<Rc<OwnedFd>>,
    /// Interrupts to wait for until one is tried at once again.
    slow_left: u8,
    is_ringing: bool,
    again: bool,
}

impl Bell {
    pub(crate) fn set(&mut self, fd: Option<Rc<OwnedFd>>) {
        self.slow_left = 0;
        self.fd = fd;
    }

    /// Whether an interrupt is still on its way.
    pub(crate) fn is_ringing(&self) -> bool {
        self.is_ringing
    }

    pub(crate) fn ring(&mut self, queue: usize, signals: &Signals) {
        let Some(fd) = &self.fd else { return };
        if self.is_ringing {
            self.again = true;
            return;
        }
        let missed = Task::Missed { queue };
        if self.slow_left == 0 && signals.signal_at_once(missed, fd) {
            return;
        }
        self.slow_left = self.slow_left.saturating_sub(1);
        self.is_ringing = true;
        signals.write(Task::Interrupt { queue }, fd);
    }

    /// An interrupt was not delivered at once, since its eventfd is full or one that blocks: the ring
    /// waits for it in our place, and for the next ones.
    pub(crate) fn missed(&mut self, queue: usize, signals: &Signals) {
        self.slow_left = SLOW_RINGS;
        self.ring(queue, signals);
    }

    /// An interrupt was delivered, or could not be.
    pub(crate) fn rang(&mut self, queue: usize, signals: &Signals) {
        self.is_ringing = false;
        if std::mem::take(&mut self.again) {
            self.ring(queue, signals);
        }
    }
}
