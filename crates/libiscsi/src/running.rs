//! Commands of a session that is there.

#![allow(
    unsafe_code,
    reason = "the library reads and fills memory that the commands under way own"
)]

use crate::cdb::Cdb;
use crate::context::{Context, Direction, size_of};
use crate::library::{Functions, Task};
use crate::sense::Outcome;

use block_io::{Buf, Slice};
use libc::{c_int, c_void};
use std::cell::RefCell;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};
use std::rc::Rc;

/// The bytes of a command.
#[derive(Debug)]
pub enum Data {
    /// None.
    Nothing,
    /// The target fills the first `length` bytes.
    In {
        /// Comes back with the command.
        buf: Buf,
        /// How many.
        length: usize,
    },
    /// The target gets these.
    Out(Slice),
}

impl Data {
    const fn comes_in(&self) -> bool {
        matches!(self, Self::In { .. })
    }
}

/// A command.
#[derive(Debug)]
pub struct Command {
    /// What it is called.
    pub tag: u64,
    /// What to do.
    pub cdb: Cdb,
    /// Its bytes.
    pub data: Data,
}

/// A command that has ended.
#[derive(Debug)]
pub struct Ended {
    /// The command, with its bytes.
    pub command: Command,
    /// How it ended. A target that fills less than was asked for has not done it.
    pub outcome: Outcome,
}

type Queue = Rc<RefCell<Vec<Ended>>>;

/// What the library keeps of a command and hands back with its end.
struct Ticket {
    command: Command,
    ended: Queue,
    functions: &'static Functions,
}

/// A session that serves commands for the thread that has it.
pub struct Running {
    /// None once it was closed.
    context: Option<Context>,
    ended: Queue,
    in_flight: usize,
}

/// The library's word that a command has ended.
unsafe extern "C" fn landed(
    _: *mut c_void,
    status: c_int,
    task: *mut c_void,
    private: *mut c_void,
) {
    // SAFETY: `submit` has made it of a box, and each command ends once.
    let ticket = unsafe { Box::from_raw(private.cast::<Ticket>()) };
    let task = task.cast::<Task>();
    let outcome = if task.is_null() {
        Outcome::Lost
    } else {
        // SAFETY: the library hands back the task that it was given.
        let seen = unsafe { &*task };
        match seen.outcome(status) {
            // Less came than was asked for.
            Outcome::Good if seen.residual > 0 && ticket.command.data.comes_in() => {
                Outcome::Other(0)
            }
            outcome => outcome,
        }
    };
    if !task.is_null() {
        // SAFETY: the command is over, and nobody uses its task afterwards.
        unsafe { (ticket.functions.scsi_free_scsi_task)(task) };
    }
    let Ticket { command, ended, .. } = *ticket;
    ended.borrow_mut().push(Ended { command, outcome });
}

impl Running {
    pub(crate) fn new(context: Context) -> Self {
        Self {
            context: Some(context),
            ended: Queue::default(),
            in_flight: 0,
        }
    }

    /// Whether commands have ended that were not taken.
    pub fn has_ended(&self) -> bool {
        !self.ended.borrow().is_empty()
    }

    /// Commands under way.
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Begins a command. What cannot be begun ends as lost.
    pub fn submit(&mut self, command: Command) {
        self.in_flight += 1;
        let Some(context) = &self.context else {
            let outcome = Outcome::Lost;
            return self.ended.borrow_mut().push(Ended { command, outcome });
        };
        let functions = context.functions;
        let mut ticket = Box::new(Ticket {
            command,
            ended: Rc::clone(&self.ended),
            functions,
        });
        let Some(task) = task_of(&mut ticket) else {
            let (command, outcome) = (ticket.command, Outcome::Busy);
            return self.ended.borrow_mut().push(Ended { command, outcome });
        };
        let private = Box::into_raw(ticket);
        // SAFETY: the ticket and with it the bytes stay where they are until the library has called `landed` with it.
        let answer = unsafe {
            (functions.iscsi_scsi_command_async)(
                context.handle,
                context.unit,
                task,
                landed,
                std::ptr::null_mut(),
                private.cast(),
            )
        };
        if answer != 0 {
            // SAFETY: the library has not taken the command, so the ticket is ours again.
            let ticket = unsafe { Box::from_raw(private) };
            // SAFETY: nor the task.
            unsafe { (functions.scsi_free_scsi_task)(task) };
            let (command, outcome) = (ticket.command, Outcome::Lost);
            self.ended.borrow_mut().push(Ended { command, outcome });
        }
    }

    /// A descriptor of the socket, for who polls it; none once the connection is lost.
    ///
    /// # Errors
    /// If the system has no descriptors left.
    pub fn listening(&self) -> io::Result<Option<OwnedFd>> {
        let Some(fd) = self.socket() else {
            return Ok(None);
        };
        // SAFETY: the library has it open.
        let fd = unsafe { BorrowedFd::borrow_raw(fd) };
        fd.try_clone_to_owned().map(Some)
    }

    fn socket(&self) -> Option<RawFd> {
        let context = self.context.as_ref()?;
        // SAFETY: the context is there.
        let fd = unsafe { (context.functions.iscsi_get_fd)(context.handle) };
        (fd >= 0).then_some(fd)
    }

    /// What to poll the socket for, as `poll` has it.
    pub fn events(&self) -> i16 {
        let Some(context) = &self.context else {
            return 0;
        };
        // SAFETY: the context is there.
        let events = unsafe { (context.functions.iscsi_which_events)(context.handle) };
        i16::try_from(events).unwrap_or(0)
    }

    /// The socket is ready for these events. Why the connection is lost, if it is.
    pub fn service(&mut self, events: i16) -> Option<String> {
        let context = self.context.as_ref()?;
        // SAFETY: the context is there.
        let answer = unsafe { (context.functions.iscsi_service)(context.handle, events.into()) };
        let words = (answer < 0).then(|| context.words());
        match (words, self.socket()) {
            (_, None) => Some("the target closed the connection".to_owned()),
            (Some(words), Some(_)) => Some(words),
            (None, Some(_)) => None,
        }
    }

    /// The commands that have ended.
    pub fn take_ended(&mut self) -> Vec<Ended> {
        let ended = std::mem::take(&mut *self.ended.borrow_mut());
        self.in_flight -= ended.len();
        ended
    }

    /// Ends the connection at once. Commands under way end as lost.
    pub fn close(&mut self) {
        self.context = None;
    }

    /// The session, unless commands are under way or the connection is lost.
    pub(crate) fn into_context(mut self) -> Option<Context> {
        if self.in_flight > 0 || self.socket().is_none() {
            return None;
        }
        self.context.take()
    }
}

/// The library's form of a command.
fn task_of(ticket: &mut Ticket) -> Option<*mut Task> {
    let functions = ticket.functions;
    let Command { cdb, data, .. } = &mut ticket.command;
    let (direction, length, bytes) = match data {
        Data::Nothing => (Direction::None, 0, None),
        Data::In { buf, length } => (Direction::In, *length, Some(buf[..*length].as_mut_ptr())),
        Data::Out(slice) => (
            Direction::Out,
            slice.len(),
            // The library only reads what goes out.
            Some(slice.as_ptr().cast_mut()),
        ),
    };
    let length = c_int::try_from(length).ok()?;
    let size = size_of(cdb[0]);
    // SAFETY: the command has as many bytes as is said.
    let task =
        unsafe { (functions.scsi_create_task)(size, cdb.as_mut_ptr(), direction.number(), length) };
    if task.is_null() {
        return None;
    }
    let added = match (direction, bytes) {
        // SAFETY: the bytes stay where they are, with the ticket, until the command has ended.
        (Direction::In, Some(bytes)) => unsafe {
            (functions.scsi_task_add_data_in_buffer)(task, length, bytes)
        },
        // SAFETY: the same.
        (Direction::Out, Some(bytes)) => unsafe {
            (functions.scsi_task_add_data_out_buffer)(task, length, bytes)
        },
        _ => 0,
    };
    if added != 0 {
        // SAFETY: nobody has it.
        unsafe { (functions.scsi_free_scsi_task)(task) };
        return None;
    }
    Some(task)
}

impl std::fmt::Debug for Running {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Running")
            .field("in_flight", &self.in_flight)
            .finish_non_exhaustive()
    }
}
