//! Ports of the loopback, each for one test at a time.

use std::fs::File;
use std::net::{Ipv4Addr, TcpListener};

use anyhow::Context as _;

/// Below those that the kernel gives to connections (`net.ipv4.ip_local_port_range` begins at 32768).
const PORTS: std::ops::Range<u16> = 20_000..32_000;

/// A TCP port of the loopback that nobody listens on, and that no other test gets before this process has ended,
/// however often the daemon that has it is started again.
///
/// # Errors
///
/// When there is none, or files in the temporary folder cannot be locked.
pub fn free_port() -> anyhow::Result<u16> {
    let locks = std::env::temp_dir().join("hearth-e2e-ports");
    std::fs::create_dir_all(&locks).context("a folder for locks of ports")?;
    for port in PORTS {
        let lock = File::create(locks.join(port.to_string())).context("a lock of a port")?;
        if lock.try_lock().is_ok() && TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            // Open, and so locked, until the process ends.
            std::mem::forget(lock);
            return Ok(port);
        }
    }
    anyhow::bail!("every port from {PORTS:?} is in use")
}
