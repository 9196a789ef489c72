//! The daemon: shards, exports and listeners, wired together.
//!
//! ```text
//!                 ┌──────────── Control ─────────────┐
//!   admin API ───►│ attach, detach, drop, policy ... │──► ShardHandle ──► shard threads
//!   retries  ────►│            Registry              │                        ▲
//!                 └───────────────▲──────────────────┘                        │
//!                                 │ names, sizes                              │ sockets
//!   NBD clients ──► nbd_server::Server ──► Exports ─────────────────────────┤
//!   VMs' QEMUs ───► Doors, a socket for each disk ────────────────────────────┘
//! ```
//!
//! A disk is in the registry from the moment somebody asks for it, and in its shard from the
//! moment its origin is open. Everything here is control: no request of a guest passes.

mod answers;
mod blocks;
mod brains;
mod claims;
mod control;
mod detaching;
mod disk_book;
mod doors;
mod exports;
mod keys;
mod ledger;
mod listen;
mod log;
mod lost_locks;
mod opening;
mod policies;
mod problems;
mod recorder;
mod recording;
mod registry;
mod renewal;
mod sampling;
mod serve;
mod service;
mod settings;
mod shards;
mod share_answers;
mod signals;
mod snapshot;
mod socket;
mod sockets;
mod starting;
mod state;
pub(crate) mod tenants;
mod vm_answers;
mod vm_control;
mod vms;
mod without_back;
mod write_back;

pub use control::Control;
pub(crate) use keys::key_store;
pub(crate) use serve::{runtime_dir, serve};
pub(crate) use settings::{origin as origin_spec, tls as tls_offer};
pub(crate) use state::{NoDaemon, is_running, remembered_disks};
pub use state::{StateDir, StateError};
