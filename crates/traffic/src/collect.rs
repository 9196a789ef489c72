//! The part that acts: a socket or a file, and a clock.

use crate::addresses::Addresses;
use crate::agents::{Agents, Heard, Said};
use crate::conntrack::{Connections, ConntrackError};
use crate::limits::{DATAGRAM_BYTES_MAX, TABLE_BYTES_MAX};
use crate::sflow::Datagram;
use crate::tally::Tally;
use groups::limits::SOURCES_MAX;
use groups::{Smoothing, TrafficError, TrafficMatrix};
use std::collections::BTreeMap;
use std::error::Error;
use std::fs::File;
use std::io::{self, Read as _};
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Why nothing was collected.
#[derive(Debug, thiserror::Error)]
pub enum CollectError {
    /// The socket.
    #[error("datagrams cannot be received at {address}")]
    Socket {
        /// Where.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// The table of connections.
    #[error("{} cannot be read", path.display())]
    Table {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// What the table says.
    #[error(transparent)]
    Conntrack(#[from] ConntrackError),
    /// The daemon that was asked what agents have said.
    #[error("what the agents in guests say cannot be asked for")]
    Agents(#[source] Unasked),
    /// The VMs.
    #[error(transparent)]
    Traffic(#[from] TrafficError),
}

/// Why a daemon did not answer.
pub type Unasked = Box<dyn Error + Send + Sync>;

/// Asks a daemon what the agents in the guests of its VMs have said.
pub type Ask<'a> = &'a mut dyn FnMut() -> Result<Vec<Said>, Unasked>;

/// Where traffic is heard of.
pub enum Source<'a> {
    /// sFlow datagrams that come to this address.
    Sflow(SocketAddr),
    /// The table of connections in this file.
    Conntrack(PathBuf),
    /// The agents in guests, asked at the beginning and after each interval.
    Agents(Ask<'a>),
}

/// What was collected.
#[derive(Debug)]
pub struct Collected {
    /// Averages between VMs.
    pub traffic: TrafficMatrix,
    /// Bytes with an end that is no VM of the table.
    pub unknown_bytes: u64,
    /// Datagrams that were taken, readings of the table, or reports of agents.
    pub taken: u64,
    /// Datagrams that were no sFlow, or of more agents than are kept.
    pub refused: u64,
}

/// Collects for `total`, in intervals. `told` hears of each interval's end with how much was taken.
///
/// # Errors
/// If the socket or the table cannot be used, or the daemon does not answer.
pub fn collect(
    source: Source<'_>,
    addresses: &Addresses,
    interval: Duration,
    total: Duration,
    told: &mut dyn FnMut(u64),
) -> Result<Collected, CollectError> {
    let begin = Instant::now();
    let mut collector = Collector {
        begin,
        addresses,
        smoothing: Smoothing::new(),
        tallies: BTreeMap::new(),
        unknown_bytes: 0,
        taken: 0,
        refused: 0,
    };
    let mut input = Input::open(source)?;
    // A table's and the agents' first reading is what the second one is compared with.
    input.until(begin, &mut collector)?;
    while begin.elapsed() < total {
        let from = Instant::now();
        input.until(begin + (from - begin + interval).min(total), &mut collector)?;
        collector.end_interval(from)?;
        told(collector.taken);
    }
    Ok(Collected {
        traffic: collector.smoothing.matrix()?,
        unknown_bytes: collector.unknown_bytes,
        taken: collector.taken,
        refused: collector.refused,
    })
}

/// An open source.
enum Input<'a> {
    Sflow(SocketAddr, UdpSocket),
    Conntrack(PathBuf, Connections),
    /// With when they were asked last.
    Agents(Ask<'a>, Agents, Option<Instant>),
}

struct Collector<'a> {
    begin: Instant,
    addresses: &'a Addresses,
    smoothing: Smoothing,
    /// By agent, since two agents may see the same packet.
    tallies: BTreeMap<String, Tally>,
    unknown_bytes: u64,
    taken: u64,
    refused: u64,
}

impl<'a> Input<'a> {
    fn open(source: Source<'a>) -> Result<Self, CollectError> {
        match source {
            Source::Sflow(address) => {
                let socket = UdpSocket::bind(address);
                let socket = socket.map_err(|source| CollectError::Socket { address, source })?;
                Ok(Self::Sflow(address, socket))
            }
            Source::Conntrack(path) => Ok(Self::Conntrack(path, Connections::default())),
            Source::Agents(ask) => Ok(Self::Agents(ask, Agents::default(), None)),
        }
    }

    /// Collects until `deadline`; a table is read, and agents are asked, then.
    fn until(
        &mut self,
        deadline: Instant,
        collector: &mut Collector<'_>,
    ) -> Result<(), CollectError> {
        match self {
            Self::Sflow(address, socket) => {
                let result = receive(socket, deadline, collector);
                result.map_err(|source| CollectError::Socket {
                    address: *address,
                    source,
                })
            }
            Self::Conntrack(path, connections) => {
                std::thread::sleep(deadline.saturating_duration_since(Instant::now()));
                let table = table(path).map_err(|source| CollectError::Table {
                    path: path.clone(),
                    source,
                })?;
                let tally = collector.tallies.entry("conntrack".to_owned()).or_default();
                connections.read(&table, collector.addresses, tally)?;
                collector.taken += 1;
                Ok(())
            }
            Self::Agents(ask, agents, last) => {
                std::thread::sleep(deadline.saturating_duration_since(Instant::now()));
                let asked = Instant::now();
                let said = ask().map_err(CollectError::Agents)?;
                let since = last.replace(asked).map(|last| asked - last);
                for heard in agents.read(said, since, collector.addresses) {
                    collector.hear(&heard)?;
                }
                Ok(())
            }
        }
    }
}

fn receive(socket: &UdpSocket, deadline: Instant, collector: &mut Collector<'_>) -> io::Result<()> {
    let mut buffer = vec![0; DATAGRAM_BYTES_MAX];
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        socket.set_read_timeout(Some(left))?;
        match socket.recv(&mut buffer) {
            Ok(length) => collector.datagram(&buffer[..length]),
            Err(error) if is_passing(&error) => {}
            Err(error) => return Err(error),
        }
    }
}

fn is_passing(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), WouldBlock | TimedOut | Interrupted)
}

fn table(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?
        .take(TABLE_BYTES_MAX)
        .read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

impl Collector<'_> {
    fn datagram(&mut self, bytes: &[u8]) {
        let Ok(datagram) = Datagram::parse(bytes) else {
            self.refused += 1;
            return;
        };
        let agent = datagram.agent();
        if !self.tallies.contains_key(&agent) && self.tallies.len() == SOURCES_MAX {
            self.refused += 1;
            return;
        }
        datagram.tally(self.addresses, self.tallies.entry(agent).or_default());
        self.taken += 1;
    }

    /// Hands the tallies over. An agent that was silent has seen nothing.
    fn end_interval(&mut self, from: Instant) -> Result<(), TrafficError> {
        let interval = units::Duration::from_nanos(nanos(from.elapsed()).max(1));
        let now = self.now();
        for (agent, tally) in &mut self.tallies {
            let tally = std::mem::take(tally);
            self.unknown_bytes = self.unknown_bytes.saturating_add(tally.unknown_bytes());
            self.smoothing
                .report(agent, interval, now, &tally.exchanged(self.addresses))?;
        }
        Ok(())
    }

    /// Takes what a guest has exchanged. Each guest is a source: of a pair that both ends tell of the larger rate counts.
    fn hear(&mut self, heard: &Heard) -> Result<(), TrafficError> {
        let interval = units::Duration::from_nanos(nanos(heard.interval).max(1));
        let tally = &heard.tally;
        self.unknown_bytes = self.unknown_bytes.saturating_add(tally.unknown_bytes());
        self.taken += 1;
        let (now, pairs) = (self.now(), tally.exchanged(self.addresses));
        self.smoothing.report(&heard.vm, interval, now, &pairs)
    }

    fn now(&self) -> units::Instant {
        units::Instant::from_nanos(nanos(self.begin.elapsed()))
    }
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sflow::tests::datagram;

    const SHORT: Duration = Duration::from_millis(150);

    #[test]
    fn datagrams_become_rates_and_noise_is_counted() {
        // A port that was free a moment ago.
        let free = UdpSocket::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        let mut frame = vec![0x52, 0x54, 0, 0, 0, 2, 0x52, 0x54, 0, 0, 0, 1, 8, 0];
        frame.resize(60, 0);
        let sample = datagram(&frame, 1_000, 100);
        let sender = std::thread::spawn(move || {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            // Until the collector listens, and it has heard enough.
            for _ in 0..100 {
                let _ = socket.send_to(&sample, free);
                let _ = socket.send_to(b"noise", free);
                std::thread::sleep(Duration::from_millis(2));
            }
        });
        let addresses = Addresses::parse("web,52:54:00:00:00:01\ndb,52:54:00:00:00:02\n").unwrap();
        let mut intervals = 0;
        let found = collect(
            Source::Sflow(free),
            &addresses,
            SHORT / 3,
            SHORT,
            &mut |_| intervals += 1,
        )
        .unwrap();
        sender.join().unwrap();
        assert!(
            found.taken > 0 && found.refused > 0 && intervals >= 2,
            "{found:?}"
        );
        assert_eq!(found.traffic.names(), ["web", "db"]);
        assert!(found.traffic.rate(0, 1) > 0.0);
    }

    #[test]
    fn a_table_is_read_again_each_interval() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("nf_conntrack");
        let line = "ipv4 2 tcp 6 1 ESTABLISHED src=10.0.0.1 dst=10.0.0.2 sport=1 dport=2 packets=1 bytes=9 src=10.0.0.2 dst=10.0.0.1 sport=2 dport=1 packets=1 bytes=1\n";
        std::fs::write(&path, line).unwrap();
        let addresses = Addresses::parse("web,10.0.0.1\ndb,10.0.0.2\n").unwrap();
        let source = Source::Conntrack(path);
        let found = collect(source, &addresses, SHORT / 3, SHORT, &mut |_| {}).unwrap();
        assert!(found.taken >= 3, "{found:?}");
        // Nothing was carried between the readings.
        assert!(found.traffic.total() < 1e-9);
        let missing = Source::Conntrack(folder.path().join("none"));
        let refused = collect(missing, &addresses, SHORT, SHORT, &mut |_| {});
        assert!(matches!(refused, Err(CollectError::Table { .. })));
    }

    /// Two guests that exchange 4,000 bytes a second, one of which says less, and a third that lies.
    #[test]
    fn a_pair_that_both_ends_tell_of_counts_once() {
        let addresses = Addresses::parse("web,10.0.0.1\ndb,10.0.0.2\nbad,10.0.0.3\n").unwrap();
        let began = Instant::now();
        let mut ask = || {
            let span = Duration::from_secs(1) + began.elapsed();
            let said = |vm: &str, peers: &[(&str, u64)]| Said {
                vm: vm.to_owned(),
                span,
                age: Duration::ZERO,
                peers: peers
                    .iter()
                    .map(|(peer, rate)| (peer.parse().unwrap(), rate * nanos(span) / 1_000_000_000))
                    .collect(),
            };
            Ok(vec![
                said("web", &[("10.0.0.2", 4_000), ("192.0.2.9", 50)]),
                said("db", &[("10.0.0.1", 3_000)]),
                said("bad", &[("10.0.0.1", 900_000)]),
            ])
        };
        let source = Source::Agents(&mut ask);
        let found = collect(source, &addresses, SHORT / 3, SHORT, &mut |_| {}).unwrap();
        assert!(found.taken >= 6, "{found:?}");
        assert!(found.unknown_bytes > 0);
        let place = |name: &str| {
            let names = found.traffic.names();
            names.iter().position(|one| one == name).unwrap()
        };
        let rate = |one: &str, other: &str| found.traffic.rate(place(one), place(other));
        assert!((3_900.0..4_100.0).contains(&rate("web", "db")), "{found:?}");
        assert!((890_000.0..910_000.0).contains(&rate("web", "bad")));
        assert!(rate("db", "bad") < 1e-9);
    }

    #[test]
    fn a_daemon_that_does_not_answer_ends_it_with_its_reason() {
        let mut ask = || Err("nobody there".into());
        let refused = collect(
            Source::Agents(&mut ask),
            &Addresses::default(),
            SHORT,
            SHORT,
            &mut |_| {},
        );
        let reason = refused.unwrap_err();
        assert_eq!(reason.source().unwrap().to_string(), "nobody there");
    }
}
