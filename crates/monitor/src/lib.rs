//! What a host and its VMs use of processor, memory, disk and network.
//!
//! ```text
//!   /proc ─► texts ─► Reading: counters since the boot ─┐
//!                     Reading, a while before ──────────┴─► Usage: rates and shares ─► History, the last 720
//!   QMP, virsh domstats ─► VmReading: vCPUs, memory, balloon, disks of each VM
//! ```
//!
//! The resource monitor of `MultiCache`: every few seconds the counters of the host and of each VM's process are read, and what was
//! used between two readings is kept. A program reads the files; here their texts become numbers. Everything is pure.
//!
//! Units: seconds, bytes, shares from 0 to 1 of the whole host.

#![forbid(unsafe_code)]

mod domstats;
mod history;
mod qmp;
mod reading;
mod usage;
mod vm;
mod weight;

pub use domstats::{DOMSTATS_BYTES_MAX, DomstatsError, domstats};
pub use history::History;
pub use qmp::{QMP_BYTES_MAX, Qmp, QmpError, QmpStep};
pub use reading::{HostReading, HostTexts, ProcessReading, Reading, Unreadable};
pub use usage::{HostUsage, ProcessUsage, Usage};
pub use vm::{BlockReading, VmFigures, VmReading};
pub use weight::{Standing, is_another_weight, weights};
