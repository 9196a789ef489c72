//! What the agents in guests say: bytes by the address of the other end, kept by the daemon of each VM's host.
//!
//! ```text
//!   guest's agent ── bytes since its last message ──► daemon: sums since the agent's first message ──► a reading
//!
//!   a reading and the next one:   bytes of the difference / the difference of their spans
//! ```
//! Spans end with the agent's last message, so that it does not matter when a reading is taken between two messages.
//!
//! Who speaks is said by the daemon, never by a guest: a guest that lies changes what is believed of it and the VMs that
//! it names, and never what is believed of two others.

use crate::addresses::{Address, Addresses};
use crate::tally::Tally;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;
use units::Map;

/// What the agent in a VM's guest has said since it began to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// The VM, as the daemon knows it.
    pub vm: String,
    /// From its first message to its last one.
    pub span: Duration,
    /// How long before the reading the last one came.
    pub age: Duration,
    /// Bytes both ways within the span, by the other end's address.
    pub peers: Vec<(IpAddr, u64)>,
}

/// What a guest has exchanged since the last reading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Heard {
    /// Its VM.
    pub(crate) vm: String,
    /// The time in which.
    pub(crate) interval: Duration,
    /// With whom.
    pub(crate) tally: Tally,
}

/// The sums of the last reading.
#[derive(Clone, Debug, Default)]
pub(crate) struct Agents {
    known: BTreeMap<String, Known>,
}

#[derive(Clone, Debug, Default)]
struct Known {
    span: Duration,
    bytes: Map<IpAddr, u64>,
}

impl Agents {
    /// Takes a reading: what each guest has said since the one before, which was so long ago. Of the first one nothing
    /// counts, nor of an agent that has sent no message since.
    pub(crate) fn read(
        &mut self,
        reading: Vec<Said>,
        since: Option<Duration>,
        addresses: &Addresses,
    ) -> Vec<Heard> {
        let mut before = std::mem::take(&mut self.known);
        let mut heard = Vec::new();
        for said in reading {
            let known = match (before.remove(&said.vm), since) {
                // It began anew after the last reading, and so did its sums.
                (_, Some(since)) if said.span.saturating_add(said.age) < since => {
                    Some(Known::default())
                }
                (known, _) => known,
            };
            heard.extend(known.and_then(|known| difference(&said, &known, addresses)));
            let Said {
                vm, span, peers, ..
            } = said;
            let bytes = peers.into_iter().collect();
            self.known.insert(vm, Known { span, bytes });
        }
        heard
    }
}

/// What a guest has said since it was known; none if that is nothing.
fn difference(said: &Said, known: &Known, addresses: &Addresses) -> Option<Heard> {
    let interval = said.span.checked_sub(known.span)?;
    if interval.is_zero() {
        return None;
    }
    let vm = addresses.called(&said.vm);
    let mut tally = Tally::default();
    for (peer, bytes) in &said.peers {
        let before = known.bytes.get(peer).copied().unwrap_or_default();
        // A smaller sum is one that was dropped, and began anew.
        let carried = bytes.checked_sub(before).unwrap_or(*bytes);
        tally.add(vm, addresses.vm(Address::Ip(*peer)), carried);
    }
    Some(Heard {
        vm: said.vm.clone(),
        interval,
        tally,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "web,10.0.0.1\ndb,10.0.0.2\nlog,fd00::3\n";
    const SINCE: Option<Duration> = Some(Duration::from_secs(10));

    fn said(vm: &str, seconds: u64, peers: &[(&str, u64)]) -> Said {
        let peers = peers
            .iter()
            .map(|(peer, bytes)| (peer.parse().unwrap(), *bytes));
        Said {
            vm: vm.to_owned(),
            span: Duration::from_secs(seconds),
            age: Duration::from_secs(1),
            peers: peers.collect(),
        }
    }

    /// Who was heard, over how many seconds, and each pair with its bytes.
    type Found = (String, u64, Vec<(String, String, u64)>);

    fn read(agents: &mut Agents, since: Option<Duration>, reading: Vec<Said>) -> Vec<Found> {
        let addresses = Addresses::parse(TABLE).unwrap();
        let heard = agents.read(reading, since, &addresses);
        let found = heard.iter().map(|heard| {
            let pairs = heard.tally.exchanged(&addresses);
            let pairs = pairs
                .iter()
                .map(|pair| (pair.first.to_owned(), pair.second.to_owned(), pair.bytes));
            (heard.vm.clone(), heard.interval.as_secs(), pairs.collect())
        });
        found.collect()
    }

    fn pair(first: &str, second: &str, bytes: u64) -> (String, String, u64) {
        (first.to_owned(), second.to_owned(), bytes)
    }

    #[test]
    fn the_difference_of_two_readings_counts_over_the_time_between_messages() {
        let mut agents = Agents::default();
        let first = said("web", 100, &[("10.0.0.2", 5_000)]);
        assert_eq!(read(&mut agents, None, vec![first]), []);
        let second = said("web", 108, &[("10.0.0.2", 5_800), ("fd00::3", 40)]);
        let found = read(&mut agents, SINCE, vec![second.clone()]);
        let expected = vec![pair("web", "db", 800), pair("web", "log", 40)];
        assert_eq!(found, [("web".to_owned(), 8, expected)]);
        // No message has come since: the next one tells.
        assert_eq!(read(&mut agents, SINCE, vec![second]), []);
        let third = said("web", 126, &[("10.0.0.2", 6_700), ("fd00::3", 40)]);
        let found = read(&mut agents, SINCE, vec![third]);
        assert_eq!(found[0].1, 18);
        assert_eq!(found[0].2[0], pair("web", "db", 900));
    }

    #[test]
    fn an_agent_that_began_anew_since_counts_from_its_beginning() {
        let mut agents = Agents::default();
        let first = said("web", 3, &[("10.0.0.2", 5_000)]);
        read(&mut agents, None, vec![first]);
        // Its span is longer than the one before, and yet another one: it begins after the last reading.
        let reading = vec![
            said("web", 8, &[("10.0.0.2", 6_000)]),
            said("db", 5, &[("10.0.0.1", 70)]),
        ];
        let found = read(&mut agents, SINCE, reading);
        let web = ("web".to_owned(), 8, vec![pair("web", "db", 6_000)]);
        let db = ("db".to_owned(), 5, vec![pair("web", "db", 70)]);
        assert_eq!(found, [web, db]);
    }

    #[test]
    fn an_agent_that_has_said_little_yet_is_not_taken_for_a_new_one() {
        let mut agents = Agents::default();
        let mut young = said("web", 4, &[("10.0.0.2", 5_000)]);
        read(&mut agents, None, vec![young.clone()]);
        // It began 14 s before this reading, and was known at the last one.
        young.span = Duration::from_secs(9);
        young.age = Duration::from_secs(5);
        young.peers[0].1 = 5_600;
        let found = read(&mut agents, SINCE, vec![young]);
        let expected = vec![pair("web", "db", 600)];
        assert_eq!(found, [("web".to_owned(), 5, expected)]);
    }

    #[test]
    fn an_address_that_was_dropped_and_is_back_counts_from_there() {
        let mut agents = Agents::default();
        read(
            &mut agents,
            None,
            vec![said("web", 20, &[("10.0.0.2", 500)])],
        );
        let found = read(
            &mut agents,
            SINCE,
            vec![said("web", 30, &[("10.0.0.2", 30)])],
        );
        assert_eq!(found[0].2, [pair("web", "db", 30)]);
    }

    /// Whatever addresses a guest names, it is one end of every pair.
    #[test]
    fn a_guest_cannot_speak_for_another_vm() {
        let mut agents = Agents::default();
        read(&mut agents, None, vec![said("web", 20, &[])]);
        let lies = [
            ("10.0.0.1", 1_000),
            ("10.0.0.2", u64::MAX),
            ("fd00::3", u64::MAX),
            ("192.0.2.1", 9),
        ];
        let found = read(&mut agents, SINCE, vec![said("web", 30, &lies)]);
        let pairs = &found[0].2;
        assert_eq!(pairs.len(), 2);
        assert!(
            pairs
                .iter()
                .all(|(first, second, _)| first == "web" || second == "web")
        );
    }

    #[test]
    fn a_vm_without_an_address_of_its_own_is_unknown() {
        let addresses = Addresses::parse(TABLE).unwrap();
        let mut agents = Agents::default();
        agents.read(vec![said("new", 20, &[])], None, &addresses);
        let heard = agents.read(vec![said("new", 30, &[("10.0.0.2", 7)])], SINCE, &addresses);
        assert_eq!(heard[0].tally.exchanged(&addresses).len(), 0);
        assert_eq!(heard[0].tally.unknown_bytes(), 7);
    }
}
