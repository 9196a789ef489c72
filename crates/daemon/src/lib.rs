//! The daemon: shards, exports and listeners, wired together.
//!
//! ```text
//!                 ┌──────────── Control ─────────────┐
//!   admin API ─┬─►│ attach, detach, drop, policy ... │──► ShardHandle ──► shard threads
//!   retries    │  │ Opener   Tenancies   Remembered  │                        ▲
//!              │  └────────────────┬─────────────────┘                        │
//!              └─► Observer ──► Registry                                      │ sockets
//!                                  ▲ names, sizes                             │
//!   NBD clients ──► nbd_server::Server ──► Exports ───────────────────────────┤
//!   VMs' QEMUs ───► DiskSockets, one or more for each disk ───────────────────┘
//! ```
//!
//! A disk is in the registry from the moment somebody asks for it, and in its shard from the
//! moment its origin is open. Everything here is control: no request of a guest passes.

#![forbid(unsafe_code)]

pub mod admin;
mod admin_listeners;
pub mod advice;
mod answers;
mod assembly;
mod attach_at_start;
mod background;
mod blocks;
mod claims;
mod cluster;
mod control;
mod debts;
mod detaching;
mod dirty_room;
mod disk_book;
mod disk_sockets;
mod drive_watch;
mod environment;
mod error;
mod event_log;
mod exports;
mod flash_size;
mod glance;
mod guest_channel;
mod guest_hints;
mod guest_peers;
mod guest_sockets;
mod hand_overs;
mod history;
mod image_view;
mod initiator;
mod keep_ledger;
mod keys;
mod ledger;
mod listen;
mod loads;
mod lock_watch;
mod log;
mod looking;
mod looks;
mod lost_locks;
pub mod metrics;
mod moving;
mod observer;
mod occupied;
mod opening;
mod orders;
mod origin_checks;
mod own_process;
mod pace;
mod page_access;
mod page_tls;
mod peering;
mod policies;
mod policy_control;
mod problems;
mod recorder;
mod recording;
mod registry;
mod reload;
mod remembered;
mod renewal;
mod resources;
mod roaming;
mod roaming_answers;
mod sampling;
mod scrub_records;
mod scrubs;
mod serve;
mod service;
mod settings;
mod shards;
mod share_answers;
mod signals;
mod socket;
mod sockets;
mod starting;
mod state;
mod system;
mod tenancies;
mod tenants;
mod traces;
mod vm_answers;
mod vm_control;
mod vms;
mod vouching;
mod without_back;
mod write_back;

pub use admin::verbs;
pub use control::Control;
pub use environment::{environment, operators_file, stops_a_start};
pub use error::{ServeError, ServeErrorKind};
pub use flash_size::{page, superblock};
pub use keys::{key_store, remembered_faults};
pub use observer::Observer;
pub use roaming::given_in;
pub use serve::serve;
pub use settings::{origin as origin_spec, runtime_dir};
pub use state::{NoDaemon, StateDir, StateError, remembered_disks};
pub use system::{GroupError, group_id, holder_of};
