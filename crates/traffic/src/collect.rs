//! The part that acts: a socket or a file, and a clock.

use crate::addresses::Addresses;
use crate::conntrack::{Connections, ConntrackError};
use crate::limits::{DATAGRAM_BYTES_MAX, TABLE_BYTES_MAX};
use crate::sflow::Datagram;
use crate::tally::Tally;
use groups::limits::SOURCES_MAX;
use groups::{Smoothing, TrafficError, TrafficMatrix};
use std::collections::BTreeMap;
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
    /// The VMs.
    #[error(transparent)]
    Traffic(#[from] TrafficError),
}

/// Where traffic is heard of.
#[derive(Clone, Debug)]
pub enum Source {
    /// sFlow datagrams that come to this address.
    Sflow(SocketAddr),
    /// The table of connections in this file.
    Conntrack(PathBuf),
}

/// What was collected.
#[derive(Debug)]
pub struct Collected {
    /// Averages between VMs.
    pub traffic: TrafficMatrix,
    /// Bytes with an end that is no VM of the table.
    pub unknown_bytes: u64,
    /// Datagrams that were taken, or readings of the table.
    pub taken: u64,
    /// Datagrams that were no sFlow, or of more agents than are kept.
    pub refused: u64,
}

/// Collects for `total`, in intervals. `told` hears of each interval's end with how many datagrams or readings were taken.
///
/// # Errors
/// If the socket or the table cannot be used.
pub fn collect(
    source: &Source,
    addresses: &Addresses,
    interval: Duration,
    total: Duration,
    told: &mut dyn FnMut(u64),
) -> Result<Collected, CollectError> {
    let begin = Instant::now();
    let mut collector = Collector {
        addresses,
        smoothing: Smoothing::new(),
        tallies: BTreeMap::new(),
        unknown_bytes: 0,
        taken: 0,
        refused: 0,
    };
    let mut input = Input::open(source)?;
    // A table's first reading is what the second one is compared with.
    input.until(begin, &mut collector)?;
    while begin.elapsed() < total {
        let from = Instant::now();
        input.until(begin + (from - begin + interval).min(total), &mut collector)?;
        collector.end_interval(begin, from)?;
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
enum Input {
    Sflow(SocketAddr, UdpSocket),
    Conntrack(PathBuf, Connections),
}

struct Collector<'a> {
    addresses: &'a Addresses,
    smoothing: Smoothing,
    /// By agent, since two agents may see the same packet.
    tallies: BTreeMap<String, Tally>,
    unknown_bytes: u64,
    taken: u64,
    refused: u64,
}

impl Input {
    fn open(source: &Source) -> Result<Self, CollectError> {
        match source {
            Source::Sflow(address) => {
                let socket = UdpSocket::bind(address);
                let socket = socket.map_err(|source| CollectError::Socket {
                    address: *address,
                    source,
                })?;
                Ok(Self::Sflow(*address, socket))
            }
            Source::Conntrack(path) => Ok(Self::Conntrack(path.clone(), Connections::default())),
        }
    }

    /// Collects until `deadline`; a table is read then.
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
    fn end_interval(&mut self, begin: Instant, from: Instant) -> Result<(), TrafficError> {
        let nanos = |span: Duration| u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        let interval = units::Duration::from_nanos(nanos(from.elapsed()).max(1));
        let now = units::Instant::from_nanos(nanos(begin.elapsed()));
        for (agent, tally) in &mut self.tallies {
            let tally = std::mem::take(tally);
            self.unknown_bytes = self.unknown_bytes.saturating_add(tally.unknown_bytes());
            self.smoothing
                .report(agent, interval, now, &tally.exchanged(self.addresses))?;
        }
        Ok(())
    }
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
            &Source::Sflow(free),
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
        let found = collect(&source, &addresses, SHORT / 3, SHORT, &mut |_| {}).unwrap();
        assert!(found.taken >= 3, "{found:?}");
        // Nothing was carried between the readings.
        assert!(found.traffic.total() < 1e-9);
        let missing = Source::Conntrack(folder.path().join("none"));
        let refused = collect(&missing, &addresses, SHORT, SHORT, &mut |_| {});
        assert!(matches!(refused, Err(CollectError::Table { .. })));
    }
}
