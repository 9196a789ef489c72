//! What the guest exchanges with whom: from counts of connections to bytes of addresses since the host was told last.
//!
//! Counts grow as long as a connection lives, so each look is told from the one before. Of what there is at the first
//! look nothing counts: nobody knows since when those connections live.
//!
//! Invariants:
//! - A byte of a connection that is seen, or told of when it ends, counts once.
//! - [`CONNECTIONS_MAX`] connections and [`PEERS_MAX`] addresses are kept at most; of more, the addresses with the fewest bytes go.

use crate::netlink::Connection;
use guest_protocol::{Message, SOCKETS_MAX, Socket};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// Connections that are told from the look before: 1 MiB. Those beyond do not count.
const CONNECTIONS_MAX: usize = 16_384;
/// Addresses that wait to be told to the host.
const PEERS_MAX: usize = 4_096;
/// Frames in which the host is told at once: with the agent's others far below what it takes of a guest in a second.
const FRAMES_AT_ONCE: usize = 4;

/// The counts of the last look, and what the host is still to be told.
#[derive(Debug, Default)]
pub(crate) struct Peers {
    /// Bytes of each connection by its cookie; none before the first look.
    known: Option<BTreeMap<u64, u64>>,
    /// Those of the look before that are no longer there: that they ended may be told late.
    gone: BTreeMap<u64, u64>,
    /// The guest's own addresses, as far as connections have them.
    own: BTreeSet<IpAddr>,
    /// Bytes by address that the host is to be told.
    waiting: BTreeMap<IpAddr, u64>,
}

impl Peers {
    /// From now on counts what is carried after this look.
    pub(crate) fn begin_anew(&mut self, seen: &[Connection]) {
        *self = Self::default();
        self.look(seen);
    }

    /// These connections there are now. False: they are more than are kept.
    pub(crate) fn look(&mut self, seen: &[Connection]) -> bool {
        self.own = seen.iter().map(|connection| connection.own).collect();
        let before = self.known.take();
        let kept = seen.iter().take(CONNECTIONS_MAX);
        let counts: BTreeMap<u64, u64> = kept
            .clone()
            .map(|connection| (connection.cookie, connection.bytes))
            .collect();
        if let Some(mut before) = before {
            for connection in kept {
                let counted = before.remove(&connection.cookie);
                self.add(connection, counted.unwrap_or_default());
            }
            self.gone = before;
        }
        self.known = Some(counts);
        self.shorten();
        seen.len() <= CONNECTIONS_MAX
    }

    /// These connections have ended, with their last counts.
    pub(crate) fn end(&mut self, ended: &[Connection]) {
        let Some(mut known) = self.known.take() else {
            return;
        };
        self.own
            .extend(ended.iter().map(|connection| connection.own));
        for connection in ended {
            let cookie = connection.cookie;
            let counted = known.remove(&cookie).or_else(|| self.gone.remove(&cookie));
            self.add(connection, counted.unwrap_or_default());
        }
        self.known = Some(known);
        self.shorten();
    }

    /// Adds what a connection has carried beyond what was counted of it; within the guest that is nobody's business.
    fn add(&mut self, connection: &Connection, counted: u64) {
        let Connection { peer, bytes, .. } = *connection;
        let carried = bytes.saturating_sub(counted);
        if carried == 0 || peer.is_loopback() || peer.is_unspecified() || self.own.contains(&peer) {
            return;
        }
        let sum = self.waiting.entry(peer).or_default();
        *sum = sum.saturating_add(carried);
    }

    /// Lets the addresses with the fewest bytes go, if they are too many.
    fn shorten(&mut self) {
        if self.waiting.len() > PEERS_MAX {
            self.waiting = self.largest().into_iter().take(PEERS_MAX).collect();
        }
    }

    fn largest(&self) -> Vec<(IpAddr, u64)> {
        let mut peers: Vec<(IpAddr, u64)> = self
            .waiting
            .iter()
            .map(|(peer, bytes)| (*peer, *bytes))
            .collect();
        peers.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
        peers
    }

    /// What the host is told now, the largest first; the rest waits. One that has nothing to say says so, since the host
    /// counts the time from one message to the next.
    pub(crate) fn tell(&mut self) -> Vec<Message> {
        let mut told = self.largest();
        told.truncate(FRAMES_AT_ONCE * SOCKETS_MAX);
        for (peer, _) in &told {
            self.waiting.remove(peer);
        }
        if told.is_empty() {
            return vec![Message::Sockets(Vec::new())];
        }
        let frames = told.chunks(SOCKETS_MAX).map(|some| {
            let sockets = some.iter().map(|(peer, bytes)| Socket {
                peer: match peer {
                    IpAddr::V4(peer) => peer.to_ipv6_mapped(),
                    IpAddr::V6(peer) => *peer,
                },
                bytes: *bytes,
            });
            Message::Sockets(sockets.collect())
        });
        frames.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv6Addr;

    fn connection(cookie: u64, peer: &str, bytes: u64) -> Connection {
        Connection {
            cookie,
            own: "10.0.0.1".parse().unwrap(),
            peer: peer.parse().unwrap(),
            bytes,
        }
    }

    fn told(peers: &mut Peers) -> Vec<(String, u64)> {
        let mut told = Vec::new();
        for message in peers.tell() {
            let Message::Sockets(sockets) = message else {
                panic!("{message:?}");
            };
            told.extend(sockets.iter().map(|socket| {
                let peer = socket.peer.to_canonical().to_string();
                (peer, socket.bytes)
            }));
        }
        told
    }

    fn begun(seen: &[Connection]) -> Peers {
        let mut peers = Peers::default();
        peers.begin_anew(seen);
        peers
    }

    #[test]
    fn what_was_carried_since_the_last_look_counts_by_address() {
        let mut peers = begun(&[connection(1, "10.0.0.2", 1_000)]);
        assert_eq!(told(&mut peers), []);
        peers.look(&[
            connection(1, "10.0.0.2", 1_500),
            connection(2, "10.0.0.2", 70),
            connection(3, "fd00::3", 9_000),
        ]);
        let expected = [("fd00::3".to_owned(), 9_000), ("10.0.0.2".to_owned(), 570)];
        assert_eq!(told(&mut peers), expected);
        assert_eq!(told(&mut peers), []);
    }

    #[test]
    fn an_ended_connection_counts_once_whenever_its_end_is_told() {
        let mut peers = begun(&[connection(1, "10.0.0.2", 1_000)]);
        // One that was known, and one that nobody has looked at.
        peers.end(&[
            connection(1, "10.0.0.2", 1_200),
            connection(2, "10.0.0.3", 40),
        ]);
        peers.look(&[connection(3, "10.0.0.4", 10)]);
        // Not there any more, and its end is told after the look.
        peers.look(&[]);
        peers.end(&[connection(3, "10.0.0.4", 16)]);
        let expected = [
            ("10.0.0.2".to_owned(), 200),
            ("10.0.0.3".to_owned(), 40),
            ("10.0.0.4".to_owned(), 16),
        ];
        assert_eq!(told(&mut peers), expected);
    }

    #[test]
    fn what_stays_within_the_guest_is_left_out() {
        let mut peers = begun(&[]);
        let mut other = connection(3, "10.0.0.1", 5);
        other.own = "10.0.0.7".parse().unwrap();
        let seen = [
            connection(1, "127.0.0.1", 5),
            connection(2, "10.0.0.7", 5),
            other,
            connection(4, "::1", 5),
        ];
        peers.look(&seen);
        assert_eq!(told(&mut peers), []);
        peers.look(&[]);
        peers.end(&seen.map(|mut connection| {
            connection.bytes += 100;
            connection
        }));
        assert_eq!(told(&mut peers), []);
    }

    #[test]
    fn a_new_beginning_forgets_what_waits() {
        let mut peers = begun(&[]);
        peers.look(&[connection(1, "10.0.0.2", 5)]);
        peers.begin_anew(&[connection(1, "10.0.0.2", 8)]);
        peers.look(&[connection(1, "10.0.0.2", 10)]);
        assert_eq!(told(&mut peers), [("10.0.0.2".to_owned(), 2)]);
    }

    #[test]
    fn many_addresses_are_told_the_largest_first_and_the_rest_later() {
        let many = |count: u64| {
            let of = |number: u64| Connection {
                cookie: number,
                own: "fd00::1".parse().unwrap(),
                peer: Ipv6Addr::from(u128::from(number) << 64).into(),
                bytes: number,
            };
            (1..=count).map(of).collect::<Vec<_>>()
        };
        let mut peers = begun(&[]);
        assert!(peers.look(&many(5_000)));
        let first = peers.tell();
        assert_eq!(first.len(), FRAMES_AT_ONCE);
        let Message::Sockets(largest) = &first[0] else {
            panic!("{first:?}");
        };
        assert_eq!((largest.len(), largest[0].bytes), (SOCKETS_MAX, 5_000));
        let mut rest = 0;
        while let more @ 1.. = told(&mut peers).len() {
            rest += more;
        }
        assert_eq!(rest + FRAMES_AT_ONCE * SOCKETS_MAX, PEERS_MAX);
        assert!(!peers.look(&many(CONNECTIONS_MAX as u64 + 1)));
    }
}
