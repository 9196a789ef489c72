//! The session with the other host, as the task of a VM's disks knows it.

use handoff::IncomingClient;
use std::collections::BTreeSet;

/// A session that stands, or none.
#[derive(Default)]
pub(super) struct Session {
    stands: bool,
    claims: u64,
    /// The disks of the unit as the other host lists them.
    listed: Option<Vec<u128>>,
    /// The places of the disks of which the peer has said if it has a client.
    known: BTreeSet<usize>,
}

impl Session {
    /// One has begun, or ended.
    pub(super) fn changes(&mut self, stands: bool) {
        *self = Self {
            stands,
            claims: self.claims + 1,
            ..Self::default()
        };
    }

    /// Whether one stands.
    pub(super) fn stands(&self) -> bool {
        self.stands
    }

    /// Names the claim that the peer may have made: another one after that has ended.
    pub(super) fn claim(&self) -> u64 {
        self.claims
    }

    /// What the peer has claimed nobody waits for any more.
    pub(super) fn claim_ends(&mut self) {
        self.claims += 1;
    }

    /// The peer lists these disks as a unit.
    pub(super) fn lists(&mut self, disks: Vec<u128>) {
        self.listed = Some(disks);
    }

    /// The disks that the peer lists as a unit, if it has said so.
    pub(super) fn listed(&self) -> Option<&[u128]> {
        self.listed.as_deref()
    }

    /// What it means that the peer has a client of the disk at this place now, or none. One that is not there when a
    /// session begins went without a word: with its daemon.
    pub(super) fn says_of_client(&mut self, at: usize, is_there: bool) -> IncomingClient {
        let is_new = self.known.insert(at);
        match (is_there, is_new) {
            (true, _) => IncomingClient::Came,
            (false, false) => IncomingClient::Gone,
            (false, true) => IncomingClient::Lost,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_is_not_there_when_a_session_begins_was_lost_and_has_not_gone() {
        let mut session = Session::default();
        session.changes(true);
        assert_eq!(session.says_of_client(0, true), IncomingClient::Came);
        assert_eq!(session.says_of_client(0, false), IncomingClient::Gone);
        session.changes(false);
        session.changes(true);
        assert_eq!(session.says_of_client(0, false), IncomingClient::Lost);
        assert_eq!(session.says_of_client(0, false), IncomingClient::Gone);
        assert_eq!(session.says_of_client(1, false), IncomingClient::Lost);
    }
}
