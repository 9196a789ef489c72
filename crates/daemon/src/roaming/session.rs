//! The session with the other host, as the task of a disk knows it.

use handoff::IncomingClient;

/// A session that stands, or none.
#[derive(Default)]
pub(super) struct Session {
    stands: bool,
    number: u64,
    /// Whether the peer has said if it has a client.
    knows_client: bool,
}

impl Session {
    /// One has begun, or ended.
    pub(super) fn changes(&mut self, stands: bool) {
        self.stands = stands;
        self.number += 1;
        self.knows_client = false;
    }

    /// Whether one stands.
    pub(super) fn stands(&self) -> bool {
        self.stands
    }

    /// How many have begun or ended.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// What it means that the peer has a client now, or none. One that is not there when a session begins went without a
    /// word: with its daemon.
    pub(super) fn says_of_client(&mut self, is_there: bool) -> IncomingClient {
        let knew = std::mem::replace(&mut self.knows_client, true);
        match (is_there, knew) {
            (true, _) => IncomingClient::Came,
            (false, true) => IncomingClient::Gone,
            (false, false) => IncomingClient::Lost,
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
        assert_eq!(session.says_of_client(true), IncomingClient::Came);
        assert_eq!(session.says_of_client(false), IncomingClient::Gone);
        session.changes(false);
        session.changes(true);
        assert_eq!(session.says_of_client(false), IncomingClient::Lost);
        assert_eq!(session.says_of_client(false), IncomingClient::Gone);
    }
}
