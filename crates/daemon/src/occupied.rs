//! What a start needs and others may have: sockets, flash, origins. Looked at while no daemon with this
//! configuration runs, which would have all of it.

use super::settings::origin as origin_spec;
use configuration::{Config, DiskConfig, Fault, OriginConfig, Switch, Text};
use device::uring::{FlashFile, OpenError};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixStream;
use std::path::Path;
use units::errors::chain;

/// How many origins are asked at a time: one that does not answer takes its `connect_timeout`.
const ASKED_AT_ONCE: usize = 16;
/// The process that holds sockets for others.
const SERVICE_MANAGER: i32 = 1;

/// What others have.
pub(super) fn faults(config: &Config) -> Vec<Fault> {
    let mut faults = Vec::new();
    unix(
        &config.daemon.admin_socket,
        "daemon.admin_socket",
        &mut faults,
    );
    if let Switch::On(path) = &config.nbd.unix_socket.0 {
        unix(&path.0, "nbd.unix_socket", &mut faults);
    }
    if let Switch::On(address) = &config.nbd.tcp_address.0 {
        tcp(address.0, "nbd.tcp_address", &mut faults);
    }
    if let Switch::On(address) = &config.daemon.metrics_address.0 {
        tcp(address.0, "daemon.metrics_address", &mut faults);
    }
    for (at, disk) in config.disks.iter().enumerate() {
        if let Some(Text(Switch::On(path))) = &disk.vhost_user.socket {
            unix(
                &path.0,
                &format!("disk[{at}].vhost_user.socket"),
                &mut faults,
            );
        }
    }
    for (at, cache) in config.caches.iter().enumerate() {
        // Whatever else is wrong with it was said already.
        if let Err(error @ OpenError::InUse { .. }) = FlashFile::open(&cache.path) {
            faults.push(Fault::new(format!("cache[{at}].path"), chain(&error)));
        }
    }
    faults.extend(origins(&config.disks));
    faults
}

/// A unix socket on which a process listens that is neither gone nor the service manager: those hold
/// sockets for the next daemon.
fn unix(path: &Path, key: &str, faults: &mut Vec<Fault>) {
    let Ok(socket) = UnixStream::connect(path) else {
        return;
    };
    let Ok(listener) = rustix::net::sockopt::socket_peercred(&socket) else {
        return;
    };
    let id = listener.pid.as_raw_nonzero().get();
    if id != SERVICE_MANAGER && Path::new("/proc").join(id.to_string()).exists() {
        let path = path.display();
        faults.push(Fault::new(
            key,
            format!("the process {id} listens on {path}; end it, or choose another path"),
        ));
    }
}

fn tcp(address: SocketAddr, key: &str, faults: &mut Vec<Fault>) {
    if let Err(error) = TcpListener::bind(address) {
        faults.push(Fault::new(
            key,
            format!("cannot listen on {address}: {error}"),
        ));
    }
}

/// Origins of servers, clusters and targets that do not answer; files were looked at.
fn origins(disks: &[DiskConfig]) -> Vec<Fault> {
    let disks = disks.iter().enumerate();
    let elsewhere: Vec<(usize, &DiskConfig)> = disks
        .filter(|(_, disk)| !matches!(disk.origin, OriginConfig::File(_)))
        .collect();
    let mut faults = Vec::new();
    for some in elsewhere.chunks(ASKED_AT_ONCE) {
        let asked: Vec<Option<Fault>> = std::thread::scope(|scope| {
            let ask = |(at, disk): &(usize, &DiskConfig)| {
                let key = format!("disk[{at}].origin.{}", disk.origin.kind());
                let spec = origin_spec(&disk.origin);
                scope.spawn(move || {
                    let error = origin::measure(&spec).err()?;
                    let message = format!("{}; the disk would wait for it", chain(&error));
                    Some(Fault::new(key, message))
                })
            };
            let asking: Vec<_> = some.iter().map(ask).collect();
            let answers = asking.into_iter();
            answers.map(|one| one.join().ok().flatten()).collect()
        });
        faults.extend(asked.into_iter().flatten());
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    fn at(path: &Path) -> usize {
        let mut faults = Vec::new();
        unix(path, "key", &mut faults);
        faults.len()
    }

    #[test]
    fn a_socket_is_taken_while_somebody_listens() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        assert_eq!(at(&path), 0);
        let listener = UnixListener::bind(&path).unwrap();
        assert_eq!(at(&path), 1);
        drop(listener);
        assert_eq!(at(&path), 0, "a path that was left is replaced");
    }

    #[test]
    fn a_port_is_taken_while_somebody_has_it() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut faults = Vec::new();
        tcp(taken.local_addr().unwrap(), "key", &mut faults);
        assert_eq!(faults.len(), 1);
    }
}
