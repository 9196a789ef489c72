//! Linux' table of connections, `/proc/net/nf_conntrack`, with byte counts (`nf_conntrack_acct`).
//!
//! ```text
//!   ipv4 2 tcp 6 431999 ESTABLISHED src=10.0.0.1 dst=10.0.0.2 sport=40000 dport=80 packets=5 bytes=1000
//!                                   src=10.0.0.2 dst=10.0.0.1 sport=80 dport=40000 packets=3 bytes=500 [ASSURED] ..
//! ```
//! Counts grow as long as a connection lives, so a reading is told from the one before. What a connection has carried
//! between the last reading and its end is lost: short intervals lose less.

use crate::addresses::{Address, Addresses};
use crate::limits::CONNECTIONS_MAX;
use crate::tally::Tally;
use std::net::IpAddr;
use units::Map;

/// Why a table is not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConntrackError {
    /// Bytes are not counted.
    #[error(
        "connections have no byte counts: turn them on with sysctl -w net.netfilter.nf_conntrack_acct=1"
    )]
    NoCounts,
}

/// Which connection: protocol, addresses and ports of its first direction.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    protocol: String,
    from: IpAddr,
    to: IpAddr,
    ports: [u16; 2],
}

/// The counts of the last reading.
#[derive(Clone, Debug, Default)]
pub struct Connections {
    known: Option<Map<Key, u64>>,
}

impl Connections {
    /// Takes a reading: what has been carried since the one before goes to the tally. Of the first one nothing does, since
    /// nothing says since when its connections live. Lines that are no connections are skipped.
    ///
    /// # Errors
    /// If no connection has counts of bytes.
    pub fn read(
        &mut self,
        table: &str,
        addresses: &Addresses,
        tally: &mut Tally,
    ) -> Result<(), ConntrackError> {
        let mut counts: Map<Key, u64> = Map::default();
        let mut without = 0;
        for line in table.lines() {
            match connection(line) {
                Some((key, Some(bytes))) if counts.len() < CONNECTIONS_MAX => {
                    counts.insert(key, bytes);
                }
                Some((_, None)) => without += 1,
                _ => {}
            }
        }
        if counts.is_empty() && without > 0 {
            return Err(ConntrackError::NoCounts);
        }
        if let Some(known) = &self.known {
            for line in table.lines() {
                let Some((key, Some(bytes))) = connection(line) else {
                    continue;
                };
                let before = known.get(&key).copied().unwrap_or_default();
                // A smaller count is a new connection between the same ports.
                let carried = bytes.checked_sub(before).unwrap_or(bytes);
                let vm = |ip: IpAddr| addresses.vm(Address::Ip(ip));
                tally.add(vm(key.from), vm(key.to), carried);
            }
        }
        self.known = Some(counts);
        Ok(())
    }
}

/// A line as a connection, and its bytes in both directions if they are counted.
fn connection(line: &str) -> Option<(Key, Option<u64>)> {
    let protocol = line.split_whitespace().nth(2)?;
    let fields = || {
        line.split_whitespace()
            .filter_map(|word| word.split_once('='))
    };
    let first = |name: &str| {
        fields()
            .find(|(key, _)| *key == name)
            .map(|(_, value)| value)
    };
    let ip = |name: &str| {
        first(name)?
            .parse::<IpAddr>()
            .ok()
            .map(|ip| ip.to_canonical())
    };
    let port = |name: &str| {
        first(name)
            .and_then(|port| port.parse().ok())
            .unwrap_or_default()
    };
    let key = Key {
        protocol: protocol.to_owned(),
        from: ip("src")?,
        to: ip("dst")?,
        ports: [port("sport"), port("dport")],
    };
    let counts = fields().filter(|(key, _)| *key == "bytes");
    let counts = counts.filter_map(|(_, value)| value.parse::<u64>().ok());
    let bytes = counts.fold(None, |sum: Option<u64>, count| {
        Some(sum.unwrap_or_default().saturating_add(count))
    });
    Some((key, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TABLE: &str = "web,10.0.0.1\ndb,10.0.0.2\nlog,fd00::3\n";

    fn line(from: &str, to: &str, port: u16, bytes: [u64; 2]) -> String {
        format!(
            "ipv4     2 tcp      6 431999 ESTABLISHED src={from} dst={to} sport={port} dport=80 packets=5 bytes={} \
             src={to} dst={from} sport=80 dport={port} packets=3 bytes={} [ASSURED] mark=0 zone=0 use=2\n",
            bytes[0], bytes[1]
        )
    }

    fn read(tables: &[String]) -> (Vec<u64>, u64) {
        let addresses = Addresses::parse(TABLE).unwrap();
        let mut connections = Connections::default();
        let mut tally = Tally::default();
        for table in tables {
            connections.read(table, &addresses, &mut tally).unwrap();
        }
        let pairs = tally.exchanged(&addresses);
        (
            pairs.iter().map(|pair| pair.bytes).collect(),
            tally.unknown_bytes(),
        )
    }

    #[test]
    fn what_was_carried_since_the_last_reading_counts() {
        let first = line("10.0.0.1", "10.0.0.2", 40_000, [1_000, 500]);
        let second = line("10.0.0.1", "10.0.0.2", 40_000, [4_000, 900])
            + &line("10.0.0.2", "10.0.0.1", 9, [7, 3]);
        assert_eq!(read(std::slice::from_ref(&first)), (vec![], 0));
        assert_eq!(read(&[first, second]), (vec![3_410], 0));
    }

    #[test]
    fn a_count_that_fell_is_a_new_connection() {
        let first = line("10.0.0.1", "10.0.0.2", 1, [1_000, 0]);
        let second = line("10.0.0.1", "10.0.0.2", 1, [30, 10]);
        assert_eq!(read(&[first, second]), (vec![40], 0));
    }

    #[test]
    fn ends_outside_are_unknown() {
        let empty = String::new();
        assert_eq!(
            read(&[empty, line("10.0.0.1", "192.0.2.9", 1, [5, 5])]),
            (vec![], 10)
        );
    }

    #[test]
    fn tables_without_counts_say_what_to_turn_on() {
        let addresses = Addresses::parse(TABLE).unwrap();
        let table = "ipv4 2 udp 17 30 src=10.0.0.1 dst=10.0.0.2 sport=1 dport=2 src=10.0.0.2 dst=10.0.0.1 sport=2 dport=1 use=2\n";
        let refused = Connections::default().read(table, &addresses, &mut Tally::default());
        assert!(
            refused
                .unwrap_err()
                .to_string()
                .contains("nf_conntrack_acct")
        );
    }

    proptest! {
        #[test]
        fn no_table_is_fatal(lines in prop::collection::vec("(ipv4|x| )( 2)?( tcp| )( src=[0-9.:a-f]{0,9}| dst=10\\.0\\.0\\.[12]| bytes=[0-9]{0,22}|=|\u{0}){0,6}", 0..12)) {
            let addresses = Addresses::parse(TABLE).unwrap();
            let mut connections = Connections::default();
            let mut tally = Tally::default();
            for _ in 0..2 {
                let _ = connections.read(&lines.join("\n"), &addresses, &mut tally);
            }
        }
    }
}
