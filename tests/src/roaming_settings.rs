//! What differs between pairs of hosts that a disk roams between.

use crate::links;

/// What differs from the usual.
#[derive(Clone, Copy)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is a setting of its own"
)]
pub struct RoamingSettings {
    /// `through`, `around` or `back`.
    pub write_policy: &'static str,
    /// The names in the certificates of the hosts.
    pub certified: [&'static str; 2],
    /// Whether the hosts know of each other. Otherwise they share an NBD server, each as if alone.
    pub roams: bool,
    /// What comes of the cache when the disk moves, if it roams: `live`, `on-demand`, `hotlist` or `none`.
    pub strategy: &'static str,
    /// What becomes of what the origin lacks, if it roams: `drain` or `ship`.
    pub dirty: &'static str,
    /// How much of that each host has room for.
    pub dirty_max: [&'static str; 2],
    /// Size of the flash files.
    pub flash_mib: u64,
    /// Whether each host has a socket for vhost-user: see [`vhost_socket`](crate::RoamingPair::vhost_socket).
    pub vhost_user: bool,
    /// Whether each host has a key of its own for the disk: see [`key`](crate::RoamingPair::key).
    pub encrypted: bool,
    /// `[link] rate` of each host.
    pub link_rates: [&'static str; 2],
    /// `[link] lend_timeout` of each host: a test that counts what was lent has one that no busy machine reaches.
    pub lend_timeout: &'static str,
    /// Whether both reach the image over an NBD server, and share a folder of owner's records.
    pub on_export: bool,
}

impl Default for RoamingSettings {
    fn default() -> Self {
        Self {
            write_policy: "back",
            certified: links::NAMES,
            roams: true,
            strategy: "live",
            dirty: "drain",
            dirty_max: ["32MiB"; 2],
            flash_mib: 128,
            vhost_user: false,
            encrypted: false,
            link_rates: ["auto"; 2],
            lend_timeout: "200ms",
            on_export: false,
        }
    }
}
