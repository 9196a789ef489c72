//! A whole server around a disk in memory: listeners on tokio, one shard thread on a ring.

#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "each test file uses what it needs and fails by panicking"
)]

pub mod disk;
pub mod raw;
pub mod tools;

use block_io::IoError;
use disk::{Command, Disk};
use frontend::limits::ConnectionLimits;
use nbd_server::limits::ServerLimits;
use nbd_server::{
    Client, Exports, Found, Listed, Listener, Negotiated, Refusal, Server, TlsOffer, UnixSocket,
    export,
};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use tokio::sync::watch;
use units::Bytes;

/// Size of the exports.
pub const DISK_BYTES: u64 = 64 << 20;

/// What a rig is made of.
pub struct Options {
    pub tls: TlsOffer,
    pub server: ServerLimits,
    pub connection: ConnectionLimits,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            tls: TlsOffer::Off,
            server: ServerLimits::default(),
            connection: ConnectionLimits::default(),
        }
    }
}

/// A running server with two exports: `disk`, and `fixed`, which is read-only.
pub struct Rig {
    pub folder: tempfile::TempDir,
    pub tcp: SocketAddr,
    /// What the disk was asked, in order.
    pub log: Arc<Mutex<Vec<String>>>,
    commands: ring::Sender<Command>,
    stop: watch::Sender<bool>,
    runtime: Option<tokio::runtime::Runtime>,
    shard: Option<JoinHandle<()>>,
}

struct Two {
    commands: ring::Sender<Command>,
    found: BTreeMap<&'static str, Found>,
}

impl Exports for Two {
    fn list(&self, _client: &Client) -> Vec<Listed> {
        let listed = self.found.iter().map(|(name, found)| Listed {
            name: (*name).to_owned(),
            description: found.description.clone(),
        });
        listed.collect()
    }

    fn find(&self, name: &str, _client: &Client) -> Result<Found, Refusal> {
        self.found.get(name).cloned().ok_or(Refusal::Unknown)
    }

    fn connect(&self, client: Negotiated, _: &Client) {
        // A shard that has gone closes the client by dropping it.
        let _gone = self.commands.send(Command::Connect(Box::new(client)));
    }
}

impl Rig {
    pub fn new() -> Self {
        Self::with(&Options::default())
    }

    pub fn with(options: &Options) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let log = Arc::new(Mutex::new(Vec::new()));
        let (commands, shard) = disk::spawn(
            Disk::new(usize::try_from(DISK_BYTES).unwrap(), Arc::clone(&log)),
            options.connection,
        );
        let size = Bytes::new(DISK_BYTES);
        let found = |read_only, description: &str| Found {
            export: export(size, read_only, true),
            description: description.to_owned(),
        };
        let exports = Two {
            commands: commands.clone(),
            found: BTreeMap::from([
                ("disk", found(false, "a disk in memory")),
                ("fixed", found(true, "")),
            ]),
        };
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let (stop, stopped) = watch::channel(false);
        let server = Server::new(Arc::new(exports), options.server);
        let tcp = runtime.block_on(async {
            let socket = UnixSocket {
                path: folder.path().join("nbd.sock"),
                mode: 0o600,
                group: None,
            };
            let unix = Listener::unix(&socket).unwrap();
            let tcp = Listener::tcp("127.0.0.1:0".parse().unwrap()).await.unwrap();
            let address = tcp.address().parse().unwrap();
            for listener in [unix, tcp] {
                let (server, tls, stopped) = (server.clone(), options.tls.clone(), stopped.clone());
                tokio::spawn(async move { server.serve(listener, tls, stopped).await });
            }
            address
        });
        Self {
            folder,
            tcp,
            log,
            commands,
            stop,
            runtime: Some(runtime),
            shard: Some(shard),
        }
    }

    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("nbd.sock")
    }

    /// The URI of an export over the unix socket.
    pub fn uri(&self, export: &str) -> String {
        format!("nbd+unix:///{export}?socket={}", self.socket().display())
    }

    /// Holds answers back until [`Rig::release`].
    pub fn hold(&self) {
        self.commands.send(Command::Hold).unwrap();
    }

    /// Fails every request from now on.
    pub fn fail(&self, error: IoError) {
        self.commands.send(Command::Fail(error)).unwrap();
    }

    pub fn release(&self) {
        self.commands.send(Command::Release).unwrap();
    }

    /// Ends the listeners; attached clients go on.
    pub fn stop_listening(&self) {
        self.stop.send(true).unwrap();
    }

    pub fn log(&self) -> Vec<String> {
        self.log.lock().unwrap().clone()
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        let _unheard = self.stop.send(true);
        let _gone = self.commands.send(Command::Stop);
        if let Some(shard) = self.shard.take() {
            let ended = shard.join();
            if !std::thread::panicking() {
                ended.expect("the shard ends without a panic");
            }
        }
        drop(self.runtime.take());
    }
}
