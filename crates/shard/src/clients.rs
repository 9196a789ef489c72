//! The clients of a shard, which of them are to be polled, and whose queues are looked at.
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
//! Invariants:
//! - The thread never sleeps while a guest of which it has not asked to be kicked may put a request
//!   into its ring.
//! - A client is listed at most once among those that are to be polled, and among the watched.

use crate::client::{Client, Place};
use crate::error::ShardError;
use crate::memory::ClientMemory;
use crate::status::FrontEndStatus;
use block_io::{IoError, Payload};
use events::EventKind;
use frontend::limits::STALL_TIME_MAX;
use frontend::{Counters, FrontEnd, Incoming, PolledQueues, RequestKey, Reservation};
use ring::Watch;
use slab::Slab;
use units::{Bytes, DiskSlot, Instant, TenantSlot};

/// Turns without a request after which a guest has to kick: while one guest is busy, a hundred that
/// have become quiet are not looked at for ever.
const TURNS_MAX: u32 = 64;

/// All clients, by key.
#[derive(Default)]
pub(crate) struct Clients {
    table: Slab<Entry>,
    /// To be polled.
    touched: Vec<usize>,
    watched: Vec<Watched>,
}

struct Entry {
    client: Client,
    is_touched: bool,
    is_watched: bool,
}

/// A client whose queues are looked at.
#[derive(Clone, Copy, Debug)]
struct Watched {
    client: usize,
    /// Without a request.
    turns: u32,
}

impl Clients {
    /// Adds one, to be polled.
    pub(crate) fn insert(&mut self, client: Client) -> usize {
        let key = self.table.insert(Entry {
            client,
            is_touched: false,
            is_watched: false,
        });
        self.touch(key);
        key
    }

    /// # Panics
    /// If there is no such client.
    pub(crate) fn remove(&mut self, key: usize) -> Client {
        self.table.remove(key).client
    }

    /// # Panics
    /// If there is no such client.
    pub(crate) fn get(&self, key: usize) -> &Client {
        &self.table[key].client
    }

    /// # Panics
    /// If there is no such client.
    pub(crate) fn get_mut(&mut self, key: usize) -> &mut Client {
        &mut self.table[key].client
    }

    /// Lists a client to be polled, if it is still there.
    pub(crate) fn touch(&mut self, key: usize) {
        if let Some(known) = self.table.get_mut(key)
            && !std::mem::replace(&mut known.is_touched, true)
        {
            self.touched.push(key);
        }
    }

    /// Lists all clients of a disk.
    pub(crate) fn touch_all_of(&mut self, disk: impl Into<Place>) {
        let place = disk.into();
        for (key, known) in &mut self.table {
            if known.client.place() == place && !std::mem::replace(&mut known.is_touched, true) {
                self.touched.push(key);
            }
        }
    }

    /// Lists the client whose account this is.
    pub(crate) fn touch_account(&mut self, account: usize) {
        let mut all = self.table.iter();
        let found = all.find(|(_, known)| known.client.connection().account().id() == account);
        if let Some((key, _)) = found {
            self.touch(key);
        }
    }

    pub(crate) fn has_touched(&self) -> bool {
        !self.touched.is_empty()
    }

    /// Those that are listed now, for [`Clients::begin_poll`] of each; the emptied vector comes back
    /// with [`Clients::give_back`].
    pub(crate) fn take_touched(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.touched)
    }

    pub(crate) fn give_back(&mut self, emptied: Vec<usize>) {
        if self.touched.is_empty() {
            self.touched = emptied;
        }
    }

    /// A client that was listed, to be polled now, if it is still there.
    pub(crate) fn begin_poll(&mut self, key: usize) -> Option<&mut Client> {
        let known = self.table.get_mut(key)?;
        known.is_touched = false;
        Some(&mut known.client)
    }

    /// Refuses a client whose front end is not that of the clients which are at this place.
    pub(crate) fn refuse_both(&self, place: Place, wanted: FrontEnd) -> Result<(), ShardError> {
        let mut others = self.of(place).map(Client::front_end);
        match others.find(|other| *other != wanted) {
            Some(other) => Err(ShardError::OtherFrontEnd(other)),
            None => Ok(()),
        }
    }

    /// The disk of these clients has come or gone.
    pub(crate) fn move_all(&mut self, from: Place, to: Place, vm: Option<TenantSlot>) {
        for (_, known) in &mut self.table {
            if known.client.place() == from {
                known.client.move_to(to, vm);
            }
        }
    }

    /// Answers a request. The connection may have another one at once.
    pub(crate) fn answer(
        &mut self,
        key: usize,
        request: RequestKey,
        result: Result<Payload, IoError>,
    ) -> Option<Incoming> {
        let more = self.get_mut(key).connection_mut().reply(request, result);
        self.touch(key);
        more
    }

    /// The clients of a disk.
    pub(crate) fn of(&self, disk: impl Into<Place>) -> impl Iterator<Item = &Client> {
        let place = disk.into();
        let all = self.table.iter().map(|(_, known)| &known.client);
        all.filter(move |client| client.place() == place)
    }

    /// The reservation of a disk that a VM's connections share.
    pub(crate) fn reservation_of(
        &self,
        disk: impl Into<Place>,
        vm: Option<TenantSlot>,
    ) -> Reservation {
        let mut theirs = self.of(disk).filter(|client| client.vm() == vm);
        let shared = theirs.next().map(|client| client.reservation().clone());
        shared.unwrap_or_default()
    }

    /// A disk has grown, by whole blocks.
    pub(crate) fn resize(&mut self, disk: impl Into<Place>, size: Bytes) {
        let place = disk.into();
        for (_, known) in &mut self.table {
            if known.client.place() == place {
                known.client.connection_mut().resize(size);
            }
        }
        self.touch_all_of(place);
    }

    /// Closes the clients of a disk, which have this long to receive their answers.
    pub(crate) fn close(&mut self, disk: impl Into<Place>, farewell: Instant) {
        let place = disk.into();
        for (_, known) in &mut self.table {
            if known.client.place() == place {
                known.client.close(farewell);
            }
        }
        self.touch_all_of(place);
    }

    /// Closed clients that have had all the time they get, and have nothing at their disk.
    pub(crate) fn silent(&self, now: Instant) -> Vec<usize> {
        let late = |client: &Client| {
            let overdue = client.farewell().is_some_and(|farewell| farewell <= now);
            overdue && client.connection().in_flight() == 0
        };
        let silent = self.table.iter().filter(|(_, known)| late(&known.client));
        silent.map(|(key, _)| key).collect()
    }

    /// When the time of the next closed client ends. One that has passed waits for its disk.
    pub(crate) fn next_farewell(&self, now: Instant) -> Option<Instant> {
        let all = self.table.iter();
        let farewells = all.filter_map(|(_, known)| known.client.farewell());
        farewells.filter(|farewell| *farewell > now).min()
    }

    /// Cuts off clients that keep memory others wait for, if it is time for a look at who owes.
    pub(crate) fn cut_off_stalled<'a>(
        &mut self,
        memory: &mut ClientMemory,
        names: impl Fn(DiskSlot) -> Option<&'a str>,
        now: Instant,
    ) {
        let Some(look) = memory.take_look(now) else {
            return;
        };
        for (key, known) in &mut self.table {
            let client = &mut known.client;
            if !client.is_stalled(look, now) {
                continue;
            }
            let disk = client.disk().and_then(&names).unwrap_or_default();
            let front_end = client.front_end();
            tracing::warn!(
                event = EventKind::ClientCut.word(),
                disk,
                "an {front_end} client was cut off: it kept memory that others wait for, and did \
                not send or receive for {STALL_TIME_MAX}"
            );
            client.connection_mut().cut_off();
            memory.count_closed();
            if !std::mem::replace(&mut known.is_touched, true) {
                self.touched.push(key);
            }
        }
    }

    /// What a disk's connections are like, by front end, with what earlier ones have counted.
    pub(crate) fn status_of(
        &self,
        disk: DiskSlot,
        before: &[(FrontEnd, Counters)],
    ) -> Vec<FrontEndStatus> {
        let unused =
            |(front_end, counters): &(FrontEnd, _)| FrontEndStatus::unused(*front_end, *counters);
        let mut all: Vec<FrontEndStatus> = before.iter().map(unused).collect();
        for client in self.of(disk) {
            let front_end = client.front_end();
            let known = all.iter().position(|one| one.front_end == front_end);
            let at = known.unwrap_or_else(|| {
                all.push(FrontEndStatus::unused(front_end, Counters::default()));
                all.len() - 1
            });
            all[at].add(
                client.connection().report(),
                client.connection().in_flight(),
            );
        }
        all
    }

    /// A client was polled and has quiet queues: they are looked at from now on.
    pub(crate) fn watch(&mut self, key: usize) {
        if let Some(known) = self.table.get_mut(key)
            && !std::mem::replace(&mut known.is_watched, true)
        {
            let turns = 0;
            self.watched.push(Watched { client: key, turns });
        }
    }

    /// Lists the clients in whose queues there is something, and lets go of those that are quiet for
    /// long or have been asked to kick.
    pub(crate) fn look_at_queues(&mut self) {
        let mut watched = std::mem::take(&mut self.watched);
        watched.retain_mut(|one| self.look_at(one));
        self.watched = watched;
    }

    /// Whether it goes on being watched.
    fn look_at(&mut self, one: &mut Watched) -> bool {
        let Some(known) = self.table.get_mut(one.client) else {
            return false;
        };
        let Some(queues) = known.client.connection_mut().polled_queues() else {
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
        known.is_watched = stays;
        if has_work {
            self.touch(one.client);
        }
        stays
    }
}

/// The queues of a watched client, if they are still looked at.
fn quiet<'a>(table: &'a mut Slab<Entry>, one: &Watched) -> Option<&'a mut dyn PolledQueues> {
    table.get_mut(one.client)?.client.quiet_queues()
}

impl Watch for Clients {
    fn has_work(&mut self) -> bool {
        let mut watched = self.watched.iter();
        watched.any(|one| quiet(&mut self.table, one).is_some_and(|queues| queues.has_work()))
    }

    fn rest(&mut self) -> bool {
        let mut found = false;
        for one in &self.watched {
            found |= quiet(&mut self.table, one).is_some_and(PolledQueues::rest);
        }
        found
    }
}
