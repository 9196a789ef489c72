//! Whether writes of the flash are late, and how far it has been taken back: the states of
//! `late_writes.rs`.

use crate::guard::{Guard, holds};
use crate::limits::{CALM_TIMEOUTS, RETRY_PAUSE_MIN};
use crate::ports::Ports;
use block_io::Token;
use block_store::{Store, Ticket};
use units::{Duration, Instant};

/// Whether writes of the flash are late, and how far it has been taken back.
#[derive(Debug, Default)]
pub(crate) struct LateWrites(State);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Usual,
    /// A late write was seen last at this time of [`Ports::attended`].
    Late { seen: Instant },
    /// Writes wait again. When everything up to `known` is durable, and not before `from`, the host
    /// is asked.
    Returning { known: Ticket, from: Instant },
    /// The host was asked to believe this incarnation again.
    Reinstating { known: Ticket, token: Token },
}

impl LateWrites {
    /// Whether a crash would cost the cache, since writes of the flash are late or were a moment ago.
    pub(crate) fn is_in_doubt(&self) -> bool {
        self.0 != State::Usual
    }

    /// Whether a write may go to the origin before its older copy is distrusted durably. `is_recorded` if
    /// the host's record says that this incarnation is not to be believed.
    pub(crate) fn pass(&self, is_recorded: bool) -> bool {
        match self.0 {
            State::Usual => false,
            State::Late { .. } => is_recorded || !holds(Guard::RecordBeforePassing),
            State::Returning { .. } | State::Reinstating { .. } => {
                !holds(Guard::WaitWhileReturning)
            }
        }
    }

    /// A write of the flash is late.
    pub(crate) fn late(&mut self, attended: Instant) {
        self.0 = State::Late { seen: attended };
    }

    /// The flash is over: it is not taken back.
    pub(crate) fn end(&mut self) {
        self.0 = State::Usual;
    }

    /// No write of the flash is late at the moment: lets writes wait again if that has been so for long
    /// enough.
    pub(crate) fn calm(&mut self, flash: &mut Store, ports: &Ports) {
        let State::Late { seen } = self.0 else {
            return;
        };
        let timeout = flash.facts().config().flash_timeout.as_nanos();
        let calm = Duration::from_nanos(timeout.saturating_mul(CALM_TIMEOUTS));
        if ports.attended() >= seen + calm {
            flash.journal_mut().hurry();
            self.0 = State::Returning {
                known: flash.journal().last(),
                from: ports.now(),
            };
        }
    }

    /// Whether the host is to be asked now, and if so under which token.
    pub(crate) fn asks(&mut self, flash: &Store, ports: &mut Ports) -> Option<Token> {
        let State::Returning { known, from } = self.0 else {
            return None;
        };
        let is_known = flash.journal().is_durable(known) || !holds(Guard::KnownBeforeReinstated);
        if !is_known {
            return None;
        }
        if ports.now() < from {
            ports.wake_at(from);
            return None;
        }
        let token = ports.question();
        self.0 = State::Reinstating { known, token };
        Some(token)
    }

    /// The host has answered. False if that is not what was asked last.
    pub(crate) fn answered(&mut self, token: Token, recorded: bool, now: Instant) -> bool {
        let State::Reinstating { known, token: last } = self.0 else {
            return false;
        };
        if token != last {
            return false;
        }
        self.0 = if recorded {
            State::Usual
        } else {
            let from = now + RETRY_PAUSE_MIN;
            State::Returning { known, from }
        };
        true
    }
}
