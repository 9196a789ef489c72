//! An origin that is an image of a Ceph cluster.

use super::OriginConfig;
use super::keys::keys;
use super::times::Times;
use crate::fault::Fault;
use crate::rbd_uri::RbdUri;
use crate::text::Text;
use serde::Serialize;
use units::Duration;
use utoipa::ToSchema;

/// An image of a Ceph cluster.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct RbdOrigin {
    /// Which: `rbd:pool/image`, with `@snapshot`, `?conf=PATH` and `&user=NAME` where they are needed.
    #[schema(value_type = String)]
    pub rbd: Text<RbdUri>,
    /// How long opening may take.
    #[schema(value_type = Option<String>, example = "10s")]
    pub connect_timeout: Text<Duration>,
    /// How long a request may take.
    #[schema(value_type = Option<String>, example = "1min")]
    pub request_timeout: Text<Duration>,
}

keys! {
    rbd: Text<RbdUri>,
}

impl Keys {
    /// The origin, if it is of this kind.
    pub(super) fn origin(self, times: &Times) -> Option<RbdOrigin> {
        let default = RbdOrigin::new(self.rbd?.0);
        Some(RbdOrigin {
            connect_timeout: times.connect_timeout(default.connect_timeout),
            request_timeout: times.request_timeout(default.request_timeout),
            ..default
        })
    }
}

impl RbdOrigin {
    /// This image, with every default.
    pub fn new(rbd: RbdUri) -> Self {
        Self {
            rbd: Text(rbd),
            connect_timeout: Text(Duration::from_secs(10)),
            request_timeout: Text(Duration::from_secs(60)),
        }
    }

    pub(super) fn set_request_timeout(&mut self, time: Duration) {
        self.request_timeout = Text(time);
    }

    pub(super) fn canonical(&self) -> String {
        self.rbd.0.to_string()
    }

    pub(super) fn faults(&self) -> Vec<Fault> {
        let mut faults = Vec::new();
        if let Some(conf) = &self.rbd.0.conf {
            crate::fault::absolute(conf, ".rbd", &mut faults);
        }
        faults
    }
}

impl From<RbdOrigin> for OriginConfig {
    fn from(origin: RbdOrigin) -> Self {
        Self::Rbd(origin)
    }
}
