//! A virtio-blk device that QEMU or Cloud Hypervisor attaches over a unix socket: the second front
//! end, beside NBD, with the same words to its disk.
//!
//! ```text
//!  QEMU ── unix socket ──► Connection ── Incoming ─► whatever serves the disk
//!   │   messages, memory,   │    ▲ ▲                       │
//!   │   eventfds            │    │ └────── reply() ────────┘  or reply_in_place(), when the disk
//!  guest ── rings ──────────┘    │                              read into buffers() itself
//!        ◄── interrupts ─────────┘
//! ```
//!
//! One [`Connection`] is one VM's device with all its queues. It lives on one thread and ring, has
//! no threads and takes no locks. What is decided about messages, rings and requests is in the
//! crate `vhost-protocol`; this one maps memory, moves bytes and drives the ring.
//!
//! Trust: a guest and its QEMU are hostile. They can harm their own device, nothing else:
//! - Every descriptor that arrives is owned at once and closed when it is not used.
//! - Memory is touched only within mappings that were checked against their file; a file that is
//!   cut afterwards costs its owner the connection, not the process its life.
//! - Nothing blocks: the socket is read and written without waiting, eventfds only by the ring.

mod answer;
mod asked;
mod bell;
mod connection;
mod device;
mod dirty;
mod front_end;
mod guard;
mod kick;
pub mod limits;
mod mapping;
mod memory;
mod queues;
mod quota;
mod requests;
mod session;
mod socket;
mod tokens;
mod vring;

pub use connection::Connection;
pub use device::Disk;
pub use front_end::{Client, FRONT_END};
pub use quota::MappingLimits;
