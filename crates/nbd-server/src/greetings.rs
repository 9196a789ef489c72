//! Handshakes under way: a bounded number, and when there are too many, whose is ended.
//!
//! A client that connects and says nothing takes a place until its time is up. So there is a bound, and
//! beyond it the newest comes in and another one goes: the oldest of the peer that has the most. Who
//! opens hundreds puts out his own; who opens one is done long before he is the oldest.

use crate::limits::HANDSHAKES_MAX;
use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::oneshot;

/// Who a client is, as far as it cannot choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    /// A process of this host.
    Process(Option<i32>, u32),
    /// Another host.
    Host(IpAddr),
    /// The system does not say.
    Unknown,
}

/// The handshakes under way, oldest first. Cloning shares them; a lock serves, since none is held
/// across a wait.
#[derive(Clone, Default)]
pub(crate) struct Greetings {
    entries: Arc<Mutex<Entries>>,
}

#[derive(Default)]
struct Entries {
    next: u64,
    open: Vec<Entry>,
}

struct Entry {
    number: u64,
    peer: Peer,
    /// Dropped to end it.
    _end: oneshot::Sender<()>,
}

/// A handshake's place; free again when it is dropped.
pub(crate) struct Greeting {
    greetings: Greetings,
    number: u64,
    ended: oneshot::Receiver<()>,
}

impl Greetings {
    /// A place for a handshake. If there is none, another handshake is ended.
    pub(crate) fn begin(&self, peer: Peer) -> Greeting {
        let (end, ended) = oneshot::channel();
        let mut entries = self.lock();
        if entries.open.len() >= HANDSHAKES_MAX {
            let victim = victim(&entries.open);
            entries.open.remove(victim);
        }
        let number = entries.next;
        entries.next += 1;
        entries.open.push(Entry {
            number,
            peer,
            _end: end,
        });
        Greeting {
            greetings: self.clone(),
            number,
            ended,
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The oldest of the peer that has the most; of several such peers, the oldest of all.
fn victim(open: &[Entry]) -> usize {
    let count = |peer: Peer| open.iter().filter(|entry| entry.peer == peer).count();
    let most = open.iter().map(|entry| count(entry.peer)).max();
    let is_one = |entry: &Entry| Some(count(entry.peer)) == most;
    open.iter().position(is_one).unwrap_or(0)
}

impl Greeting {
    /// Waits until it is ended to make place for another one.
    pub(crate) async fn is_ended(&mut self) {
        // Nothing is ever sent: the sender goes.
        let _gone = (&mut self.ended).await;
    }
}

impl Drop for Greeting {
    fn drop(&mut self) {
        let number = self.number;
        self.greetings
            .lock()
            .open
            .retain(|entry| entry.number != number);
    }
}

impl fmt::Debug for Greeting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Greeting({})", self.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_ended(greeting: &mut Greeting) -> bool {
        greeting.ended.try_recv() == Err(oneshot::error::TryRecvError::Closed)
    }

    #[test]
    fn who_has_the_most_handshakes_loses_its_oldest() {
        let greetings = Greetings::default();
        let (honest, greedy) = (Peer::Process(Some(1), 7), Peer::Process(Some(2), 7));
        let mut first = greetings.begin(honest);
        let mut many: Vec<Greeting> = (1..HANDSHAKES_MAX)
            .map(|_| greetings.begin(greedy))
            .collect();
        assert!(!many.iter_mut().any(is_ended));
        many.push(greetings.begin(greedy));
        let mut late = greetings.begin(honest);
        assert!(!is_ended(&mut first) && !is_ended(&mut late));
        let ended: Vec<bool> = many.iter_mut().map(is_ended).collect();
        assert_eq!(ended.iter().filter(|ended| **ended).count(), 2);
        assert!(ended[0] && ended[1], "the oldest go");
    }

    #[test]
    fn a_handshake_that_is_over_leaves_its_place() {
        let greetings = Greetings::default();
        drop(greetings.begin(Peer::Unknown));
        assert!(greetings.lock().open.is_empty());
    }
}
