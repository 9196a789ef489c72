//! The ring, its sources, and the loop's one system call.

#![allow(
    unsafe_code,
    reason = "queueing a submission and entering the kernel are the crate's two raw operations"
)]

use crate::flight::Flights;
use crate::limits::DRAIN_TIME_MAX;
use crate::op::{Completion, Op};
use crate::pace::Pace;
use crate::registered::Registered;
use crate::setup;
use crate::signals::{Failed, Signals};
use crate::watch::{Unwatched, Watch};
use io_uring::{IoUring, cqueue, opcode, squeue, types};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use units::{Duration, Instant};

/// `user_data` of cancel requests, whose own completions tell nothing.
const CANCEL: u64 = u64::MAX;

/// `IORING_ENTER_GETEVENTS`: process completions that wait for us. Fixed by the kernel's ABI.
const ENTER_GETEVENTS: u32 = 1;

/// One thread's `io_uring`. Cloning shares it.
#[derive(Clone)]
pub struct Ring {
    inner: Rc<RefCell<Inner>>,
}

/// Names a source on its ring. Reused after its source was dropped, so a loop must take a
/// report of readiness as a hint: polling a component that has nothing is harmless.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceId(u32);

impl SourceId {
    /// A small number, dense among living sources: fit for indexing a table.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A component's mailbox on the ring. Dropping it cancels its operations; their buffers stay
/// with the ring until the kernel is done.
pub struct Source {
    inner: Rc<RefCell<Inner>>,
    id: SourceId,
}

#[derive(Default)]
struct Desk {
    letters: VecDeque<Completion>,
    in_flight: usize,
    /// Listed in `Inner::ready` already.
    reported: bool,
    open: bool,
    /// How often it was opened.
    opening: u32,
}

pub(crate) struct Inner {
    pub(crate) uring: IoUring,
    registered: Registered,
    signals: Signals,
    pub(crate) flights: Flights,
    /// Submissions that found the queue full, oldest first.
    backlog: VecDeque<squeue::Entry>,
    desks: Vec<Desk>,
    free_desks: Vec<u32>,
    ready: Vec<SourceId>,
    enters: u64,
    pub(crate) pace: Pace,
}

impl Ring {
    /// A ring that takes at least `entries` submissions in one system call; more are queued
    /// and go in several.
    ///
    /// # Errors
    /// If the kernel has no `io_uring`, forbids it, or is older than Linux 5.13.
    pub fn new(entries: u32) -> io::Result<Self> {
        Self::with_pace(entries, Pace::new(now()))
    }

    /// The same, for a thread that is to sleep whenever it waits, as most programs do: a load
    /// generator must not take time from what it measures.
    ///
    /// # Errors
    /// As [`Ring::new`].
    pub fn sleeping(entries: u32) -> io::Result<Self> {
        Self::with_pace(entries, Pace::asleep(now()))
    }

    fn with_pace(entries: u32, pace: Pace) -> io::Result<Self> {
        let uring = setup::create(entries)?;
        let inner = Inner {
            registered: Registered::new(&uring),
            signals: Signals::new(uring.params().is_feature_skip_cqe_on_success()),
            uring,
            flights: Flights::new(),
            backlog: VecDeque::new(),
            desks: Vec::new(),
            free_desks: Vec::new(),
            ready: Vec::new(),
            enters: 0,
            pace,
        };
        Ok(Self {
            inner: Rc::new(RefCell::new(inner)),
        })
    }

    /// A new mailbox.
    ///
    /// # Panics
    /// If 2^32 sources are alive.
    pub fn source(&self) -> Source {
        let id = self.inner.borrow_mut().open_desk();
        Source {
            inner: Rc::clone(&self.inner),
            id,
        }
    }

    /// Submits everything queued and waits until at least one operation completes or `timeout`
    /// has passed; without a timeout, as long as it takes. Does not wait while completions
    /// sorted earlier were not taken by [`Ring::take_ready`]. A signal ends the wait early.
    ///
    /// # Errors
    /// If the kernel refuses the call, which a sound ring never sees.
    pub fn submit_and_wait(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.wait_watching(timeout, &mut Unwatched)
    }

    /// The same for a thread that also looks at memory in which others leave work; the wait ends
    /// when there is some.
    ///
    /// # Errors
    /// As [`Ring::submit_and_wait`].
    ///
    /// # Panics
    /// If `watch` touches the ring.
    pub fn wait_watching(
        &self,
        timeout: Option<Duration>,
        watch: &mut dyn Watch,
    ) -> io::Result<()> {
        self.inner.borrow_mut().turn(timeout, watch)
    }

    /// Hands what is queued to the kernel now rather than with the turn, which costs a system
    /// call of its own if there is anything. Waits for nothing and takes nothing in.
    pub fn submit(&self) {
        self.inner.borrow_mut().submit_queued();
    }

    /// Moves to `ready` the sources that got completions since the last call. Each is reported
    /// once, so its owner should pop until there is nothing left.
    pub fn take_ready(&self, ready: &mut Vec<SourceId>) {
        self.inner.borrow_mut().take_ready(ready);
    }

    /// Operations submitted and not completed, of all sources.
    pub fn in_flight(&self) -> usize {
        self.inner.borrow().flights.len()
    }

    /// System calls made so far.
    pub fn enters(&self) -> u64 {
        self.inner.borrow().enters
    }

    /// Time on the system's monotonic clock.
    pub fn now(&self) -> Instant {
        now()
    }
}

impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ring({} in flight)", self.in_flight())
    }
}

impl Source {
    /// This source's name in [`Ring::take_ready`].
    pub fn id(&self) -> SourceId {
        self.id
    }

    /// Queues an operation; the ring's next turn hands it to the kernel.
    ///
    /// # Panics
    /// If its lengths exceed its buffer or the kernel's limits: a bug of the caller.
    pub fn submit(&self, token: u64, op: Op) {
        self.inner.borrow_mut().submit(self.id.0, token, op);
    }

    /// Adds one to an eventfd when the ring's next turn begins, without a completion: the turn goes
    /// on waiting. Only if it fails a completion with `token` comes, with `EAGAIN` where it
    /// would wait: the counter is full, or the eventfd is one that blocks. False: this kernel has
    /// no such operation, and nothing was done; [`Op::Signal`] is for that.
    #[must_use = "nothing was signalled if this is false"]
    pub fn signal(&self, token: u16, eventfd: &Rc<OwnedFd>) -> bool {
        self.inner.borrow_mut().signal(self.id.0, token, eventfd)
    }

    /// Hands signals that are queued to the kernel now, which costs a system call if there are any.
    pub fn send_signals(&self) {
        let mut inner = self.inner.borrow_mut();
        if !inner.signals.is_empty() {
            inner.submit_queued();
        }
    }

    /// The oldest completion not popped yet.
    pub fn pop(&self) -> Option<Completion> {
        self.inner.borrow_mut().desks[self.id.index()]
            .letters
            .pop_front()
    }

    /// Operations submitted and not completed.
    pub fn in_flight(&self) -> usize {
        self.inner.borrow().desks[self.id.index()].in_flight
    }

    /// Asks the kernel to give up every operation in flight. Each still completes, most with
    /// `ECANCELED`, some as if nothing had happened.
    pub fn cancel_all(&self) {
        self.inner.borrow_mut().cancel(Some(self.id.0));
    }

    /// Asks the kernel to give up the operations in flight that were submitted with this token.
    /// Each still completes, most with `ECANCELED`, some as if nothing had happened.
    pub fn cancel(&self, token: u64) {
        self.inner.borrow_mut().cancel_token(self.id.0, token);
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        self.inner.borrow_mut().close_desk(self.id);
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Source({}, {} in flight)", self.id.0, self.in_flight())
    }
}

impl Inner {
    fn open_desk(&mut self) -> SourceId {
        let index = self.free_desks.pop().unwrap_or_else(|| {
            self.desks.push(Desk::default());
            u32::try_from(self.desks.len() - 1).expect("fewer than 2^32 sources")
        });
        let desk = &mut self.desks[index as usize];
        assert!(!desk.open, "a desk has one owner");
        assert!(desk.in_flight == 0, "a free desk has nothing in flight");
        desk.open = true;
        desk.opening = desk.opening.wrapping_add(1);
        SourceId(index)
    }

    fn close_desk(&mut self, id: SourceId) {
        let desk = &mut self.desks[id.index()];
        desk.open = false;
        desk.letters.clear();
        if desk.in_flight > 0 {
            self.cancel(Some(id.0));
        } else {
            self.free_desk(id);
        }
    }

    fn free_desk(&mut self, id: SourceId) {
        let desk = &mut self.desks[id.index()];
        if desk.reported {
            desk.reported = false;
            self.ready.retain(|one| *one != id);
        }
        self.free_desks.push(id.0);
    }

    fn take_ready(&mut self, ready: &mut Vec<SourceId>) {
        for id in &self.ready {
            self.desks[id.index()].reported = false;
        }
        ready.append(&mut self.ready);
    }

    fn submit(&mut self, source: u32, token: u64, mut op: Op) {
        let number = match &mut op {
            Op::Read { buf, .. } => self.registered.number(&self.uring, buf),
            _ => None,
        };
        let entry = self.flights.board(source, token, op, number);
        self.desks[source as usize].in_flight += 1;
        self.queue(entry);
    }

    fn signal(&mut self, source: u32, token: u16, eventfd: &Rc<OwnedFd>) -> bool {
        let opening = self.desks[source as usize].opening;
        let Some(entry) = self.signals.load(source, opening, token, eventfd) else {
            return false;
        };
        self.queue(entry);
        true
    }

    fn cancel(&mut self, source: Option<u32>) {
        for user_data in self.flights.of(source) {
            let entry = opcode::AsyncCancel::new(user_data).build();
            self.queue(entry.user_data(CANCEL));
        }
    }

    fn cancel_token(&mut self, source: u32, token: u64) {
        for user_data in self.flights.with_token(source, token) {
            let entry = opcode::AsyncCancel::new(user_data).build();
            self.queue(entry.user_data(CANCEL));
        }
    }

    /// Puts a submission in the kernel's queue, or behind it when even handing the queue over
    /// makes no room.
    fn queue(&mut self, entry: squeue::Entry) {
        if self.backlog.is_empty() {
            if self.push(&entry) {
                return;
            }
            // A refusal (completions are waiting to be reaped) leaves the queue as it was; the
            // next turn reaps and tries again.
            let _refused = self.enter(0, None);
            if self.push(&entry) {
                return;
            }
        }
        self.backlog.push_back(entry);
    }

    fn push(&mut self, entry: &squeue::Entry) -> bool {
        let mut queue = self.uring.submission();
        // SAFETY: the entry's pointers and descriptor belong to its `Flights` seat, which lives
        // until its completion is reaped; cancel entries carry neither.
        unsafe { queue.push(entry) }.is_ok()
    }

    fn turn(&mut self, timeout: Option<Duration>, watch: &mut dyn Watch) -> io::Result<()> {
        loop {
            while let Some(entry) = self.backlog.pop_front() {
                if !self.push(&entry) {
                    self.backlog.push_front(entry);
                    break;
                }
            }
            if self.backlog.is_empty() {
                if self.ready.is_empty() {
                    return self.wait(timeout, watch);
                }
                self.enter(0, None)?;
                self.reap();
                return Ok(());
            }
            self.enter(0, None)?;
            self.reap();
        }
    }

    fn submit_queued(&mut self) {
        if self.uring.submission().is_empty() {
            return;
        }
        self.enters += 1;
        // A refusal leaves the queue as it was; the turn tries again and judges.
        let _refused = self.uring.submit();
        self.note_taken();
    }

    /// Lets go of what the kernel needs only until it has taken the queue.
    fn note_taken(&mut self) {
        if self.backlog.is_empty() && self.uring.submission().is_empty() {
            self.signals.were_taken();
        }
    }

    /// One `io_uring_enter` that submits what is queued and waits for `wait` completions.
    pub(crate) fn enter(&mut self, wait: u32, timeout: Option<Duration>) -> io::Result<()> {
        self.enters += 1;
        let result = match timeout {
            Some(timeout) if wait > 0 => {
                let timespec = types::Timespec::from(timeout.to_std());
                let arguments = types::SubmitArgs::new().timespec(&timespec);
                self.uring
                    .submitter()
                    .submit_with_args(wait as usize, &arguments)
            }
            _ => {
                let submit = self.uring.submission().len();
                let submit = u32::try_from(submit).expect("the queue has a u32 length");
                let submitter = self.uring.submitter();
                // SAFETY: no argument is passed, and what the submissions point to is owned by
                // `Flights`, as `push` has it.
                unsafe { submitter.enter::<libc::sigset_t>(submit, wait, ENTER_GETEVENTS, None) }
            }
        };
        self.note_taken();
        match result {
            Ok(_) => Ok(()),
            Err(error) => match error.raw_os_error() {
                // Time is up, a signal came, or completions must be reaped first (the caller
                // does that next): all of them an ordinary end of a turn.
                Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN) => Ok(()),
                _ => Err(error),
            },
        }
    }

    /// Sorts completions to their sources; how many there were.
    pub(crate) fn reap(&mut self) -> usize {
        let mut count = 0;
        for entry in self.uring.completion() {
            if entry.user_data() == CANCEL {
                continue;
            }
            let (source, completion) = if let Some(failed) = Failed::of(entry.user_data()) {
                let desk = &self.desks[failed.desk as usize];
                if !desk.open || !failed.is_of(desk.opening) {
                    continue;
                }
                let token = u64::from(failed.token);
                (failed.desk, Completion::bare(token, entry.result()))
            } else if cqueue::more(entry.flags()) {
                self.flights.report(entry.user_data(), entry.result())
            } else {
                let (source, completion) = self.flights.land(entry.user_data(), entry.result());
                self.desks[source as usize].in_flight -= 1;
                (source, completion)
            };
            count += 1;
            let desk = &mut self.desks[source as usize];
            if desk.open {
                desk.letters.push_back(completion);
                if !desk.reported {
                    desk.reported = true;
                    self.ready.push(SourceId(source));
                }
            } else if desk.in_flight == 0 {
                // Closed desks drop their letters and are reported to nobody.
                desk.reported = false;
                self.ready.retain(|one| one.0 != source);
                self.free_desks.push(source);
            }
        }
        count
    }
}

impl Drop for Inner {
    /// Ends every operation before the memory under it goes away. What does not end in time
    /// is leaked by `Flights`.
    fn drop(&mut self) {
        let deadline = now() + DRAIN_TIME_MAX;
        self.cancel(None);
        self.ready.clear();
        while self.flights.len() > 0 {
            let left = deadline - now();
            if left == Duration::ZERO || self.turn(Some(left), &mut Unwatched).is_err() {
                return;
            }
            self.ready.clear();
        }
    }
}

pub(crate) fn now() -> Instant {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let seconds = u64::try_from(time.tv_sec).expect("the monotonic clock counts up from zero");
    let nanos = u64::try_from(time.tv_nsec).expect("a fraction of a second is not negative");
    Instant::from_nanos(seconds * 1_000_000_000 + nanos)
}
