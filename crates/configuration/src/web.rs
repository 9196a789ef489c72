//! `[web]`: the page for browsers.

use super::text::{Address, Switch, Text};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use units::Duration;

/// Where `hearth operator` keeps operators unless the configuration says otherwise.
pub const OPERATORS_EXAMPLE: &str = "/etc/hearth/operators";

/// `[web]`: the page that shows this host, and through which its operators change disks and VMs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WebConfig {
    /// Where browsers may ask: an address of the loopback, or any with TLS.
    pub address: Text<Switch<Address>>,
    /// Time between two points of the charts.
    pub history_step: Text<Duration>,
    /// The page's certificate chain, PEM, leaf first: the page is then served over TLS alone.
    pub tls_certificate: Option<PathBuf>,
    /// Its key.
    pub tls_key: Option<PathBuf>,
    /// Authorities whose certificates operators may show.
    pub client_ca: Option<PathBuf>,
    /// The file with the operators: who may change something.
    pub operators: Option<PathBuf>,
}

impl Default for WebConfig {
    fn default() -> Self {
        Self {
            address: Text(Switch::Off),
            history_step: Text(Duration::from_secs(30)),
            tls_certificate: None,
            tls_key: None,
            client_ca: None,
            operators: None,
        }
    }
}
