//! An origin that is an export of an NBD server.

use super::OriginConfig;
use super::keys::keys;
use super::times::Times;
use crate::fault::{Fault, absolute};
use crate::text::Text;
use crate::uri::NbdUri;
use serde::Serialize;
use serde::de::{Deserialize, Deserializer, Error};
use std::path::PathBuf;
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
    /// The file with the authorities that may have signed the server's certificate, as PEM; those of the system if none.
    #[schema(value_type = Option<String>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_authority: Option<PathBuf>,
    /// The file with this host's certificate, as PEM, if the server wants one.
    #[schema(value_type = Option<String>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_certificate: Option<PathBuf>,
    /// The file with the key of that certificate, as PEM.
    #[schema(value_type = Option<String>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_key: Option<PathBuf>,
    /// The name in the server's certificate, if not that of the address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_server_name: Option<String>,
    /// The file with pre-shared keys, instead of certificates.
    #[schema(value_type = Option<String>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_psk_file: Option<PathBuf>,
    /// Which of these keys.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_psk_name: Option<String>,
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
    tls_authority: PathBuf,
    tls_certificate: PathBuf,
    tls_key: PathBuf,
    tls_server_name: String,
    tls_psk_file: PathBuf,
    tls_psk_name: String,
    connections: Connections,
}

impl Keys {
    /// The origin, if it is of this kind.
    pub(super) fn origin(self, times: &Times) -> Option<NbdOrigin> {
        let default = NbdOrigin::new(self.nbd?.0);
        Some(NbdOrigin {
            tls_authority: self.tls_authority,
            tls_certificate: self.tls_certificate,
            tls_key: self.tls_key,
            tls_server_name: self.tls_server_name,
            tls_psk_file: self.tls_psk_file,
            tls_psk_name: self.tls_psk_name,
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
            tls_authority: None,
            tls_certificate: None,
            tls_key: None,
            tls_server_name: None,
            tls_psk_file: None,
            tls_psk_name: None,
            connections: 4,
            connect_timeout: Text(Duration::from_secs(10)),
            reconnect_pause_max: Text(Duration::from_secs(5)),
            request_timeout: Text(Duration::from_secs(60)),
            settle_time: Text(Duration::from_secs(30)),
        }
    }

    pub(super) fn set_request_timeout(&mut self, time: Duration) {
        self.request_timeout = Text(time);
    }

    pub(super) fn canonical(&self) -> String {
        self.nbd.0.to_string()
    }

    pub(super) fn faults(&self) -> Vec<Fault> {
        let mut faults = Vec::new();
        let mut wrong = |key: &str, message: &str| faults.push(Fault::new(key, message));
        let of_certificates = [
            (self.tls_authority.is_some(), ".tls_authority"),
            (self.tls_certificate.is_some(), ".tls_certificate"),
            (self.tls_server_name.is_some(), ".tls_server_name"),
        ];
        let certificates = of_certificates.iter().find(|(given, _)| *given);
        let key = self.tls_psk_file.is_some() || self.tls_psk_name.is_some();
        match (self.nbd.0.tls, certificates) {
            (false, Some((_, name))) => wrong(name, "the address is not encrypted: write nbds://"),
            (false, None) if key => wrong(
                ".tls_psk_file",
                "the address is not encrypted: write nbds://",
            ),
            (true, Some((_, name))) if key => {
                wrong(
                    name,
                    "the server proves itself by a certificate or by a key: give one of the two",
                );
            }
            _ => {}
        }
        if self.tls_certificate.is_some() != self.tls_key.is_some() {
            wrong(
                ".tls_certificate",
                "a certificate and its key belong together: give tls_certificate and tls_key",
            );
        }
        if self.tls_psk_file.is_some() != self.tls_psk_name.is_some() {
            wrong(
                ".tls_psk_file",
                "a file of keys and the name of one of them belong together: give tls_psk_file and tls_psk_name",
            );
        }
        let files = [
            (&self.tls_authority, ".tls_authority"),
            (&self.tls_certificate, ".tls_certificate"),
            (&self.tls_key, ".tls_key"),
            (&self.tls_psk_file, ".tls_psk_file"),
        ];
        for (file, key) in files {
            if let Some(file) = file {
                absolute(file, key, &mut faults);
            }
        }
        faults
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

#[cfg(test)]
mod tests {
    use super::*;

    fn of(address: &str, change: impl FnOnce(&mut NbdOrigin)) -> Vec<Fault> {
        let mut origin = NbdOrigin::new(address.parse().unwrap());
        change(&mut origin);
        origin.faults()
    }

    #[test]
    fn what_encrypts_belongs_together() {
        let with_key = |origin: &mut NbdOrigin| {
            origin.tls_psk_file = Some("/etc/hearth/keys.psk".into());
            origin.tls_psk_name = Some("host-1".to_owned());
        };
        let with_authority = |origin: &mut NbdOrigin| {
            origin.tls_authority = Some("/etc/pki/ca.pem".into());
        };
        assert!(of("nbds://h/e", |_| {}).is_empty());
        assert!(of("nbds://h/e", with_key).is_empty());
        assert!(of("nbds://h/e", with_authority).is_empty());
        assert_eq!(of("nbd://h/e", with_key).len(), 1);
        assert_eq!(of("nbd://h/e", with_authority).len(), 1);
        let both = |origin: &mut NbdOrigin| {
            with_key(origin);
            with_authority(origin);
        };
        assert_eq!(of("nbds://h/e", both).len(), 1);
        assert_eq!(of("nbds://h/e", |o| o.tls_key = Some("/k".into())).len(), 1);
        assert_eq!(
            of("nbds://h/e", |o| o.tls_psk_name = Some("n".to_owned())).len(),
            1
        );
        assert_eq!(
            of("nbds://h/e", |o| o.tls_authority = Some("ca".into())).len(),
            1
        );
    }
}
