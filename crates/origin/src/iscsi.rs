//! A logical unit of an iSCSI target as an origin.
//!
//! ```text
//!   submit, poll ─► nbd_client ─ requests of NBD ─► Bridge ─ commands of SCSI ─► libiscsi ═══ target
//!                       ▲                             │
//!                       └────── answers of NBD ───────┘
//! ```
//!
//! What is sent again after a loss, in which order, and what no flush vouches for, is the same for every far side that may
//! forget what it has acknowledged. The NBD client knows it, so a unit is served to that client, in this process, as a server
//! of NBD would serve it.
//!
//! A disk that is written has the unit's persistent reservation (SPC-4), so no other host writes it. Logging in again ends
//! the session before with all its commands (RFC 7143, section 6.3.5), and a reset of the unit waits for them: nothing of a
//! former session can land any more.

mod bridge;
mod key;
mod kind;
mod remote;
mod reservation;
mod unit;
