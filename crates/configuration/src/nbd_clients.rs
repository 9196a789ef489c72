//! `clients` in `[nbd]`, and `[disk.nbd]`: who may open a disk over NBD.
//!
//! On the server's sockets a client proves who it is by TLS. A disk's own socket asks for no proof:
//! whom the file's permissions let connect may open that disk, and no other.

use super::text::{Mode, Text};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use utoipa::ToSchema;

/// A client as the configuration names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientName {
    /// `cert:NAME`: its certificate has this common name or alternative name.
    Certificate(String),
    /// `psk:NAME`: it knows the pre-shared key of this name.
    Key(String),
}

impl fmt::Display for ClientName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Certificate(name) => write!(f, "cert:{name}"),
            Self::Key(name) => write!(f, "psk:{name}"),
        }
    }
}

/// A text that names no client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("write cert:NAME, a name in the client's certificate, or psk:NAME, the name of its key")]
pub struct ParseClientError;

impl FromStr for ClientName {
    type Err = ParseClientError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once(':') {
            Some(("cert", name)) if !name.is_empty() => Ok(Self::Certificate(name.to_owned())),
            Some(("psk", name)) if !name.is_empty() => Ok(Self::Key(name.to_owned())),
            _ => Err(ParseClientError),
        }
    }
}

/// `[disk.nbd]`: who may open the disk over NBD.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DiskNbdConfig {
    /// The clients that may open it on the server's sockets, `cert:NAME` or `psk:NAME` each; unset,
    /// those of `nbd.clients`.
    #[schema(value_type = Option<Vec<String>>, example = json!(["cert:web-1.example.org"]))]
    pub clients: Option<Vec<Text<ClientName>>>,
    /// A socket on which it is the only export.
    #[schema(value_type = Option<String>, example = "/run/hearth/web-1.nbd.sock")]
    pub socket: Option<PathBuf>,
    /// That socket's permission bits; unset, those of `nbd.unix_socket_mode`.
    #[schema(value_type = Option<String>, example = "0660")]
    pub socket_mode: Option<Text<Mode>>,
    /// The group that owns it; unset, that of `nbd.unix_socket_group`.
    pub socket_group: Option<String>,
}
