//! What a systemd unit lets its service see and do, applied without systemd: a test starts the
//! daemon just as it is installed.
//!
//! ```text
//!   unit + drop-ins ─► Confinement ─► mounts (root folder, proc, dev, read-only, own folders)
//!                      every setting    ─► user, groups, capabilities, limits
//!                      is known, or     ─► filters of system calls ─► exec
//!                      it is an error
//! ```
//!
//! The program `unit-sandbox` does it in namespaces of its own (`unshare --mount --uts`). What only
//! the manager of services sees of a unit (restarts, time limits) is not applied, but named: see
//! [`confinement`].

mod confinement;
mod enter;
mod filters;
mod mounts;

pub use enter::enter;
