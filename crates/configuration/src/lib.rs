//! What the operator writes down: one TOML file, read once at start.
//!
//! ```text
//!   text ──load──► Config ──faults──► Config that makes sense ──daemon──► may be served
//!        unknown keys,        duplicates, references,          paths, sizes, sockets,
//!        types, units         contradictions                   flash superblocks
//! ```
//!
//! A fault of the first stage hides none of the second (see `read.rs`). Every stage reports all it finds, each with its line, so that a file is repaired in one go.
//! `packaging/reference.toml` holds every key with unit, meaning and default.

#![forbid(unsafe_code)]

mod change;
mod check;
mod encryption;
mod identity;
mod load;
mod log_filter;
mod model;
mod nbd_clients;
mod origin_place;
mod policy;
mod read;
mod reference;
mod text;
mod uri;
mod vhost;
mod vm;
mod vms;
mod walk;
mod words;
mod write_back;

pub use check::{cache_of, disk_faults, faults, meant, policy_faults};
pub use encryption::EncryptionConfig;
pub use identity::{canonical_origin, disk_id};
pub use load::{ConfigError, Fault, load, locate, parse};
pub use log_filter::{check_log_filter, log_filter};
pub use model::{
    CacheConfig, Config, DaemonConfig, DiskConfig, NbdConfig, OriginConfig, SocketPath, TlsConfig,
};
pub use nbd_clients::{ClientName, DiskNbdConfig, ParseClientError};
pub use origin_place::{OriginPlace, identity};
pub use policy::{PolicyChange, PolicyConfig, Spare, Staging, Window};
pub use reference::{Entry, Section, reference_sections};
pub use text::{Address, Auto, Mode, Switch, Text};
pub use uri::{NBD_PORT, NbdUri, NbdUriAddress, ParseUriError};
pub use vhost::{DiskVhostConfig, VhostUserConfig, serial, vhost_socket};
pub use vm::{VmChange, VmConfig, WEIGHT_MAX};
pub use vms::{too_many_tenants, vm_faults};
pub use walk::nearest;
pub use words::{
    DestageOrder, LogFormat, LogTarget, NAME_BYTES_MAX, Name, OriginFormat, ParseNameError,
    ReclaimPolicy, TlsMode, WritePolicy,
};
pub use write_back::{
    DIRTY_LEAST, ParseRateError, PerSecond, WriteBackChange, WriteBackConfig, dirty_max,
    room_faults, settings_faults,
};

/// Where the admin API listens unless configured otherwise, and where the CLI looks for it.
pub const ADMIN_SOCKET_DEFAULT: &str = "/run/hearth/admin.sock";

/// Where the configuration is looked for unless `--config` says otherwise.
pub const CONFIG_DEFAULT: &str = "/etc/hearth/hearth.toml";

/// Every key with its unit, meaning and default.
pub const REFERENCE: &str = include_str!("../../../packaging/reference.toml");

/// The least memory for requests that a cache may have: a request of the largest size has to fit into
/// half of it.
pub const REQUEST_MEMORY_LEAST: units::Bytes = units::Bytes::mib(64);
