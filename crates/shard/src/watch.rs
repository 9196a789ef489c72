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
use frontend::PolledQueues;
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

/// The queues of a client that are looked at, if there are any.
fn quiet<'a>(clients: &'a mut Slab<Client>, one: &Watched) -> Option<&'a mut dyn PolledQueues> {
    let client = clients.get_mut(one.client)?;
    let queues = client.connection.polled_queues()?;
    queues.is_quiet().then_some(queues)
}

impl Watch for Rings<'_> {
    fn has_work(&mut self) -> bool {
        let mut watched = self.watched.iter();
        watched.any(|one| quiet(self.clients, one).is_some_and(|queues| queues.has_work()))
    }

    fn rest(&mut self) -> bool {
        let mut found = false;
        for one in self.watched.iter() {
            found |= quiet(self.clients, one).is_some_and(PolledQueues::rest);
        }
        found
    }
}

impl Shard {
    /// After a client was polled and has quiet queues: they are looked at from now on.
    pub(crate) fn watch_client(&mut self, client: usize) {
        let Some(known) = self.clients.get_mut(client) else {
            return;
        };
        if !known.watched {
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
        let Some(queues) = client.connection.polled_queues() else {
            return false;
        };
        one.turns += 1;
        let (has_work, stays) = if !queues.is_quiet() {
            // The guest was asked to kick, which may have shown that something had come.
            (queues.is_pending(), false)
        } else if queues.has_work() {
            one.turns = 0;
            (true, true)
        } else if one.turns >= TURNS_MAX {
            (queues.rest(), false)
        } else {
            (false, true)
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
