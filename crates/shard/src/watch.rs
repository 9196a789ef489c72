//! Looking at the rings of guests while the thread is awake.
//!
//! A guest whose ring was found empty is not asked to kick at once: its next request is likely to
//! come soon, and while the thread is awake it sees that itself. That spares the guest a kick (of a
//! VM: leaving the guest) and us a poll, a wake-up and the reading of a counter.
//!
//! ```text
//!  polled, empty ─► watched ─┬─ a request ─► polled
//!                            └─ quiet for TURNS_MAX turns, or the thread sleeps ─► asked to kick
//! ```
//!
//! Invariant: the thread never sleeps while a guest of which it has not asked to be kicked may put a
//! request into its ring.

use crate::clients::Client;
use crate::run::Shard;
use ring::Watch;
use slab::Slab;

/// Turns without a request after which a guest has to kick: while one guest is busy, a hundred that
/// have become quiet are not looked at for ever.
const TURNS_MAX: u32 = 64;

/// A client whose rings are looked at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Watched {
    client: usize,
    /// Without a request.
    turns: u32,
}

/// The rings that are looked at.
pub(crate) struct Rings<'a> {
    clients: &'a mut Slab<Client>,
    watched: &'a mut Vec<Watched>,
}

impl<'a> Rings<'a> {
    pub(crate) fn new(clients: &'a mut Slab<Client>, watched: &'a mut Vec<Watched>) -> Self {
        Self { clients, watched }
    }
}

fn has_work(clients: &mut Slab<Client>, one: &Watched) -> bool {
    let client = clients.get_mut(one.client);
    let quiet = client.and_then(|client| client.connection.quiet());
    quiet.is_some_and(|vhost| vhost.has_work())
}

impl Watch for Rings<'_> {
    fn has_work(&mut self) -> bool {
        self.watched.iter().any(|one| has_work(self.clients, one))
    }

    fn rest(&mut self) -> bool {
        let mut found = false;
        for one in self.watched.iter() {
            let client = self.clients.get_mut(one.client);
            let quiet = client.and_then(|client| client.connection.quiet());
            found |= quiet.is_some_and(vhost_user::Connection::rest);
        }
        found
    }
}

impl Shard {
    /// After a client was polled: its rings are looked at from now on if they are quiet.
    pub(crate) fn watch_client(&mut self, client: usize) {
        let Some(known) = self.clients.get_mut(client) else {
            return;
        };
        if !known.watched && known.connection.quiet().is_some() {
            known.watched = true;
            self.watched.push(Watched { client, turns: 0 });
        }
    }

    /// Lists the clients in whose rings there is something, and lets go of those that are quiet for
    /// long or have been asked to kick.
    pub(crate) fn look_at_rings(&mut self) {
        let mut watched = std::mem::take(&mut self.watched);
        watched.retain_mut(|one| self.look_at(one));
        self.watched = watched;
    }

    /// Whether it goes on being watched.
    fn look_at(&mut self, one: &mut Watched) -> bool {
        let Some(client) = self.clients.get_mut(one.client) else {
            return false;
        };
        one.turns += 1;
        let (has_work, stays) = match client.connection.quiet() {
            Some(vhost) if vhost.has_work() => {
                one.turns = 0;
                (true, true)
            }
            Some(vhost) if one.turns >= TURNS_MAX => (vhost.rest(), false),
            Some(_) => (false, true),
            // It was asked to kick, which may have shown that something had come.
            None => (
                client
                    .connection
                    .vhost()
                    .is_some_and(vhost_user::Connection::is_pending),
                false,
            ),
        };
        if !stays {
            client.watched = false;
        }
        if has_work {
            self.touch(one.client);
        }
        stays
    }
}
