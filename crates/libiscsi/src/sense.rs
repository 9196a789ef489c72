//! How a SCSI command ends (SAM-5, SPC-4).

use libc::c_int;
use std::fmt;

/// Why a command ended with `CHECK CONDITION`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sense {
    /// The sense key.
    pub key: u8,
    /// The additional sense code and its qualifier.
    pub code: u16,
}

impl Sense {
    /// The unit has something to say (it was reset, it has another size); the command was not begun.
    pub const UNIT_ATTENTION: u8 = 6;
    /// The unit cannot be used now.
    pub const NOT_READY: u8 = 2;
    /// The command means nothing to the unit.
    pub const ILLEGAL_REQUEST: u8 = 5;
    /// The unit is protected against that.
    pub const DATA_PROTECT: u8 = 7;
    /// The target gave the command up.
    pub const ABORTED_COMMAND: u8 = 11;
    /// A thin unit has no room left.
    pub const NO_SPACE: u16 = 0x2707;
    /// Additional sense codes of `UNIT_ATTENTION`, whatever their qualifier: the unit was reset, or another initiator has
    /// had its commands cleared.
    const RESETS: [u8; 2] = [0x29, 0x2f];

    /// Whether the unit says that commands may have vanished, and what it had not made durable with them.
    pub fn tells_of_a_reset(self) -> bool {
        let [code, _qualifier] = self.code.to_be_bytes();
        self.key == Self::UNIT_ATTENTION && Self::RESETS.contains(&code)
    }
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was carried out.
    Good,
    /// It was not, for a reason.
    Check(Sense),
    /// Another initiator's reservation forbids it.
    ReservationConflict,
    /// The target has too much to do.
    Busy,
    /// The unit was reset, or another initiator has had it aborted: it may have been carried out.
    Aborted,
    /// The connection was lost: it may have been carried out.
    Lost,
    /// Another status of the standard.
    Other(u8),
}

impl Outcome {
    /// Of the library's status and what it has read of the sense.
    pub(crate) fn of(status: c_int, sense: Sense) -> Self {
        match status {
            0x00 => Self::Good,
            0x02 => Self::Check(sense),
            0x18 => Self::ReservationConflict,
            0x08 | 0x28 => Self::Busy,
            0x40 => Self::Aborted,
            other => u8::try_from(other).map_or(Self::Lost, Self::Other),
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Good => f.write_str("done"),
            Self::Check(Sense { key, code }) => {
                write!(f, "refused with sense key {key:#x}, code {code:#06x}")
            }
            Self::ReservationConflict => f.write_str("another initiator has reserved the unit"),
            Self::Busy => f.write_str("the target is busy"),
            Self::Aborted => f.write_str("it was aborted"),
            Self::Lost => f.write_str("the connection was lost"),
            Self::Other(status) => write!(f, "SCSI status {status:#x}"),
        }
    }
}
