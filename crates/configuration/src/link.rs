//! `[link]` and `[[peer]]`: the hosts that disks may go to and come from.

use super::text::{Address, Auto, Switch, Text};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use units::{Bytes, Duration};

/// `[link]`: how this host meets its peers; without peers nothing of it is used. The connections are TLS 1.3, and both sides show a certificate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LinkConfig {
    /// This host's name, a DNS name in its certificate: what its peers call it. Needed if disks roam.
    #[serde(default)]
    pub name: Option<String>,
    /// Where peers may connect.
    pub address: Text<Switch<Address>>,
    /// This host's certificate chain.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// Who signs the certificates that peers must show.
    pub authority: PathBuf,
    /// How many bytes of other hosts' caches come here in a second, of all disks together.
    pub rate: Text<Auto<Bytes>>,
    /// How long a read waits for the host that lends its blocks, before the origin answers it.
    pub lend_timeout: Text<Duration>,
}

impl Default for LinkConfig {
    fn default() -> Self {
        Self {
            name: None,
            address: Text(Switch::Off),
            certificate: "/etc/hearth/link.pem".into(),
            key: "/etc/hearth/link.key".into(),
            authority: "/etc/hearth/link-authority.pem".into(),
            rate: Text(Auto::Auto),
            lend_timeout: Text(Duration::from_millis(200)),
        }
    }
}

/// `[[peer]]`: a host that lists disks which this host lists, too.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PeerConfig {
    /// A DNS name in its certificate: nothing else identifies it.
    pub name: String,
    /// Where it is dialed: host and port.
    pub address: String,
}

impl PeerConfig {
    /// A peer.
    pub fn new(name: String, address: String) -> Self {
        Self { name, address }
    }
}
