//! What the host has recorded of this incarnation, outside the flash, and what may go to the origin
//! because of it.

use crate::api::Effect;
use crate::flash_use::FlashUse;
use crate::lateness::LateWrites;
use crate::limits::RETRY_PAUSE_MIN;
use crate::ports::Ports;
use block_io::Token;
use block_store::Store;
use units::Instant;

/// What the host's record says of this incarnation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Retirement {
    /// That it may be believed, or there is none: nothing has to be recorded.
    #[default]
    None,
    /// The host has been asked to record that it may not.
    Asked { incarnation: u64, token: Token },
    /// The host could not. The next write or detach asks again at once, a dirty log that waits for the
    /// record asks again at `until`.
    Refused { incarnation: u64, until: Instant },
    /// It is recorded.
    Done,
}

/// The record, and how late writes of the flash are: together they say whether a write has to wait.
#[derive(Debug, Default)]
pub(crate) struct HostRecord {
    retirement: Retirement,
    late_writes: LateWrites,
}

impl HostRecord {
    /// What the record says.
    pub(crate) fn retirement(&self) -> Retirement {
        self.retirement
    }

    /// Whether a crash would cost the cache, since writes of the flash are late or were a moment ago.
    pub(crate) fn is_in_doubt(&self) -> bool {
        self.late_writes.is_in_doubt()
    }

    /// Whether a write may go to the origin before its older copy is distrusted durably.
    pub(crate) fn lets_pass(&self) -> bool {
        self.late_writes.pass(self.retirement == Retirement::Done)
    }

    /// Whether the origin must not be written now, since the flash has failed and that is not recorded.
    pub(crate) fn is_awaited(&self, flash: &FlashUse) -> bool {
        let is_open = matches!(
            self.retirement,
            Retirement::Asked { .. } | Retirement::Refused { .. }
        );
        is_open && !flash.is_in_use()
    }

    /// Whether the dirty logs of failed flash cannot go to the origin yet: clean blocks on it that this
    /// makes stale would be believed again. Asks once more now and then.
    pub(crate) fn holds_logs_back(&mut self, flash: &FlashUse, ports: &mut Ports) -> bool {
        if flash.is_in_use() {
            // They are distrusted there, as long as it is in use.
            return false;
        }
        match self.retirement {
            Retirement::None | Retirement::Done => return false,
            Retirement::Asked { .. } => {}
            Retirement::Refused { until, .. } if ports.now() < until => ports.wake_at(until),
            Retirement::Refused { .. } => self.retire_again(ports),
        }
        true
    }

    fn ask_to_retire(&mut self, ports: &mut Ports, incarnation: u64) {
        let token = ports.question();
        self.retirement = Retirement::Asked { incarnation, token };
        ports.push(Effect::Retire { token, incarnation });
    }

    /// Asks once more, if the host could not record it.
    pub(crate) fn retire_again(&mut self, ports: &mut Ports) {
        if let Retirement::Refused { incarnation, .. } = self.retirement {
            self.ask_to_retire(ports, incarnation);
        }
    }

    /// The flash of this incarnation has failed: it is not taken back. True if the record said so already.
    pub(crate) fn flash_failed(&mut self, ports: &mut Ports, incarnation: u64) -> bool {
        self.late_writes.end();
        match self.retirement {
            Retirement::None | Retirement::Refused { .. } => {
                self.ask_to_retire(ports, incarnation);
                false
            }
            Retirement::Asked { .. } => false,
            Retirement::Done => true,
        }
    }

    /// The host has answered a question to record it. False if that is not what was asked last.
    pub(crate) fn answered(&mut self, answered: Token, recorded: bool, now: Instant) -> bool {
        let Retirement::Asked { incarnation, token } = self.retirement else {
            return false;
        };
        if token != answered {
            return false;
        }
        self.retirement = if recorded {
            Retirement::Done
        } else {
            let until = now + RETRY_PAUSE_MIN;
            Retirement::Refused { incarnation, until }
        };
        true
    }

    /// A write of the flash of this incarnation is late. True if nobody has to wait for the flash.
    pub(crate) fn write_is_late(&mut self, ports: &mut Ports, incarnation: u64) -> bool {
        self.late_writes.late(ports.attended());
        match self.retirement {
            Retirement::None => self.ask_to_retire(ports, incarnation),
            Retirement::Refused { until, .. } if ports.now() >= until => self.retire_again(ports),
            Retirement::Refused { .. } | Retirement::Asked { .. } => {}
            Retirement::Done => return true,
        }
        false
    }

    /// No write of the flash is late now. False if the host has not answered yet what it was asked
    /// while one was.
    pub(crate) fn writes_are_in_time(&mut self, flash: &mut Store, ports: &Ports) -> bool {
        let is_answered = !matches!(self.retirement, Retirement::Asked { .. });
        if is_answered {
            self.late_writes.calm(flash, ports);
        }
        is_answered
    }

    /// Asks the host to believe the flash again, if it is time.
    pub(crate) fn reinstate(&mut self, flash: &Store, ports: &mut Ports) {
        let Some(token) = self.late_writes.asks(flash, ports) else {
            return;
        };
        // The record may say so from now on, whatever the answer is.
        self.retirement = Retirement::None;
        ports.push(Effect::Reinstate {
            token,
            incarnation: flash.facts().incarnation(),
        });
    }

    /// The host has answered that question. True if it believes the flash again.
    pub(crate) fn reinstated(&mut self, token: Token, recorded: bool, now: Instant) -> bool {
        self.late_writes.answered(token, recorded, now) && recorded
    }
}
