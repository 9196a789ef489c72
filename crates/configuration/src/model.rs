//! The configuration as typed values, with every default in one place each.
//!
//! `packaging/reference.toml` shows the same defaults with their units and meanings; a test
//! keeps the two equal.

use super::encryption::EncryptionConfig;
use super::guest::GuestConfig;
use super::hypervisor::HypervisorConfig;
use super::limits::LimitsConfig;
use super::link::{LinkConfig, PeerConfig};
use super::migration::MigrationConfig;
use super::nbd_clients::{ClientName, DiskNbdConfig};
use super::origins::OriginConfig;
use super::policy::PolicyConfig;
use super::store::StoreConfig;
use super::telemetry::TelemetryConfig;
use super::text::{Address, Auto, Mode, ProgramPath, SocketPath, Switch, Text};
use super::vhost::{DiskVhostConfig, VhostUserConfig};
use super::vm::VmConfig;
use super::web::WebConfig;
use super::words::{LogFormat, LogTarget, Name, ReclaimPolicy, TlsMode, WritePolicy};
use super::write_back::WriteBackConfig;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::path::PathBuf;
use units::{Bytes, DiskId, Duration};
use utoipa::ToSchema;

/// A whole configuration file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// The process itself.
    pub daemon: DaemonConfig,
    /// The NBD server.
    pub nbd: NbdConfig,
    /// The sockets of disks over vhost-user.
    pub vhost_user: VhostUserConfig,
    /// The sockets of agents in guests.
    pub guest: GuestConfig,
    /// How this host meets those that its disks may go to.
    pub link: LinkConfig,
    /// Those hosts.
    #[serde(rename = "peer")]
    pub peers: Vec<PeerConfig>,
    /// Where the hosts of a cluster know of each other.
    pub store: StoreConfig,
    /// Who migrates this host's VMs when the cluster moves one.
    pub hypervisor: HypervisorConfig,
    /// The page for browsers.
    pub web: WebConfig,
    /// Where traces of what operators and hosts do go.
    pub telemetry: TelemetryConfig,
    /// The caches, one flash file or device each.
    #[serde(rename = "cache")]
    pub caches: Vec<CacheConfig>,
    /// The VMs that have settings of their own.
    #[serde(rename = "vm")]
    pub vms: Vec<VmConfig>,
    /// The disks.
    #[serde(rename = "disk")]
    pub disks: Vec<DiskConfig>,
}

impl Config {
    /// The part of the memory for requests that each cache has.
    pub fn request_memory_of_cache(&self) -> Bytes {
        let caches = self.caches.len().max(1) as u64;
        Bytes::new(self.daemon.request_memory_max.0.get() / caches)
    }
}

/// `[daemon]`: the process itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DaemonConfig {
    /// Where the admin API listens. In the same folder, which is best in memory and has to outlive
    /// the process, caches keep writes that were accepted and are not on flash yet.
    pub admin_socket: PathBuf,
    /// The group that may use it besides its owner.
    pub admin_group: Option<String>,
    /// What must survive outside the flash.
    pub state_dir: PathBuf,
    /// Where hosts that use the same exports and devices keep who has them.
    pub owners_dir: Option<PathBuf>,
    /// Where Prometheus may ask, besides the admin socket.
    pub metrics_address: Text<Switch<Address>>,
    /// Whether each disk is told of in detail there.
    pub metrics_disk_details: bool,
    /// What is logged.
    pub log: String,
    /// How it is written.
    pub log_format: LogFormat,
    /// Where it goes.
    pub log_target: LogTarget,
    /// Memory for clients' requests, of all caches together.
    pub request_memory_max: Text<Bytes>,
    /// How long a clean stop may take.
    pub stop_timeout: Text<Duration>,
    /// The program that asks drives for their health.
    pub smartctl: Text<Switch<Auto<ProgramPath>>>,
}

impl Default for DaemonConfig {
    fn default() -> Self {
        Self {
            admin_socket: PathBuf::from(super::ADMIN_SOCKET_DEFAULT),
            admin_group: None,
            state_dir: PathBuf::from("/var/lib/hearth"),
            owners_dir: None,
            metrics_address: Text(Switch::On(Address(SocketAddr::from((
                [127, 0, 0, 1],
                9809,
            ))))),
            metrics_disk_details: false,
            log: "info".to_owned(),
            log_format: LogFormat::Text,
            log_target: LogTarget::Auto,
            request_memory_max: Text(Bytes::gib(1)),
            stop_timeout: Text(Duration::from_secs(30)),
            smartctl: Text(Switch::On(Auto::Auto)),
        }
    }
}

/// `[nbd]`: the NBD server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NbdConfig {
    /// A unix socket to listen on.
    pub unix_socket: Text<Switch<SocketPath>>,
    /// Its permission bits.
    pub unix_socket_mode: Text<Mode>,
    /// The group that owns it.
    pub unix_socket_group: Option<String>,
    /// A TCP address to listen on.
    pub tcp_address: Text<Switch<Address>>,
    /// How long a client may take to negotiate.
    pub handshake_timeout: Text<Duration>,
    /// Connections of all disks together.
    pub connections_max: u32,
    /// Connections of one disk.
    pub connections_per_disk_max: u32,
    /// Requests of one connection that are in work at a time.
    pub requests_in_flight_max: u32,
    /// Bytes of one connection's requests that are in work at a time.
    pub bytes_in_flight_max: Text<Bytes>,
    /// Who may open disks that name no clients of their own; unset: every client.
    pub clients: Option<Vec<Text<ClientName>>>,
    /// Encryption.
    pub tls: TlsConfig,
}

impl Default for NbdConfig {
    fn default() -> Self {
        Self {
            unix_socket: Text(Switch::On(SocketPath(PathBuf::from(
                "/run/hearth/nbd.sock",
            )))),
            unix_socket_mode: Text(Mode::new(0o660)),
            unix_socket_group: None,
            tcp_address: Text(Switch::Off),
            handshake_timeout: Text(Duration::from_secs(10)),
            connections_max: 1024,
            connections_per_disk_max: 16,
            requests_in_flight_max: 512,
            bytes_in_flight_max: Text(Bytes::mib(32)),
            clients: None,
            tls: TlsConfig::default(),
        }
    }
}

/// `[nbd.tls]`: encryption of NBD connections.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TlsConfig {
    /// Whether clients may or must encrypt.
    pub mode: TlsMode,
    /// The server's certificate chain.
    pub certificate: Option<PathBuf>,
    /// Its private key.
    pub key: Option<PathBuf>,
    /// Who signs the certificates that clients must show.
    pub client_authority: Option<PathBuf>,
    /// Pre-shared keys of clients.
    pub psk_file: Option<PathBuf>,
    /// Whether the mode holds for the unix socket too.
    pub unix_socket: bool,
}

/// `[[cache]]`: a flash file or device and the thread that serves it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheConfig {
    /// What disks and the CLI call it.
    pub name: Name,
    /// The flash file or block device.
    pub path: PathBuf,
    /// Which segment reclaim empties, and what of it is kept.
    #[serde(default)]
    pub reclaim: ReclaimPolicy,
    /// How long an incomplete chunk waits for more blocks.
    #[serde(default = "defaults::write_delay")]
    pub write_delay: Text<Duration>,
    /// How long a rewritten block rests before its copy is trusted after a crash.
    #[serde(default = "defaults::trust_delay")]
    pub trust_delay: Text<Duration>,
    /// How slow the flash may be.
    #[serde(default = "defaults::flash_timeout")]
    pub flash_timeout: Text<Duration>,
    /// Blocks that wait in memory to be written to flash.
    #[serde(default = "defaults::write_buffer")]
    pub write_buffer: Text<Bytes>,
    /// Whether a block that is written whole and is not cached may enter the flash too.
    #[serde(default)]
    pub allocate_writes: bool,
    /// How long after the end of a whole scrub of the flash the next one begins; none: by command only.
    #[serde(default)]
    pub scrub_every: Option<Text<Duration>>,
    /// Bytes a second that a scrub reads at most.
    #[serde(default = "defaults::scrub_rate")]
    pub scrub_rate: Text<Bytes>,
    /// What may enter the flash, and how it is divided among VMs.
    #[serde(default)]
    pub policy: PolicyConfig,
}

impl CacheConfig {
    /// A cache with every default.
    pub fn new(name: Name, path: PathBuf) -> Self {
        Self {
            name,
            path,
            reclaim: ReclaimPolicy::default(),
            write_delay: defaults::write_delay(),
            trust_delay: defaults::trust_delay(),
            flash_timeout: defaults::flash_timeout(),
            write_buffer: defaults::write_buffer(),
            allocate_writes: tenancy::daemon::ALLOCATE_WRITES,
            scrub_every: None,
            scrub_rate: defaults::scrub_rate(),
            policy: PolicyConfig::default(),
        }
    }
}

/// A disk that a VM attaches to: a `[[disk]]` section, or a request to attach one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DiskConfig {
    /// What it is called everywhere; its NBD export name.
    #[schema(value_type = String, example = "web-1")]
    pub name: Name,
    /// Whose disk it is.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    pub vm: Option<Name>,
    /// Which cache keeps it warm.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    pub cache: Option<Name>,
    /// Where its bytes really live.
    pub origin: OriginConfig,
    /// What writes do.
    #[serde(default)]
    pub write_policy: WritePolicy,
    /// How writes reach the origin if they wait on flash first.
    #[serde(default)]
    pub write_back: WriteBackConfig,
    /// What its guests may ask in a second.
    #[serde(default)]
    pub limits: LimitsConfig,
    /// By which key its blocks are encrypted on flash, if they are.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    pub encryption: EncryptionConfig,
    /// Whether writes are refused.
    #[serde(default)]
    pub read_only: bool,
    /// Whether it is a base image: never written, read by several VMs, cached once for all.
    #[serde(default)]
    pub shared: bool,
    /// Whether the peers list it too and may have it in turn; of a base image, whether its cache follows the VMs that read
    /// it.
    #[serde(default)]
    pub roams: bool,
    /// How it comes to this host, if it roams.
    #[serde(default)]
    pub migration: MigrationConfig,
    /// The size that the origin must have.
    #[serde(default)]
    #[schema(value_type = Option<String>, example = "20GiB")]
    pub size: Option<Text<Bytes>>,
    /// Its identity for as long as it lives.
    #[serde(default)]
    #[schema(value_type = Option<String>, example = "00112233445566778899aabbccddeeff")]
    pub id: Option<Text<DiskId>>,
    /// Who may open it over NBD.
    #[serde(default)]
    pub nbd: DiskNbdConfig,
    /// How its VM sees it over vhost-user.
    #[serde(default)]
    pub vhost_user: DiskVhostConfig,
}

impl DiskConfig {
    /// A disk with every default.
    pub fn new(name: Name, origin: OriginConfig) -> Self {
        Self {
            name,
            vm: None,
            cache: None,
            origin,
            write_policy: WritePolicy::default(),
            write_back: WriteBackConfig::default(),
            limits: LimitsConfig::default(),
            encryption: EncryptionConfig::default(),
            read_only: false,
            shared: false,
            roams: false,
            migration: MigrationConfig::default(),
            size: None,
            id: None,
            nbd: DiskNbdConfig::default(),
            vhost_user: DiskVhostConfig::default(),
        }
    }

    /// Whether nobody writes it, so that several hosts may have it open.
    pub const fn is_only_read(&self) -> bool {
        self.read_only || self.shared
    }

    /// Whether its peers may have it in turn: its VM's writes go where it is.
    pub const fn moves(&self) -> bool {
        self.roams && !self.shared
    }

    /// Whether it is a base image whose cache follows the VMs that read it.
    pub const fn follows(&self) -> bool {
        self.roams && self.shared
    }

    /// Whose share of the flash it takes: its VM's, which is called as the disk unless it says otherwise;
    /// a shared disk has one of its own.
    pub fn tenant(&self) -> &Name {
        self.vm.as_ref().unwrap_or(&self.name)
    }
}

mod defaults {
    use super::{Bytes, Duration, Text};

    pub(super) fn write_delay() -> Text<Duration> {
        Text(Duration::from_secs(1))
    }
    pub(super) fn trust_delay() -> Text<Duration> {
        Text(Duration::from_secs(10))
    }
    pub(super) fn flash_timeout() -> Text<Duration> {
        Text(Duration::from_secs(2))
    }
    pub(super) fn scrub_rate() -> Text<Bytes> {
        Text(Bytes::mib(50))
    }
    pub(super) fn write_buffer() -> Text<Bytes> {
        Text(Bytes::mib(64))
    }
}
