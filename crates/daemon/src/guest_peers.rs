//! Whom a guest speaks with, by its agent's word: bytes by the address of the other end, since the first message of a
//! connection.
//!
//! The guest may lie. What it says is kept as its own, under the VM whose socket it is, and steers nothing here: whoever
//! plans a group's move asks for it. The other ends are addresses; whose they are is not looked at.
//!
//! Invariant: no more than [`PEERS_MAX`] addresses are kept of a VM. Of more, those with the fewest bytes go; their bytes are
//! counted.

use api::guests::{GuestPeer, GuestPeers, GuestTraffic};
use guest_protocol::Socket;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Instant;

/// Addresses that are kept of a VM: 64 KiB.
const PEERS_MAX: usize = 1_024;

/// What a guest has said over one connection.
#[derive(Debug, Default)]
pub(super) struct Peers {
    /// When its first and its last message came; none before the first.
    span: Option<(Instant, Instant)>,
    bytes: BTreeMap<IpAddr, u64>,
    dropped_bytes: u64,
}

impl Peers {
    /// A message has come. What the first one says was before, for nobody knows how long, and does not count.
    pub(super) fn take(&mut self, now: Instant, sockets: &[Socket]) {
        let Some((_, last)) = &mut self.span else {
            self.span = Some((now, now));
            return;
        };
        *last = now;
        for socket in sockets {
            let sum = self.bytes.entry(socket.peer.to_canonical()).or_default();
            *sum = sum.saturating_add(socket.bytes);
        }
        if self.bytes.len() > PEERS_MAX {
            self.drop_least();
        }
    }

    fn drop_least(&mut self) {
        let mut peers: Vec<(IpAddr, u64)> = std::mem::take(&mut self.bytes).into_iter().collect();
        peers.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
        for (_, bytes) in peers.drain(PEERS_MAX..) {
            self.dropped_bytes = self.dropped_bytes.saturating_add(bytes);
        }
        self.bytes = peers.into_iter().collect();
    }

    /// All of it in a few figures; none before the first message.
    pub(super) fn traffic(&self) -> Option<GuestTraffic> {
        let (first, last) = self.span?;
        let bytes = self.bytes.values();
        Some(GuestTraffic {
            peers: self.bytes.len() as u64,
            bytes: bytes.fold(0, |sum, bytes| sum.saturating_add(*bytes)),
            dropped_bytes: self.dropped_bytes,
            span_seconds: (last - first).as_secs_f64(),
            age_seconds: last.elapsed().as_secs_f64(),
        })
    }

    /// Each address, the most bytes first.
    pub(super) fn shown(&self) -> GuestPeers {
        let peers = self.bytes.iter().map(|(address, bytes)| GuestPeer {
            address: *address,
            bytes: *bytes,
        });
        let mut peers: Vec<GuestPeer> = peers.collect();
        peers.sort_by_key(|peer| std::cmp::Reverse(peer.bytes));
        GuestPeers {
            traffic: self.traffic(),
            peers,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv6Addr;
    use std::time::Duration;

    fn socket(peer: &str, bytes: u64) -> Socket {
        let peer = match peer.parse().unwrap() {
            IpAddr::V4(peer) => peer.to_ipv6_mapped(),
            IpAddr::V6(peer) => peer,
        };
        Socket { peer, bytes }
    }

    #[test]
    fn bytes_add_up_by_address_from_the_first_message_on() {
        let mut peers = Peers::default();
        assert_eq!(peers.traffic(), None);
        let began = Instant::now();
        peers.take(began, &[socket("10.0.0.2", 1 << 40)]);
        for second in 1..=3 {
            let now = began + Duration::from_secs(second);
            peers.take(now, &[socket("10.0.0.2", 100), socket("fd00::3", 7)]);
        }
        let shown = peers.shown();
        let found = shown.peers.iter();
        let found: Vec<(String, u64)> = found
            .map(|peer| (peer.address.to_string(), peer.bytes))
            .collect();
        assert_eq!(
            found,
            [("10.0.0.2".to_owned(), 300), ("fd00::3".to_owned(), 21)]
        );
        let traffic = shown.traffic.unwrap();
        assert_eq!((traffic.peers, traffic.bytes), (2, 321));
        assert!((traffic.span_seconds - 3.0).abs() < 1e-9);
    }

    #[test]
    fn a_guest_that_names_ever_new_addresses_is_kept_short() {
        let mut peers = Peers::default();
        let now = Instant::now();
        peers.take(now, &[]);
        for round in 0..100_u64 {
            let some = (0..64).map(|number| Socket {
                peer: Ipv6Addr::from(u128::from(round * 64 + number) << 32),
                bytes: round * 64 + number,
            });
            peers.take(now, &some.collect::<Vec<_>>());
        }
        let shown = peers.shown();
        assert_eq!(shown.peers.len(), PEERS_MAX);
        assert_eq!(shown.peers[0].bytes, 6_399);
        let traffic = shown.traffic.unwrap();
        assert_eq!(traffic.bytes + traffic.dropped_bytes, 6_399 * 6_400 / 2);
    }

    #[test]
    fn sums_end_at_the_largest_number() {
        let mut peers = Peers::default();
        let now = Instant::now();
        for _ in 0..4 {
            peers.take(now, &[socket("10.0.0.2", u64::MAX), socket("10.0.0.3", 9)]);
        }
        assert_eq!(peers.traffic().unwrap().bytes, u64::MAX);
    }
}
