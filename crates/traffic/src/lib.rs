//! Who talks to whom: traffic between VMs from sFlow, from connection tracking and from the agents in guests.
//!
//! ```text
//!   sFlow datagrams (UDP) ── sflow ────┐
//!   /proc/net/nf_conntrack ─ conntrack ┤
//!   a daemon's answers ───── agents ───┴─► Tally by VM (Addresses) ── each interval ──► groups::Smoothing ──► matrix
//! ```
//! [`collect`] drives it: the only place with a socket, a file and a clock; who asks the daemon is handed in. Parsers take bytes and text from strangers: what
//! they cannot read is counted or an error, and never ends the process.
//!
//! Invariants:
//! - Only traffic with a known VM at both ends is kept; the rest is counted as bytes.
//! - Memory is bounded by [`limits`], whatever is received.

#![forbid(unsafe_code)]

mod addresses;
mod agents;
pub mod collect;
mod conntrack;
pub mod limits;
mod sflow;
mod tally;

pub use addresses::{Address, AddressError, Addresses};
pub use agents::Said;
pub use conntrack::{Connections, ConntrackError};
pub use sflow::{Datagram, SflowError};
pub use tally::Tally;
