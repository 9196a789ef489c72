//! What the operator writes down: TOML files, and variables of the environment for single keys.
//!
//! ```text
//!   texts ──load──► Config ──faults──► Config that makes sense ──daemon──► may be served
//!        unknown keys,        duplicates, references,          paths, sizes, sockets,
//!        types, units         contradictions                   flash superblocks
//! ```
//!
//! A fault of the first stage hides none of the second (see `read.rs`). Every stage reports all it finds, each with its line, so that a file is repaired in one go.
//! `packaging/reference.toml` holds every key with unit, meaning and default.

#![forbid(unsafe_code)]

mod authority;
mod change;
mod check;
mod effective;
mod encryption;
mod fault;
mod guest;
mod hypervisor;
mod identity;
mod iscsi_uri;
mod json_schema;
mod likeness;
mod limits;
mod line_starts;
mod link;
mod load;
mod log_filter;
mod merge;
mod migration;
mod model;
mod nbd_clients;
mod origin_place;
mod origins;
mod otlp_url;
mod percent;
mod policy;
mod rbd_uri;
mod read;
mod reference;
mod sources;
mod store;
mod telemetry;
mod text;
mod uri;
mod variables;
mod vhost;
mod vm;
mod walk;
mod web;
mod words;
mod write_back;

pub use check::{
    DIRTY_LEAST, MOVE_TOGETHER_MAX, REQUEST_MEMORY_LEAST, cache_of, dirty_max, disk_faults, faults,
    meant, policy_faults, room_faults, settings_faults, too_many_tenants, vm_faults,
};
pub use effective::Setting;
pub use encryption::EncryptionConfig;
pub use fault::Fault;
pub use guest::GuestConfig;
pub use hypervisor::{HypervisorConfig, MigrateWith};
pub use identity::{canonical_origin, disk_id, serial, vhost_socket};
pub use iscsi_uri::{ISCSI_SCHEME, IscsiUri, ParseIscsiUriError};
pub use json_schema::json_schema;
pub use likeness::nearest;
pub use limits::{BytesPerSecond, Iops, LimitsChange, LimitsConfig, ParseLimitError};
pub use link::{LinkConfig, PeerConfig};
pub use load::{ConfigError, Loaded, load, load_with_places, located, parse};
pub use log_filter::{check_log_filter, log_filter};
pub use migration::{Dirty, MigrationConfig, Strategy};
pub use model::{CacheConfig, Config, DaemonConfig, DiskConfig, NbdConfig, TlsConfig};
pub use nbd_clients::{ClientName, DiskNbdConfig, ParseClientError};
pub use origin_place::{OriginPlace, identity};
pub use origins::{FileOrigin, IscsiOrigin, NbdOrigin, OriginConfig, RbdOrigin};
pub use otlp_url::{OTLP_PORT, OtlpUrl, ParseOtlpUrlError};
pub use policy::{PolicyChange, PolicyConfig, Spare, Staging, Window};
pub use rbd_uri::{ParseRbdUriError, RBD_SCHEME, RbdUri};
pub use reference::{Entry, Section, reference_sections};
pub use sources::{FOLDER, Place, Source, Sources};
pub use store::StoreConfig;
pub use telemetry::TelemetryConfig;
pub use text::{Address, Auto, Mode, ProgramPath, SocketPath, Switch, Text};
pub use uri::{NBD_PORT, NbdUri, NbdUriAddress, ParseUriError};
pub use vhost::{DiskVhostConfig, VhostUserConfig};
pub use vm::{VmChange, VmConfig, WEIGHT_MAX};
pub use web::{OPERATORS_EXAMPLE, WebConfig};
pub use words::{
    DestageOrder, LogFormat, LogTarget, NAME_BYTES_MAX, Name, OriginFormat, ParseNameError,
    ReclaimPolicy, TlsMode, WritePolicy,
};
pub use write_back::{ParseRateError, PerSecond, WriteBackChange, WriteBackConfig};

/// Where the admin API listens unless configured otherwise, and where the CLI looks for it.
pub const ADMIN_SOCKET_DEFAULT: &str = "/run/hearth/admin.sock";

/// Where the configuration is looked for unless `--config` says otherwise.
pub const CONFIG_DEFAULT: &str = "/etc/hearth/hearth.toml";

/// Every key with its unit, meaning and default.
pub const REFERENCE: &str = include_str!("../../../packaging/reference.toml");
