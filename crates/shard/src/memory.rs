//! The memory budget of a shard's clients: who was granted room goes on, and who keeps memory that
//! others wait for without doing its part is cut off.
//!
//! ```text
//!   a request waits ─► look, every LOOK ─┬─ a client owes, and has done nothing since ─► cut off
//!                                        └─ else ─► again, while one waits
//! ```
//!
//! A client owes the rest of a payload that it announced, or has to receive answers. An honest one
//! does so at the speed of its connection. Nobody is cut off while there is room for all.

use crate::run::Shard;
use frontend::limits::STALL_TIME_MAX;
use units::{Duration, Instant};

/// Between two looks at who owes.
const LOOK: Duration = Duration::from_secs(1);

/// When the next look is due; none while nobody waits for memory.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MemoryWatch {
    next: Option<Instant>,
    /// Filled and emptied within a call.
    looks: u64,
}

/// What a client was seen to owe, and since when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Debt {
    progress: u64,
    since: Instant,
    look: u64,
}

impl Debt {
    /// The debt after another look at it, `look` being that look's number.
    fn after(before: Option<Self>, progress: u64, look: u64, now: Instant) -> Self {
        let same = before.filter(|debt| debt.progress == progress && debt.look + 1 == look);
        Self {
            progress,
            since: same.map_or(now, |debt| debt.since),
            look,
        }
    }
}

impl Shard {
    /// Lists the clients that were granted room to be polled.
    pub(crate) fn touch_granted(&mut self) {
        let mut granted = std::mem::take(&mut self.scratch.granted);
        self.memory.take_granted(&mut granted);
        for account in granted.drain(..) {
            let mut clients = self.clients.iter();
            let found = clients.find(|(_, client)| client.connection.account().id() == account);
            if let Some(client) = found.map(|(key, _)| key) {
                self.touch(client);
            }
        }
        self.scratch.granted = granted;
        if self.memory_watch.next.is_none() && self.memory.is_short() {
            self.memory_watch.next = Some(self.now + LOOK);
        }
    }

    /// When the next look at who owes is due.
    pub(crate) fn next_memory_look(&self) -> Option<Instant> {
        self.memory_watch.next
    }

    /// Cuts off clients that keep memory others wait for.
    pub(crate) fn watch_memory(&mut self) {
        if self.memory_watch.next.is_none_or(|next| next > self.now) {
            return;
        }
        if !self.memory.is_short() {
            self.memory_watch.next = None;
            return;
        }
        self.memory_watch.next = Some(self.now + LOOK);
        self.memory_watch.looks += 1;
        let (now, look) = (self.now, self.memory_watch.looks);
        let mut late = Vec::new();
        for (key, client) in &mut self.clients {
            let debt = client.connection.debt();
            client.debt = debt.map(|progress| Debt::after(client.debt, progress, look, now));
            if client
                .debt
                .is_some_and(|debt| now - debt.since >= STALL_TIME_MAX)
            {
                late.push(key);
            }
        }
        for key in late {
            self.cut_off(key);
        }
    }

    fn cut_off(&mut self, key: usize) {
        let client = &mut self.clients[key];
        let disk = self.disks[client.disk.index()].as_ref();
        let disk = disk.map_or("", |disk| disk.spec.name.as_str());
        let front_end = client.front_end();
        tracing::warn!(
            disk,
            "an {front_end} client was cut off: it kept memory that others wait for, and did \
            not send or receive for {STALL_TIME_MAX}"
        );
        client.connection.cut_off();
        self.memory.count_closed();
        self.touch(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_debt_grows_old_only_while_nothing_is_done_about_it() {
        let at = |seconds| Instant::ZERO + Duration::from_secs(seconds);
        let first = Debt::after(None, 7, 1, at(1));
        let same = Debt::after(Some(first), 7, 2, at(2));
        assert_eq!(same.since, at(1));
        assert_eq!(Debt::after(Some(same), 8, 3, at(3)).since, at(3));
        // Nobody looked in between: there was room for all.
        assert_eq!(Debt::after(Some(same), 7, 9, at(9)).since, at(9));
    }
}
