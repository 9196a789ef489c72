//! One queue of a device: what QEMU set, and the ring while it runs.
//!
//! ```text
//!  size, base, addresses ──► a kick ───► running ─► stop()      (set again for the next time)
//!                                          │ ▲
//!             take() ─► (request) ─► put() ┘ └ publish() ─► interrupt
//! ```
//!
//! Invariants:
//! - A head is in flight once at most: a guest that offers one that is has broken its ring.
//! - A broken ring is not read any more; what is in flight of it is still answered.
//! - With an inflight region, a head is marked there before anything is done with it, and until
//!   the answer is published.

use crate::bell::{Bell, Signals};
use crate::dirty::DirtyLog;
use crate::kick::Kick;
use crate::mapping::View;
use crate::memory::Memory;
use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use vhost_protocol::{
    Area, BadChain, BadInflight, BadQueue, GuestAddress, Inflight, Queue, QueueAreas,
    RingAddresses, Unmapped, blk::BadCall,
};

/// Why a ring cannot be started, or is not read any more.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RingError {
    #[error("the ring has no size or no place yet")]
    Unset,
    #[error("the ring is running")]
    Running,
    #[error(transparent)]
    Unmapped(#[from] Unmapped),
    #[error(transparent)]
    Queue(#[from] BadQueue),
    #[error(transparent)]
    Chain(#[from] BadChain),
    #[error(transparent)]
    Call(#[from] BadCall),
    #[error(transparent)]
    Inflight(#[from] BadInflight),
    #[error("the guest offers descriptor {0}, which is in flight")]
    Twice(u16),
}

/// A part of a ring. Writes to the used ring are marked in the dirty log while there is one.
#[derive(Debug)]
pub(crate) struct RingArea {
    view: View,
    log: Option<(Rc<DirtyLog>, GuestAddress)>,
}

impl RingArea {
    fn mark(&self, at: usize, bytes: usize) {
        if let Some((log, base)) = &self.log
            && let Some(at) = base.checked_add(at as u64)
        {
            log.mark(at, bytes as u64);
        }
    }
}

impl Area for RingArea {
    fn len(&self) -> usize {
        self.view.len()
    }
    fn load(&self, at: usize, into: &mut [u8]) {
        self.view.load(at, into);
    }
    fn store(&self, at: usize, from: &[u8]) {
        self.view.store(at, from);
        self.mark(at, from.len());
    }
    fn load_u16(&self, at: usize) -> u16 {
        self.view.load_u16(at)
    }
    fn store_u16(&self, at: usize, value: u16) {
        self.view.store_u16(at, value);
        self.mark(at, size_of::<u16>());
    }
}

#[derive(Debug)]
struct Running {
    queue: Queue<RingArea>,
    inflight: Option<Inflight<View>>,
    /// Taken by whoever served the disk before us, and not answered: they come first.
    resubmit: VecDeque<u16>,
    in_flight: Vec<bool>,
    count: usize,
    /// Put into the used ring and not published.
    answered: Vec<u16>,
    is_broken: bool,
}

/// One queue.
#[derive(Debug, Default)]
pub(crate) struct Vring {
    size: u16,
    base: u16,
    addresses: Option<RingAddresses>,
    is_enabled: bool,
    /// QEMU waits for it to stop: nothing more is taken.
    is_stopping: bool,
    kick: Kick,
    bell: Bell,
    error: Option<Rc<OwnedFd>>,
    running: Option<Running>,
}

/// What a ring is started with.
pub(crate) struct Start<'a> {
    pub(crate) memory: &'a Memory,
    pub(crate) log: Option<&'a Rc<DirtyLog>>,
    pub(crate) by_index: bool,
    pub(crate) inflight: Option<View>,
}

impl Vring {
    pub(crate) fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Whether requests may be taken from it now.
    pub(crate) fn is_served(&self) -> bool {
        let works = self.running.as_ref().is_some_and(|ring| !ring.is_broken);
        self.is_enabled && !self.is_stopping && works
    }

    pub(crate) fn set_enabled(&mut self, is_enabled: bool) {
        self.is_enabled = is_enabled;
    }

    /// QEMU waits for it to stop: nothing more is taken.
    pub(crate) fn stop_taking(&mut self) {
        self.is_stopping = true;
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.is_stopping
    }

    /// The eventfd by which the guest kicks.
    pub(crate) fn kick_mut(&mut self) -> &mut Kick {
        &mut self.kick
    }

    /// What to poll for a kick, and its generation, unless that is polled already. A queue that is not
    /// served is polled when it is enabled.
    pub(crate) fn poll_kick(&mut self) -> Option<(Rc<OwnedFd>, u32)> {
        if self.is_served() {
            self.kick.poll()
        } else {
            None
        }
    }

    /// The eventfd that interrupts the guest.
    pub(crate) fn set_interrupt(&mut self, fd: Option<Rc<OwnedFd>>) {
        self.bell.set(fd);
    }

    /// Interrupts the guest; this is queue `number`.
    pub(crate) fn interrupt(&mut self, number: usize, signals: &Signals) {
        self.bell.ring(number, signals);
    }

    /// An interrupt was delivered, or could not be.
    pub(crate) fn interrupted(&mut self, number: usize, signals: &Signals) {
        self.bell.rang(number, signals);
    }

    /// An interrupt that was to be delivered at once was not.
    pub(crate) fn missed_interrupt(&mut self, number: usize, signals: &Signals) {
        self.bell.missed(number, signals);
    }

    /// Asks the guest not to kick, of a queue that was found empty: it is looked at meanwhile.
    /// False: nobody looks at it, since it is not served.
    pub(crate) fn be_quiet(&mut self) -> bool {
        if !self.is_served() {
            return false;
        }
        let running = self.running.as_mut();
        running.is_some_and(|running| {
            running.queue.be_quiet();
            true
        })
    }

    /// The eventfd that tells QEMU of a broken ring.
    pub(crate) fn set_error(&mut self, fd: Option<Rc<OwnedFd>>) {
        self.error = fd;
    }

    /// Tells QEMU that the ring is broken.
    pub(crate) fn signal_error(&self, signals: &Signals) {
        if let Some(fd) = &self.error {
            signals.signal(fd);
        }
    }

    pub(crate) fn set_size(&mut self, size: u32) -> Result<(), RingError> {
        self.check_stopped()?;
        self.size = Queue::<RingArea>::check_size(size)?;
        Ok(())
    }

    pub(crate) fn set_base(&mut self, base: u32) -> Result<(), RingError> {
        self.check_stopped()?;
        // The index wraps at 16 bits; QEMU sends no more.
        self.base = u16::try_from(base & 0xffff).expect("16 bits");
        Ok(())
    }

    /// Sets where the ring is; of one that runs, only whether it is logged can change.
    pub(crate) fn set_addresses(
        &mut self,
        addresses: RingAddresses,
        log: Option<&Rc<DirtyLog>>,
    ) -> Result<(), RingError> {
        let place = |one: &RingAddresses| (one.descriptors, one.available, one.used);
        if self.is_running() {
            let same = self
                .addresses
                .is_some_and(|before| place(&before) == place(&addresses));
            if !same {
                return Err(RingError::Running);
            }
        }
        self.addresses = Some(addresses);
        self.set_log(log);
        Ok(())
    }

    /// The dirty log has come, gone or changed.
    pub(crate) fn set_log(&mut self, log: Option<&Rc<DirtyLog>>) {
        if let (Some(running), Some(addresses)) = (&mut self.running, &self.addresses) {
            running.queue.areas_mut().used.log = used_log(addresses, log);
        }
    }

    /// The guest's memory has changed: the ring is where it was for QEMU, perhaps elsewhere for us.
    pub(crate) fn move_to(
        &mut self,
        memory: &Memory,
        log: Option<&Rc<DirtyLog>>,
    ) -> Result<(), RingError> {
        let (Some(running), Some(addresses)) = (&mut self.running, &self.addresses) else {
            return Ok(());
        };
        match areas(addresses, self.size, memory, log) {
            Ok(areas) => {
                *running.queue.areas_mut() = areas;
                Ok(())
            }
            Err(error) => {
                running.is_broken = true;
                Err(error)
            }
        }
    }

    /// Starts it. Gives how many requests are taken up that somebody else had begun.
    pub(crate) fn start(&mut self, start: Start<'_>) -> Result<usize, RingError> {
        self.check_stopped()?;
        let addresses = self.addresses.ok_or(RingError::Unset)?;
        if self.size == 0 {
            return Err(RingError::Unset);
        }
        let areas = areas(&addresses, self.size, start.memory, start.log)?;
        let mut queue = Queue::new(areas, self.size, self.base, start.by_index)?;
        let mut heads = Vec::new();
        let inflight = start
            .inflight
            .map(|view| Inflight::open(view, self.size, queue.used_index(), &mut heads))
            .transpose()?;
        if inflight.as_ref().is_some_and(|region| !region.is_fresh()) {
            // Everything up to here was answered or is among the heads. What QEMU says of a
            // device that died is only how far it was answered.
            let taken = u16::try_from(heads.len()).expect("at most one for each descriptor");
            queue.resume_at(queue.used_index().wrapping_add(taken));
        }
        let resumed = heads.len();
        self.running = Some(Running {
            queue,
            inflight,
            resubmit: heads.into(),
            in_flight: vec![false; usize::from(self.size)],
            count: 0,
            answered: Vec::new(),
            is_broken: false,
        });
        self.is_stopping = false;
        Ok(resumed)
    }

    /// Stops it and says how far it was read.
    ///
    /// # Panics
    /// If something of it is in flight.
    pub(crate) fn stop(&mut self) -> u16 {
        if let Some(running) = self.running.take() {
            assert!(running.count == 0, "a ring stops when it is empty");
            self.base = running.queue.next_available();
        }
        self.is_stopping = false;
        self.is_enabled = false;
        self.bell.set(None);
        self.base
    }

    /// Forgets everything that QEMU set.
    ///
    /// # Panics
    /// If it runs.
    pub(crate) fn reset(&mut self) {
        assert!(!self.is_running(), "a ring is stopped before it is reset");
        let mut kick = std::mem::take(&mut self.kick);
        let _polled = kick.forget();
        *self = Self {
            kick,
            ..Self::default()
        };
    }

    /// Whether nothing of it is in flight, down to the interrupt.
    pub(crate) fn is_idle(&self) -> bool {
        let empty = |ring: &Running| ring.count == 0 && ring.answered.is_empty();
        self.running.as_ref().is_none_or(empty) && !self.bell.is_ringing()
    }

    /// The next request's head, marked as in flight.
    pub(crate) fn take(&mut self) -> Result<Option<u16>, RingError> {
        let Some(running) = &mut self.running else {
            return Ok(None);
        };
        running.queue.be_quiet();
        let (head, is_marked) = match running.resubmit.pop_front() {
            Some(head) => (head, true),
            None => match running.queue.pop()? {
                Some(head) => (head, false),
                None => return Ok(None),
            },
        };
        let place = &mut running.in_flight[usize::from(head)];
        if std::mem::replace(place, true) {
            return Err(RingError::Twice(head));
        }
        running.count += 1;
        if let Some(inflight) = &mut running.inflight
            && !is_marked
        {
            inflight.begin(head);
        }
        Ok(Some(head))
    }

    /// Whether something has come, or the ring makes no sense any more.
    pub(crate) fn has_work(&self) -> bool {
        let waiting = |ring: &Running| !matches!(ring.queue.waiting(), Ok(0));
        self.is_served() && self.running.as_ref().is_some_and(waiting)
    }

    /// Asks for kicks. True: something has come meanwhile.
    pub(crate) fn listen(&mut self) -> Result<bool, RingError> {
        match &mut self.running {
            Some(running) => Ok(running.queue.listen()?),
            None => Ok(false),
        }
    }

    /// The ring itself, for reading chains.
    pub(crate) fn queue(&self) -> Option<&Queue<RingArea>> {
        self.running.as_ref().map(|running| &running.queue)
    }

    /// Puts an answer in, to be published.
    pub(crate) fn put(&mut self, head: u16, written: u32) {
        let Some(running) = &mut self.running else {
            return;
        };
        running.queue.put(head, written);
        running.in_flight[usize::from(head)] = false;
        running.count -= 1;
        running.answered.push(head);
    }

    /// Forgets a head that cannot be answered, since its request makes no sense.
    pub(crate) fn give_up(&mut self, head: u16) {
        if let Some(running) = &mut self.running {
            running.in_flight[usize::from(head)] = false;
            running.count -= 1;
        }
    }

    /// Shows the guest what was answered. True: it wants to be interrupted.
    pub(crate) fn publish(&mut self) -> bool {
        let Some(running) = &mut self.running else {
            return false;
        };
        if running.answered.is_empty() {
            return false;
        }
        if let Some(inflight) = &mut running.inflight {
            inflight.prepare(&running.answered);
        }
        running.queue.publish();
        if let Some(inflight) = &mut running.inflight {
            inflight.finish(&running.answered, running.queue.used_index());
        }
        running.answered.clear();
        running.queue.wants_interrupt()
    }

    /// Reads it no more. False: it was broken already.
    pub(crate) fn break_off(&mut self) -> bool {
        match &mut self.running {
            Some(running) => !std::mem::replace(&mut running.is_broken, true),
            None => false,
        }
    }

    fn check_stopped(&self) -> Result<(), RingError> {
        if self.is_running() {
            return Err(RingError::Running);
        }
        Ok(())
    }
}

fn used_log(
    addresses: &RingAddresses,
    log: Option<&Rc<DirtyLog>>,
) -> Option<(Rc<DirtyLog>, GuestAddress)> {
    let log = log.filter(|_| addresses.is_logged)?;
    Some((Rc::clone(log), GuestAddress(addresses.log)))
}

fn areas(
    addresses: &RingAddresses,
    size: u16,
    memory: &Memory,
    log: Option<&Rc<DirtyLog>>,
) -> Result<QueueAreas<RingArea>, RingError> {
    let (descriptors, available, used) = QueueAreas::<RingArea>::bytes(size);
    let plain = |view| RingArea { view, log: None };
    Ok(QueueAreas {
        descriptors: plain(memory.view(addresses.descriptors, descriptors, 16)?),
        available: plain(memory.view(addresses.available, available, 2)?),
        used: RingArea {
            view: memory.view(addresses.used, used, 4)?,
            log: used_log(addresses, log),
        },
    })
}
