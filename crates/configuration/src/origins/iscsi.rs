//! An origin that is a logical unit of an iSCSI target.

use super::OriginConfig;
use super::keys::keys;
use super::times::Times;
use crate::fault::{Fault, absolute};
use crate::iscsi_uri::IscsiUri;
use crate::text::Text;
use serde::Serialize;
use std::path::PathBuf;
use units::Duration;
use utoipa::ToSchema;

/// A logical unit of an iSCSI target.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct IscsiOrigin {
    /// Which: `iscsi://portal/target/unit`.
    #[schema(value_type = String)]
    pub iscsi: Text<IscsiUri>,
    /// This host's name as an initiator; that of `/etc/iscsi/initiatorname.iscsi`, or one made of the machine's identity, if
    /// none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initiator: Option<String>,
    /// The name that the target knows this host by (CHAP).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chap_user: Option<String>,
    /// The file whose first line is the secret for it.
    #[schema(value_type = Option<String>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chap_secret_file: Option<PathBuf>,
    /// The name that the target gives itself (mutual CHAP).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_chap_user: Option<String>,
    /// The file whose first line is the secret for it.
    #[schema(value_type = Option<String>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_chap_secret_file: Option<PathBuf>,
    /// How long a login may take.
    #[schema(value_type = Option<String>, example = "10s")]
    pub connect_timeout: Text<Duration>,
    /// The longest pause between two logins.
    #[schema(value_type = Option<String>, example = "5s")]
    pub reconnect_pause_max: Text<Duration>,
    /// How long a request may wait, new logins included.
    #[schema(value_type = Option<String>, example = "1min")]
    pub request_timeout: Text<Duration>,
}

keys! {
    iscsi: Text<IscsiUri>,
    initiator: String,
    chap_user: String,
    chap_secret_file: PathBuf,
    target_chap_user: String,
    target_chap_secret_file: PathBuf,
}

impl Keys {
    /// The origin, if it is of this kind.
    pub(super) fn origin(self, times: &Times) -> Option<IscsiOrigin> {
        let default = IscsiOrigin::new(self.iscsi?.0);
        Some(IscsiOrigin {
            initiator: self.initiator,
            chap_user: self.chap_user,
            chap_secret_file: self.chap_secret_file,
            target_chap_user: self.target_chap_user,
            target_chap_secret_file: self.target_chap_secret_file,
            connect_timeout: times.connect_timeout(default.connect_timeout),
            reconnect_pause_max: times.reconnect_pause_max(default.reconnect_pause_max),
            request_timeout: times.request_timeout(default.request_timeout),
            ..default
        })
    }
}

impl IscsiOrigin {
    /// This unit, with every default.
    pub fn new(iscsi: IscsiUri) -> Self {
        Self {
            iscsi: Text(iscsi),
            initiator: None,
            chap_user: None,
            chap_secret_file: None,
            target_chap_user: None,
            target_chap_secret_file: None,
            connect_timeout: Text(Duration::from_secs(10)),
            reconnect_pause_max: Text(Duration::from_secs(5)),
            request_timeout: Text(Duration::from_secs(60)),
        }
    }

    pub(super) fn set_request_timeout(&mut self, time: Duration) {
        self.request_timeout = Text(time);
    }

    pub(super) fn canonical(&self) -> String {
        self.iscsi.0.to_string()
    }

    pub(super) fn faults(&self) -> Vec<Fault> {
        let mut faults = Vec::new();
        let pairs = [
            (
                &self.chap_user,
                &self.chap_secret_file,
                ".chap_user",
                ".chap_secret_file",
            ),
            (
                &self.target_chap_user,
                &self.target_chap_secret_file,
                ".target_chap_user",
                ".target_chap_secret_file",
            ),
        ];
        for (user, file, user_key, file_key) in pairs {
            match (user, file) {
                (Some(_), None) => faults.push(Fault::new(
                    user_key,
                    "its secret is missing: give the file that has it",
                )),
                (None, Some(_)) => faults.push(Fault::new(
                    file_key,
                    "its name is missing: say whose secret it is",
                )),
                (Some(_), Some(file)) => absolute(file, file_key, &mut faults),
                (None, None) => {}
            }
        }
        if self.target_chap_user.is_some() && self.chap_user.is_none() {
            faults.push(Fault::new(
                ".target_chap_user",
                "a target that proves who it is wants to know that of the host first: give chap_user",
            ));
        }
        faults
    }
}

impl From<IscsiOrigin> for OriginConfig {
    fn from(origin: IscsiOrigin) -> Self {
        Self::Iscsi(origin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_its_secret() {
        let uri: IscsiUri = "iscsi://store/iqn.2026-01.a:b/1".parse().unwrap();
        let whole = IscsiOrigin {
            chap_user: Some("host".to_owned()),
            chap_secret_file: Some("/etc/hearth/chap".into()),
            ..IscsiOrigin::new(uri)
        };
        assert!(whole.faults().is_empty());
        for wrong in [
            IscsiOrigin {
                chap_user: None,
                ..whole.clone()
            },
            IscsiOrigin {
                chap_secret_file: None,
                ..whole.clone()
            },
            IscsiOrigin {
                chap_secret_file: Some("chap".into()),
                ..whole.clone()
            },
            IscsiOrigin {
                target_chap_user: Some("t".to_owned()),
                ..whole.clone()
            },
        ] {
            assert_eq!(wrong.faults().len(), 1, "{wrong:?}");
        }
    }
}
