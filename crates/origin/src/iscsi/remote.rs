//! A unit as a far side of the NBD client: how to log in, again and again.

use super::bridge::Bridge;
use super::key::Key;
use super::reservation::{self, NoReservation, Reserved};
use super::unit::Unit;
use crate::late::{Keeper, random};
use crate::nbd::{Carrier, Connected, DialError, Remote, Times, Wire};
use crate::sessions::Session;
use crate::{Chap, IscsiSpec};
use block_io::{BufPool, FailureKind};
use events::EventKind;
use libiscsi::{Credentials, Error, Target};
use nbd_client::LinkId;
use ring::Ring;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use units::Duration;
use xxhash_rust::xxh3::xxh3_64;

/// A disk that is written: the unit is reserved with this key.
#[derive(Clone, Debug)]
pub(super) struct Writer {
    pub(super) key: Key,
    /// It was told that another host has the unit.
    was_told: Arc<AtomicBool>,
    /// The session lasts until everybody who has it has let go.
    _session: Arc<Session>,
}

impl Writer {
    pub(super) fn new(key: Key, session: Session) -> Self {
        Self {
            key,
            was_told: Arc::default(),
            _session: Arc::new(session),
        }
    }

    /// Tells once that another host has taken the unit.
    pub(super) fn say_who_was_taken(&self, origin: &str) {
        if self.was_told.swap(true, Ordering::Relaxed) {
            return;
        }
        let kind = FailureKind::OriginLost;
        tracing::error!(
            event = EventKind::OriginLost.word(),
            kind = kind.name(),
            message_id = kind.message_id(),
            origin,
            "the target refuses this host: another one has taken the unit. Nothing of what is written here reaches the unit any \
             more; detach the disk, and attach it where it belongs"
        );
    }

    /// The same, by no operator's word.
    pub(super) fn who_takes_nothing(mut self) -> Self {
        self.key.takes_from_anybody = false;
        self
    }
}

/// A unit, and what for.
#[derive(Debug)]
pub(super) struct IscsiRemote {
    pub(super) spec: IscsiSpec,
    /// None for a disk that is only read.
    pub(super) writer: Option<Writer>,
}

/// Why there is no session.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoSession {
    /// A file with a secret cannot be read.
    #[error("the secret in {path}: {reason}")]
    Secret { path: String, reason: io::Error },
    /// The target cannot be reached, or does not let this host in, which is known there by its name.
    #[error("logging in as {initiator}: {reason}")]
    Login { initiator: String, reason: Error },
    /// Another host has the unit.
    #[error("{0}")]
    InUse(NoReservation),
    /// The target, or the library.
    #[error(transparent)]
    Failed(#[from] Error),
}

/// A session with a unit, on its way to its shard's thread.
#[derive(Debug)]
struct LoggedIn {
    /// None when it has been started.
    session: Option<libiscsi::Session>,
    unit: Unit,
    origin: String,
    writer: Option<Writer>,
    /// Nobody had the unit before: if the session is not started, nobody has it afterwards.
    is_new: bool,
}

impl Drop for LoggedIn {
    fn drop(&mut self) {
        if let (Some(session), true) = (self.session.take(), self.is_new) {
            take_leave(session, self.writer.take(), &self.origin);
        }
    }
}

impl IscsiRemote {
    /// Logs in for the first time and takes the unit, if it is to be written. A unit that nobody had is given back unless
    /// what comes of this is started. Blocks.
    pub(super) fn log_in_first(&self) -> Result<Connected, NoSession> {
        self.log_in(true)
    }

    fn log_in(&self, is_first: bool) -> Result<Connected, NoSession> {
        let spec = &self.spec;
        let credentials = spec.chap.as_ref().map(secret_of).transpose()?;
        let of_target = spec.target_chap.as_ref().map(secret_of).transpose()?;
        let seconds = spec.connect_timeout.as_nanos().div_ceil(1_000_000_000);
        let session = match &self.writer {
            // The same as before: a session of a former process ends by that. One of another host that has the same name
            // does not, because its key is another one.
            Some(writer) => {
                let who = format!("{} {} {}", spec.initiator, spec.name, writer.key.own);
                xxh3_64(who.as_bytes())
            }
            None => random(),
        };
        let session = libiscsi::Session::login(&Target {
            portal: &spec.portal,
            name: &spec.target,
            unit: spec.unit,
            initiator: &spec.initiator,
            session,
            credentials: credentials.as_ref(),
            of_target: of_target.as_ref(),
            seconds: u16::try_from(seconds).unwrap_or(u16::MAX),
        });
        let mut session = session.map_err(|reason| NoSession::Login {
            initiator: spec.initiator.clone(),
            reason,
        })?;
        let mut writer = self.writer.clone();
        let mut is_new = false;
        if let Some(held) = &writer {
            let taken = reservation::take(&mut session, held.key);
            let reserved = taken.map_err(|error| match error {
                NoReservation::Failed(error) => NoSession::Failed(error),
                in_use @ NoReservation::InUse(_) => NoSession::InUse(in_use),
            })?;
            if reserved == Reserved::Unsupported {
                tracing::warn!(
                    origin = spec.name,
                    "the target knows no persistent reservations: nothing keeps another host from writing the unit"
                );
                writer = None;
            }
            is_new = is_first && reserved == Reserved::Newly;
        }
        let unit = match self.prepare(&mut session) {
            Ok(unit) => unit,
            Err(error) => {
                if is_new {
                    take_leave(session, writer, &spec.name);
                }
                return Err(error.into());
            }
        };
        let terms = unit.terms;
        let carrier = LoggedIn {
            session: Some(session),
            unit,
            origin: spec.name.clone(),
            writer,
            is_new,
        };
        Ok(Connected {
            carrier: Box::new(carrier),
            terms,
        })
    }

    /// Ends what former sessions have under way, if the unit is to be written, and asks what the unit is like.
    fn prepare(&self, session: &mut libiscsi::Session) -> Result<Unit, Error> {
        if self.writer.is_some() {
            session.reset()?;
        }
        Unit::of(session)
    }
}

fn secret_of(chap: &Chap) -> Result<Credentials, NoSession> {
    let text = std::fs::read_to_string(&chap.secret_file);
    let text = text.map_err(|reason| NoSession::Secret {
        path: chap.secret_file.display().to_string(),
        reason,
    })?;
    Ok(Credentials {
        user: chap.user.clone(),
        secret: text.lines().next().unwrap_or("").to_owned(),
    })
}

impl fmt::Display for IscsiRemote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.spec.fmt(f)
    }
}

impl Remote for IscsiRemote {
    fn connect_all(&self, _keeper: Option<&Keeper>) -> Result<Vec<Connected>, DialError> {
        let connected = self.log_in(false).map_err(|error| match error {
            NoSession::InUse(_) => {
                if let Some(writer) = &self.writer {
                    writer.say_who_was_taken(&self.spec.name);
                }
                DialError::Refused(format!("it is in use by {error}"))
            }
            error => DialError::Unreachable(io::Error::other(error)),
        });
        Ok(vec![connected?])
    }

    fn times(&self) -> Times {
        Times {
            reconnect_pause_max: self.spec.reconnect_pause_max,
            request_timeout: self.spec.request_timeout,
            // Whoever has logged in again has ended what the session before had under way.
            settle_time: Duration::ZERO,
        }
    }
}

impl Carrier for LoggedIn {
    fn start(mut self: Box<Self>, link: LinkId, ring: &Ring, pool: &BufPool) -> Box<dyn Wire> {
        let session = self.session.take();
        let running = session.expect("it is started once").start();
        let (origin, writer) = (self.origin.clone(), self.writer.take());
        Box::new(Bridge::new(
            link,
            running,
            self.unit.able,
            origin,
            writer,
            ring,
            pool,
        ))
    }
}

/// Gives the unit back and ends the session, on a thread of its own, because the target may take its time.
pub(super) fn take_leave(mut session: libiscsi::Session, writer: Option<Writer>, origin: &str) {
    let name = origin.to_owned();
    let leave = move || {
        if let Some(writer) = writer
            && let Err(error) = reservation::give_back(&mut session, writer.key.own)
        {
            tracing::warn!(origin = name, %error, "the unit stays reserved for this host");
        }
        session.logout();
    };
    let thread = thread::Builder::new().name("iscsi-close".to_owned());
    if let Err(error) = thread.spawn(leave) {
        tracing::warn!(origin, %error, "the unit stays reserved for this host");
    }
}
