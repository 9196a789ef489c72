//! What a host tells its [`Ownership`](crate::Ownership), and what that tells the host to do.

use crate::guard::{Guard, holds};
use crate::message::Message;

/// One of the two hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Holder {
    /// This one.
    Here,
    /// The other one.
    Peer,
}

/// What the owner's record of a unit says: the register of the hand-over. Its epoch only rises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Record {
    /// Whose the unit is.
    pub owner: Holder,
    /// Since which period.
    pub epoch: u64,
}

impl Record {
    /// What counts for a unit whose disks have these records, where there are any: the latest.
    pub fn of_unit(records: impl IntoIterator<Item = Self>) -> Option<Self> {
        records.into_iter().max_by_key(|record| record.epoch)
    }

    /// Whether a unit whose disks have these records is neither host's: some are one host's, and some the other's. A record
    /// of the first epoch is nobody's.
    pub fn are_split(records: impl IntoIterator<Item = Self>) -> bool {
        let (mut here, mut there) = (false, false);
        for record in records {
            match record.owner {
                Holder::Here => here |= record.epoch > 0,
                Holder::Peer => there = true,
            }
        }
        here && there
    }

    /// Whether a host may take a unit with this epoch whose disks have these records: all, or none of them.
    pub fn may_take(records: impl IntoIterator<Item = Self>, epoch: u64) -> bool {
        let is_ours = |record: Self| record.owner == Holder::Here && record.epoch <= epoch;
        let mut records = records.into_iter();
        if holds(Guard::OneDecision) {
            records.all(is_ours)
        } else {
            records.any(is_ours)
        }
    }
}

/// The durable decision of an owner to give a unit to its peer. It counts as long as the record is the one
/// that it was made under.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Decision {
    /// The epoch of the owner that decided.
    pub epoch: u64,
}

impl Decision {
    /// Whether a unit that gets this epoch gets it by this decision. What another one says of who has what the origins lack
    /// is of another log.
    pub fn gives(self, epoch: u64) -> bool {
        self.epoch + 1 == epoch || !holds(Guard::DecisionGivesOnce)
    }
}

/// What a host finds of a unit when its daemon starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Found {
    /// The owner's record, if there is one; of several disks the one with the latest epoch.
    pub record: Option<Record>,
    /// The last decision of this host.
    pub decision: Option<Decision>,
}

/// The connection of a guest that asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Client {
    /// It was not served as the owner's yet.
    New,
    /// It was served in the last epoch that this host had the unit in.
    Old,
}

/// What happens to a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// A guest here has a request that needs the ownership: a change, or the start of its rings.
    Asked(Client),
    /// A change of a guest here is about to be carried out.
    Changing,
    /// Guests here have waited as long as they may.
    PatienceEnded,
    /// It is time to try again what failed or was refused.
    Retry,
    /// A session with the peer has begun.
    Linked,
    /// The session has ended.
    LinkLost,
    /// The peer says something.
    Said {
        /// What.
        message: Message,
        /// For a claim: whether it is evident that no guest here runs any more.
        guest_has_stopped: bool,
    },
    /// [`Action::Settle`] has ended; after [`Action::Serve`] it does not.
    Settled(bool),
    /// [`Action::Close`] has ended.
    Closed,
    /// [`Action::Decide`] has ended. A decision that could not be noted may stand all the same.
    Decided(bool),
    /// [`Action::Record`] has ended. A record that could not be written may stand all the same.
    Recorded(bool),
    /// [`Action::Unlock`] has ended.
    Unlocked,
    /// [`Action::Take`] has ended.
    Taken(Result<(), TakeError>),
}

/// Why a unit could not be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TakeError {
    /// The record names another owner, or a later epoch.
    NotOurs,
    /// The origin or the record could not be reached. The record may name this host all the same.
    Failed,
}

/// What a host has to do. Of `Settle`, `Close`, `Decide`, `Record`, `Unlock` and `Take` one is under way at a
/// time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Say this to the peer, if a session is there.
    Send(Message),
    /// Let guests' requests wait, carry out those that are under way, bring what is dirty to the origin
    /// and flush that; no write that was given up may happen any more.
    Settle,
    /// Close the origin; keep its lock.
    Close,
    /// Note durably, on this host, that the unit goes to the peer.
    Decide(Decision),
    /// Let the record of each disk name the peer with this epoch, if it names this host with the one before
    /// it. Otherwise it does already, or has gone on from there.
    Record {
        /// The peer's epoch.
        epoch: u64,
    },
    /// Let go of the origin's lock.
    Unlock,
    /// Lock and open the origins. The record of each disk must name this host with this epoch or an earlier
    /// one; when all do they are made to have this one.
    Take {
        /// This host's epoch.
        epoch: u64,
    },
    /// Carry out guests' requests, also those that wait.
    Serve,
    /// Answer what guests wait for with errors.
    Fail,
    /// Answer everything from connections of earlier epochs with errors, for ever.
    EndOldClients,
}

#[cfg(all(test, feature = "mutants"))]
mod tests {
    use super::*;

    #[test]
    fn a_decision_gives_one_epoch() {
        let gives = |epoch| Decision { epoch: 7 }.gives(epoch);
        assert_eq!([7, 8, 9].map(gives), [false, true, false]);
        crate::guard::remove(Some(Guard::DecisionGivesOnce));
        let without = gives(9);
        crate::guard::remove(None);
        assert!(without);
    }
}
