//! An origin that is an export of an NBD server.

use super::OriginConfig;
use super::keys::keys;
use super::times::Times;
use crate::fault::Fault;
use crate::text::Text;
use crate::uri::NbdUri;
use serde::Serialize;
use serde::de::{Deserialize, Deserializer, Error};
use units::Duration;
use utoipa::ToSchema;

/// Connections that a server may be asked for.
const CONNECTIONS_MAX: u8 = 16;

/// An export of an NBD server.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct NbdOrigin {
    /// Which, as an NBD URI.
    #[schema(value_type = String)]
    pub nbd: Text<NbdUri>,
    /// Connections to it, from 1 to 16.
    #[schema(required = false)]
    pub connections: u8,
    /// How long connecting may take.
    #[schema(value_type = Option<String>, example = "10s")]
    pub connect_timeout: Text<Duration>,
    /// The longest pause between two attempts to reconnect.
    #[schema(value_type = Option<String>, example = "10s")]
    pub reconnect_pause_max: Text<Duration>,
    /// How long a request may wait, reconnects included.
    #[schema(value_type = Option<String>, example = "10s")]
    pub request_timeout: Text<Duration>,
    /// How long a server may go on with a write after its connection has ended.
    #[schema(value_type = Option<String>, example = "30s")]
    pub settle_time: Text<Duration>,
}

keys! {
    nbd: Text<NbdUri>,
    connections: Connections,
}

impl Keys {
    /// The origin, if it is of this kind.
    pub(super) fn origin(self, times: &Times) -> Option<NbdOrigin> {
        let default = NbdOrigin::new(self.nbd?.0);
        Some(NbdOrigin {
            connections: self
                .connections
                .map_or(default.connections, |count| count.0),
            connect_timeout: times.connect_timeout(default.connect_timeout),
            reconnect_pause_max: times.reconnect_pause_max(default.reconnect_pause_max),
            request_timeout: times.request_timeout(default.request_timeout),
            settle_time: times.settle_time(default.settle_time),
            ..default
        })
    }
}

impl NbdOrigin {
    /// This export, with every default.
    pub fn new(nbd: NbdUri) -> Self {
        Self {
            nbd: Text(nbd),
            connections: 4,
            connect_timeout: Text(Duration::from_secs(10)),
            reconnect_pause_max: Text(Duration::from_secs(5)),
            request_timeout: Text(Duration::from_secs(60)),
            settle_time: Text(Duration::from_secs(30)),
        }
    }

    pub(super) fn canonical(&self) -> String {
        self.nbd.0.to_string()
    }

    /// None: what could be wrong is not read.
    #[allow(clippy::unused_self, reason = "as every kind of origin")]
    pub(super) fn faults(&self) -> Vec<Fault> {
        Vec::new()
    }
}

impl From<NbdOrigin> for OriginConfig {
    fn from(origin: NbdOrigin) -> Self {
        Self::Nbd(origin)
    }
}

/// A number of connections that may be asked for.
struct Connections(u8);

impl<'de> Deserialize<'de> for Connections {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let count = u8::deserialize(deserializer)?;
        if (1..=CONNECTIONS_MAX).contains(&count) {
            return Ok(Self(count));
        }
        Err(Error::custom(format!(
            "must be between 1 and {CONNECTIONS_MAX}"
        )))
    }
}
