//! `[web]`: the page for browsers.

use super::text::{Address, Switch, Text};
use serde::{Deserialize, Serialize};
use units::Duration;

/// `[web]`: the page that shows this host, which changes nothing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WebConfig {
    /// Where browsers may ask: an address of the loopback.
    pub address: Text<Switch<Address>>,
    /// Time between two points of the charts.
    pub history_step: Text<Duration>,
}

impl Default for WebConfig {
    fn default() -> Self {
        Self {
            address: Text(Switch::Off),
            history_step: Text(Duration::from_secs(30)),
        }
    }
}
