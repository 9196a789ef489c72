//! Serves a disk in memory on a unix socket: for measuring the front end alone.
//!
//! `cargo run --release -p nbd-server --example memory_disk -- SOCKET [GIB]`

#[path = "../tests/support/disk.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    clippy::unwrap_used,
    reason = "shared with the tests, which use more of it"
)]
mod disk;

use disk::{Command, Disk};
use frontend::limits::ConnectionLimits;
use nbd_server::limits::ServerLimits;
use nbd_server::{
    Client, Exports, Found, Listed, Listener, Negotiated, Refusal, Server, TlsOffer, UnixSocket,
    export,
};
use std::error::Error;
use std::sync::Arc;
use tokio::sync::watch;
use units::Bytes;

struct One {
    commands: ring::Sender<Command>,
    size: Bytes,
}

impl Exports for One {
    fn list(&self, _client: &Client) -> Vec<Listed> {
        Vec::new()
    }

    /// Any name will do.
    fn find(&self, _name: &str, _client: &Client) -> Result<Found, Refusal> {
        Ok(Found {
            export: export(self.size, false, true),
            description: String::new(),
        })
    }

    fn connect(&self, client: Negotiated, _: &Client) {
        if self
            .commands
            .send(Command::Connect(Box::new(client)))
            .is_err()
        {
            eprintln!("the shard has ended");
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("usage: memory_disk SOCKET [GIB]")?;
    let gib: u64 = arguments.next().map_or(Ok(1), |text| text.parse())?;
    let size = Bytes::gib(gib);
    let disk = Disk::silent(size.to_usize());
    let (commands, _shard) = disk::spawn(disk, ConnectionLimits::default());
    let exports = Arc::new(One { commands, size });
    let server = Server::new(exports, ServerLimits::default());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let socket = UnixSocket {
            path: path.into(),
            mode: 0o600,
            group: None,
        };
        let listener = Listener::unix(&socket)?;
        let (_stop, stopped) = watch::channel(false);
        server.serve(listener, TlsOffer::Off, stopped).await;
        Ok(())
    })
}
