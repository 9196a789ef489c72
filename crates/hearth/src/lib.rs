//! The program's command line, as a library so that tests can reach the parts.
//!
//! ```text
//!   cli      what a user types: commands, their arguments, what they print
//!   sim, mrc, advise   traces through simulated caches, their curves, and what follows
//!   plan     which VM should run on which host
//!   top, xml, bench    the live view; texts for VMs; a load on the front ends
//!   cluster  all hosts and disks of the cluster, and what holds for all of them
//!   config   what holds of a configuration, and its schema
//!   moves    VMs on their way between hosts
//!   event_log   what has happened, and what operators did
//!   group    which VMs cross a link together
//!   group, traffic   which VMs cross a link together; who talks to whom
//!   offline  caches that no daemon is using: format, check
//!   support  what is known of a daemon and its host, in a file
//!   domain   libvirt's XML of a VM: read, changed, compared
//!   docs     book pages, manual pages, completions: made of the definitions above
//! ```
//!
//! What `hearth serve` runs is the crate `daemon`.

#![forbid(unsafe_code)]

pub mod advise;
pub mod bench;
pub mod cli;
pub mod cluster;
pub mod config;
pub mod docs;
mod domain;
pub mod event_log;
pub mod group;
pub mod moves;
pub mod mrc;
pub mod offline;
pub mod operator;
pub mod plan;
pub mod resources;
pub mod sim;
pub mod support;
pub mod terminal;
pub mod top;
pub mod traces;
pub mod traffic;
pub mod xml;
