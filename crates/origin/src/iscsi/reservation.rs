//! A unit's persistent reservation: whoever has it is the only one that writes.
//!
//! ```text
//!   reservation           so
//!   none                  register our key, reserve
//!   our key               it is ours since a former session, perhaps under another name of this host
//!   another key           refuse: in use; by an operator's word preempt it, and abort what its host has under way
//!   the target has none   go on without, and say so
//! ```

use super::key::Key;
use libiscsi::cdb::{self, Reserve};
use libiscsi::{Error, Outcome, Sense, Session};

/// Why a unit is not ours.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoReservation {
    /// Another host has it.
    #[error("the host with the reservation key {0:#018x}")]
    InUse(u64),
    /// The target refuses.
    #[error(transparent)]
    Failed(#[from] Error),
}

/// Whether a unit is reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reserved {
    /// Nobody had it.
    Newly,
    /// A former session of this host had it, or another host from which it was taken.
    Before,
    /// The target knows no reservations.
    Unsupported,
}

/// Takes the unit for writing.
pub(super) fn take(session: &mut Session, key: Key) -> Result<Reserved, NoReservation> {
    let holder = match holder(session) {
        Ok(holder) => holder,
        Err(Error::Failed { outcome, .. }) if is_unknown(outcome) => {
            return Ok(Reserved::Unsupported);
        }
        Err(error) => return Err(error.into()),
    };
    let other = holder.filter(|holder| *holder != key.own);
    if let Some(other) = other
        && !key.takes_from_anybody
    {
        return Err(NoReservation::InUse(other));
    }
    let own = key.own;
    reserve(session, "registering", Reserve::Register { key: own })?;
    let other = match other {
        Some(other) => other,
        None => match reserve(session, "reserving the unit", Reserve::Reserve { key: own }) {
            Err(Error::Failed {
                outcome: Outcome::ReservationConflict,
                ..
            }) => own,
            reserved if holder.is_none() => return Ok(reserved.map(|()| Reserved::Newly)?),
            reserved => return Ok(reserved.map(|()| Reserved::Before)?),
        },
    };
    preempt(session, own, other)?;
    // Who preempts a key that has no reservation is told that all is well: another host may have been quicker.
    match self::holder(session)? {
        Some(quicker) if quicker != own => Err(NoReservation::InUse(quicker)),
        _ => Ok(Reserved::Before),
    }
}

/// Whose key the unit is reserved with, if it is.
fn holder(session: &mut Session) -> Result<Option<u64>, Error> {
    let mut answer = [0; cdb::ANSWER_BYTES as usize];
    let length = session.ask("its reservation", cdb::reservation(), &mut answer)?;
    Ok(cdb::reservation_key(&answer[..length]))
}

/// Takes the unit from the host with another key. A target need not know how to abort what that host has under way: the
/// reset that follows ends that, too.
fn preempt(session: &mut Session, key: u64, other: u64) -> Result<(), Error> {
    let what = "taking the unit";
    match reserve(session, what, Reserve::PreemptAndAbort { key, other }) {
        Err(Error::Failed { outcome, .. }) if is_unknown(outcome) => {
            reserve(session, what, Reserve::Preempt { key, other })
        }
        taken => taken,
    }
}

/// Gives the unit back.
pub(super) fn give_back(session: &mut Session, key: u64) -> Result<(), Error> {
    reserve(session, "giving the unit back", Reserve::Release { key })?;
    reserve(session, "leaving", Reserve::Register { key: 0 })
}

fn reserve(session: &mut Session, what: &'static str, service: Reserve) -> Result<(), Error> {
    session.tell(what, service.cdb(), &mut service.data())
}

fn is_unknown(outcome: Outcome) -> bool {
    matches!(
        outcome,
        Outcome::Check(Sense {
            key: Sense::ILLEGAL_REQUEST,
            ..
        })
    )
}
