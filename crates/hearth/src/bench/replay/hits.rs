//! What the daemon has counted of the disk that a trace is replayed on.

use api::client::Client;
use api::types::{DiskStatus, Disks, Status};
use configuration::{NbdUri, NbdUriAddress};
use load::{Address, NbdAddress};
use serde::Serialize;
use std::path::Path;

/// Counters of a disk at one time.
#[derive(Clone, Debug)]
pub(super) struct Look {
    disk: String,
    found_blocks: u64,
    read_blocks: u64,
}

/// Blocks of a disk that were read while a trace was replayed, by whomever.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Hits {
    /// The disk.
    pub(super) disk: String,
    /// Blocks, or parts of one, that were read.
    pub(super) read_blocks: u64,
    /// Those of them that were on flash or in memory.
    pub(super) found_blocks: u64,
}

impl Hits {
    /// What was counted between two looks; `None` if it was not the same disk all the time.
    pub(super) fn between(before: &Look, after: &Look) -> Option<Self> {
        if before.disk != after.disk {
            return None;
        }
        Some(Self {
            disk: after.disk.clone(),
            read_blocks: after.read_blocks.checked_sub(before.read_blocks)?,
            found_blocks: after.found_blocks.checked_sub(before.found_blocks)?,
        })
    }
}

/// Asks the daemon of that socket for the disk behind an address; `None` if it cannot be asked, or serves no disk
/// there.
pub(super) fn look(socket: &Path, target: &Address) -> Option<Look> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let client = Client::new(socket);
    runtime.ok()?.block_on(async {
        let status: Status = client.get("/v1/status").await.ok()?;
        let disks: Disks = client.get("/v1/disks").await.ok()?;
        let disk = disks.disks.iter().find(|disk| is(disk, &status, target))?;
        Some(Look {
            disk: disk.name.to_string(),
            found_blocks: disk.counters.found_blocks(),
            read_blocks: disk.counters.read_blocks(),
        })
    })
}

/// Whether the disk is what is reached at this address.
fn is(disk: &DiskStatus, status: &Status, target: &Address) -> bool {
    match target {
        Address::File { .. } => false,
        Address::VhostUser { socket } => {
            let mut sockets = disk.vhost_user.sockets.iter();
            sockets.any(|of| is_same_file(Path::new(&of.path), socket))
        }
        Address::Nbd { server, export } => {
            let own = disk.nbd_socket.as_ref();
            let is_own = own.is_some_and(|own| match server {
                NbdAddress::Unix(socket) => is_same_file(Path::new(&own.path), socket),
                NbdAddress::Tcp { .. } => false,
            });
            let mut listeners = status.listeners.iter();
            is_own
                || (*export == *disk.name.to_string()
                    && listeners.any(|listener| listens(&listener.address, server)))
        }
    }
}

/// Whether a listener of the daemon is that server.
fn listens(listener: &str, server: &NbdAddress) -> bool {
    let Ok(uri) = listener.parse::<NbdUri>() else {
        return false;
    };
    match (&uri.address, server) {
        (NbdUriAddress::Unix(path), NbdAddress::Unix(socket)) => is_same_file(path, socket),
        (NbdUriAddress::Tcp { host, port }, NbdAddress::Tcp { host: to, port: at }) => {
            port == at && (host == to || matches!(to.as_str(), "127.0.0.1" | "::1" | "localhost"))
        }
        (NbdUriAddress::Unix(_), NbdAddress::Tcp { .. })
        | (NbdUriAddress::Tcp { .. }, NbdAddress::Unix(_)) => false,
    }
}

fn is_same_file(one: &Path, other: &Path) -> bool {
    let whole = |path: &Path| std::fs::canonicalize(path).ok();
    one == other || whole(one).is_some_and(|one| whole(other) == Some(one))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(disk: &str, found_blocks: u64, read_blocks: u64) -> Look {
        Look {
            disk: disk.to_owned(),
            found_blocks,
            read_blocks,
        }
    }

    #[test]
    fn what_was_counted_in_between_is_the_difference() {
        let hits = Hits::between(&look("web-1", 5, 10), &look("web-1", 25, 50)).unwrap();
        assert_eq!((hits.found_blocks, hits.read_blocks), (20, 40));
        // The daemon was started anew, or the disk attached again.
        assert_eq!(
            Hits::between(&look("web-1", 5, 10), &look("web-1", 0, 3)),
            None
        );
        assert_eq!(
            Hits::between(&look("web-1", 5, 10), &look("db-1", 9, 30)),
            None
        );
    }

    #[test]
    fn a_listener_is_known_by_its_socket_or_its_port() {
        let unix = NbdAddress::Unix("/run/hearth/nbd.sock".into());
        let listener = "nbd+unix:///?socket=/run/hearth/nbd.sock";
        assert!(listens(listener, &unix));
        assert!(!listens("nbd+unix:///?socket=/run/other.sock", &unix));
        let tcp = |host: &str, port| NbdAddress::Tcp {
            host: host.to_owned(),
            port,
        };
        assert!(listens("nbd://0.0.0.0:10809", &tcp("127.0.0.1", 10809)));
        assert!(!listens("nbd://0.0.0.0:10809", &tcp("storage", 10809)));
        assert!(!listens("nbd://0.0.0.0:10809", &tcp("127.0.0.1", 10810)));
        assert!(!listens("nbd://0.0.0.0:10809", &unix));
    }
}
