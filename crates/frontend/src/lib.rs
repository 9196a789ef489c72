//! What every front end shares with the disks that it reaches. A front end is a crate of its own:
//! `nbd-server`, `vhost-user`.
//!
//! ```text
//!  a VM connects ─► Box<dyn NewClient> ── to the disk's shard ─► open(Context) ─► Box<dyn Connection>
//!
//!  Connection ── Incoming ─► shard ─► cache          on the shard's thread and ring: the hot path
//!      ▲                       │
//!      └─────── reply() ◄──────┘
//! ```
//!
//! A shard knows of a front end what is in [`NewClient`], [`Connection`] and [`FrontEnd`], and no
//! more. Nothing here knows of caches.

#![forbid(unsafe_code)]

pub mod budget;
mod client;
mod connection;
mod in_flight;
pub mod limits;
mod report;
mod request;
mod reservation;

pub use block_io::Verb;
pub use client::{Context, FrontEnd, NewClient, Offer};
pub use connection::{Connection, PolledQueues, State};
pub use in_flight::{InFlight, Weight};
pub use report::{Counters, Report};
pub use request::{Incoming, RequestKey};
pub use reservation::{Reservation, Reserving};
