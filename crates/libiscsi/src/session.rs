//! A session with a unit of a target, from its login on.

#![allow(
    unsafe_code,
    reason = "the library's functions are called with handles that it gave"
)]

use crate::cdb::Cdb;
use crate::context::{Context, Direction, size_of};
use crate::error::Error;
use crate::library::{Functions, Task, functions};
use crate::running::Running;
use crate::sense::{Outcome, Sense};
use libc::c_int;
use std::ffi::CString;
use std::ptr;

/// `ISCSI_SESSION_NORMAL`.
const NORMAL: c_int = 2;
/// How often a command is tried that the unit answers with an attention.
const ATTENTIONS_MAX: usize = 5;
/// Seconds that each command may take by which a session ends.
const FAREWELL_SECONDS: u16 = 10;

/// Who asks: for CHAP.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The name.
    pub user: String,
    /// The secret.
    pub secret: String,
}

impl std::fmt::Debug for Credentials {
    /// Without the secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Credentials({})", self.user)
    }
}

/// A unit of a target, and who asks for it.
#[derive(Clone, Debug)]
pub struct Target<'a> {
    /// Where the target listens: `host:port`.
    pub portal: &'a str,
    /// The target's name.
    pub name: &'a str,
    /// The unit's number.
    pub unit: u16,
    /// The initiator's name.
    pub initiator: &'a str,
    /// Tells the sessions of one initiator apart. One that logs in as a session that is there ends that.
    pub session: u64,
    /// What the target wants to know of us, if anything.
    pub credentials: Option<&'a Credentials>,
    /// What we want to know of the target, if anything.
    pub of_target: Option<&'a Credentials>,
    /// Seconds that a command may take until the session is started.
    pub seconds: u16,
}

/// A session with a unit.
#[derive(Debug)]
pub struct Session {
    context: Context,
}

impl Session {
    /// Logs in, and waits until the unit is ready. Blocks.
    ///
    /// # Errors
    /// If the library cannot be loaded, or the target does not let us in.
    pub fn login(target: &Target<'_>) -> Result<Self, Error> {
        let functions = functions().map_err(Error::Library)?;
        let initiator = CString::new(target.initiator)?;
        // SAFETY: the text ends with a zero byte.
        let handle = unsafe { (functions.iscsi_create_context)(initiator.as_ptr()) };
        if handle.is_null() {
            return Err(Error::Login("no memory for a session".to_owned()));
        }
        let session = Self {
            context: Context {
                functions,
                handle,
                unit: c_int::from(target.unit),
            },
        };
        session.prepare(target)?;
        let portal = CString::new(target.portal)?;
        // SAFETY: the text ends with a zero byte.
        let connected = unsafe {
            (functions.iscsi_full_connect_sync)(handle, portal.as_ptr(), session.context.unit)
        };
        session.checked(connected)?;
        // SAFETY: the session is there. Whoever has it begins another one when this one is lost.
        unsafe { (functions.iscsi_set_noautoreconnect)(handle, 1) };
        Ok(session)
    }

    /// Has each command from now on end within so many seconds; 0: it takes as long as it takes.
    fn limit(&self, seconds: u16) {
        let (functions, handle) = (self.context.functions, self.context.handle);
        // SAFETY: the context is there.
        unsafe { (functions.iscsi_set_timeout)(handle, c_int::from(seconds)) };
    }

    fn prepare(&self, target: &Target<'_>) -> Result<(), Error> {
        let (functions, handle) = (self.context.functions, self.context.handle);
        let name = CString::new(target.name)?;
        // SAFETY: the text ends with a zero byte.
        self.checked(unsafe { (functions.iscsi_set_targetname)(handle, name.as_ptr()) })?;
        // SAFETY: the context is there.
        self.checked(unsafe { (functions.iscsi_set_session_type)(handle, NORMAL) })?;
        let [_, _, _, q0, q1, r0, r1, r2] = target.session.to_be_bytes();
        let random = u32::from_be_bytes([0, r0, r1, r2]);
        let qualifier = u32::from_be_bytes([0, 0, q0, q1]);
        // SAFETY: the same.
        self.checked(unsafe { (functions.iscsi_set_isid_random)(handle, random, qualifier) })?;
        self.limit(target.seconds);
        let both = [
            (
                target.credentials,
                functions.iscsi_set_initiator_username_pwd,
            ),
            (target.of_target, functions.iscsi_set_target_username_pwd),
        ];
        for (credentials, set) in both {
            let Some(Credentials { user, secret }) = credentials else {
                continue;
            };
            let (user, secret) = (CString::new(user.as_str())?, CString::new(secret.as_str())?);
            // SAFETY: both texts end with a zero byte.
            self.checked(unsafe { set(handle, user.as_ptr(), secret.as_ptr()) })?;
        }
        Ok(())
    }

    fn checked(&self, answer: c_int) -> Result<(), Error> {
        if answer == 0 {
            return Ok(());
        }
        Err(Error::Login(self.context.words()))
    }

    /// Has the target end all commands of the unit, those of former sessions too: none of them is carried out when this
    /// returns. Blocks.
    ///
    /// # Errors
    /// If the target does not.
    pub fn reset(&mut self) -> Result<(), Error> {
        let unit = self.context.unit.cast_unsigned();
        // SAFETY: the session is there.
        let answer = unsafe {
            (self.context.functions.iscsi_task_mgmt_lun_reset_sync)(self.context.handle, unit)
        };
        self.checked(answer)
    }

    /// Carries out a command that answers up to as many bytes as `answer` has; how many came. Blocks.
    ///
    /// # Errors
    /// [`Error::Failed`].
    pub fn ask(&mut self, what: &'static str, cdb: Cdb, answer: &mut [u8]) -> Result<usize, Error> {
        let length = c_int::try_from(answer.len()).unwrap_or(0);
        let residual = self.run(what, cdb, &Direction::In, length, |functions, task| {
            // SAFETY: the buffer outlives the command, which ends before this returns.
            unsafe { (functions.scsi_task_add_data_in_buffer)(task, length, answer.as_mut_ptr()) }
        })?;
        Ok(answer.len().saturating_sub(residual))
    }

    /// Carries out a command that has these bytes. Blocks.
    ///
    /// # Errors
    /// [`Error::Failed`].
    pub fn tell(&mut self, what: &'static str, cdb: Cdb, data: &mut [u8]) -> Result<(), Error> {
        let length = c_int::try_from(data.len()).unwrap_or(0);
        let told = self.run(what, cdb, &Direction::Out, length, |functions, task| {
            // SAFETY: as for an answer.
            unsafe { (functions.scsi_task_add_data_out_buffer)(task, length, data.as_mut_ptr()) }
        });
        told.map(drop)
    }

    /// The bytes that did not come.
    fn run(
        &mut self,
        what: &'static str,
        mut cdb: Cdb,
        direction: &Direction,
        length: c_int,
        mut with_data: impl FnMut(&Functions, *mut Task) -> c_int,
    ) -> Result<usize, Error> {
        let functions = self.context.functions;
        let size = size_of(cdb[0]);
        let mut outcome = Outcome::Lost;
        for _ in 0..ATTENTIONS_MAX {
            // SAFETY: the command has as many bytes as is said.
            let task = unsafe {
                (functions.scsi_create_task)(size, cdb.as_mut_ptr(), direction.number(), length)
            };
            if task.is_null() || with_data(functions, task) != 0 {
                return Err(Error::Login("no memory for a command".to_owned()));
            }
            let (handle, unit) = (self.context.handle, self.context.unit);
            // SAFETY: the task was made for this, and is not used by anybody else.
            let done =
                unsafe { (functions.iscsi_scsi_command_sync)(handle, unit, task, ptr::null_mut()) };
            let (found, residual) = if done.is_null() {
                (Outcome::Lost, 0)
            } else {
                // SAFETY: the library hands back the task that it was given.
                let done = unsafe { &*done };
                (done.outcome(done.status), done.residual)
            };
            // SAFETY: the command is over.
            unsafe { (functions.scsi_free_scsi_task)(task) };
            outcome = found;
            match found {
                Outcome::Good => return Ok(residual),
                Outcome::Check(Sense {
                    key: Sense::UNIT_ATTENTION,
                    ..
                }) => {}
                _ => break,
            }
        }
        Err(Error::Failed { what, outcome })
    }

    /// Takes leave of the target. Blocks.
    pub fn logout(self) {
        // SAFETY: the session is there. If it fails the target finds out by itself.
        unsafe { (self.context.functions.iscsi_logout_sync)(self.context.handle) };
    }

    /// Has it serve commands, from this thread on. Whoever submits them limits their time.
    pub fn start(self) -> Running {
        self.limit(0);
        Running::new(self.context)
    }

    /// The session of what serves commands, to take leave of the target with ten seconds for each command; none if
    /// commands are under way, or the connection is lost.
    pub fn resume(running: Running) -> Option<Self> {
        let session = Self {
            context: running.into_context()?,
        };
        session.limit(FAREWELL_SECONDS);
        Some(session)
    }
}
