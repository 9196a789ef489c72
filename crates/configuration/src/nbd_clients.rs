//! `clients` in `[nbd]`, and `[disk.nbd]`: who may open a disk over NBD.
//!
//! On the server's sockets a client proves who it is by TLS. A disk's own socket asks for no proof:
//! whom the file's permissions let connect may open that disk, and no other.

use super::Fault;
use super::check;
use super::model::{Config, DiskConfig, SocketPath};
use super::text::{Mode, Switch, Text};
use super::words::TlsMode;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::{Path, PathBuf};
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

/// What is wrong with a disk's part on its own; keys are relative to the disk.
pub(super) fn disk_faults(disk: &DiskConfig) -> Vec<Fault> {
    let mut faults = Vec::new();
    let nbd = &disk.nbd;
    if let Some(path) = &nbd.socket {
        check::socket(path, "nbd.socket", &mut faults);
        if disk.shared {
            let message = "a shared disk has an export for each VM that reads it, on the server's \
                           sockets: remove this, and name their clients";
            faults.push(Fault::new("nbd.socket", message));
        }
    } else {
        let named = [
            ("nbd.socket_mode", nbd.socket_mode.is_some()),
            ("nbd.socket_group", nbd.socket_group.is_some()),
        ];
        for (key, _) in named.into_iter().filter(|(_, is_there)| *is_there) {
            let message = "goes together with a socket of the disk's own: name one as nbd.socket";
            faults.push(Fault::new(key, message));
        }
    }
    faults
}

/// Clients who cannot prove what they are called, since the server does not ask for it.
pub(super) fn faults(config: &Config, faults: &mut Vec<Fault>) {
    let tls = &config.nbd.tls;
    let is_on = tls.mode != TlsMode::Off;
    let mut look = |key: String, names: &Option<Vec<Text<ClientName>>>| {
        for Text(name) in names.iter().flatten() {
            let (is_proved, needed) = match name {
                ClientName::Certificate(_) => {
                    let asked = tls.certificate.is_some() && tls.client_authority.is_some();
                    (is_on && asked, "nbd.tls.client_authority")
                }
                ClientName::Key(_) => (is_on && tls.psk_file.is_some(), "nbd.tls.psk_file"),
            };
            if !is_proved {
                let message = format!(
                    "nobody can prove to be {name}: set nbd.tls.mode to \"require\" or \"allow\" together with {needed}"
                );
                faults.push(Fault::new(key.clone(), message));
            }
        }
    };
    look("nbd.clients".to_owned(), &config.nbd.clients);
    for (at, disk) in config.disks.iter().enumerate() {
        look(format!("disk[{at}].nbd.clients"), &disk.nbd.clients);
    }
}

/// The sockets that are not a disk's over vhost-user, and what each is.
pub(super) fn sockets(config: &Config) -> Vec<(&Path, String, String)> {
    let admin = &config.daemon.admin_socket;
    let mut all = vec![(
        admin.as_path(),
        "daemon.admin_socket".to_owned(),
        "the admin socket".to_owned(),
    )];
    if let Switch::On(SocketPath(path)) = &config.nbd.unix_socket.0 {
        let key = "nbd.unix_socket".to_owned();
        all.push((path, key, "the NBD socket".to_owned()));
    }
    for (at, disk) in config.disks.iter().enumerate() {
        if let Some(path) = &disk.nbd.socket {
            let what = format!("the NBD socket of disk[{at}]");
            all.push((path, format!("disk[{at}].nbd.socket"), what));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;

    const CACHE: &str = "[[cache]]\nname='c'\npath='/c'\n";

    fn disk(name: &str, nbd: &str) -> String {
        format!("[[disk]]\nname='{name}'\norigin={{ file='/{name}' }}\nnbd={{ {nbd} }}\n")
    }

    fn faults_of(text: &str) -> Vec<String> {
        let faults = parse(text).unwrap_err();
        faults.into_iter().map(|fault| fault.key).collect()
    }

    #[test]
    fn a_client_is_named_by_its_certificate_or_its_key() {
        for text in ["cert:web", "psk:vm:1", "cert:spiffe://lan/web"] {
            assert_eq!(text.parse::<ClientName>().unwrap().to_string(), text);
        }
        for text in ["", "web", "cert:", "psk:", "key:web"] {
            assert_eq!(text.parse::<ClientName>(), Err(ParseClientError), "{text}");
        }
    }

    #[test]
    fn a_client_that_cannot_prove_its_name_is_a_fault() {
        let psk = "[nbd.tls]\nmode='require'\npsk_file='/k'\n";
        let named = |names: &str| disk("d", &format!("clients=[{names}]"));
        parse(&format!("{psk}{CACHE}{}", named("'psk:a'"))).unwrap();
        parse(&format!("{CACHE}{}", named(""))).unwrap();
        let key = "disk[0].nbd.clients";
        assert_eq!(faults_of(&format!("{CACHE}{}", named("'psk:a'"))), [key]);
        let cert = format!("{psk}{CACHE}{}", named("'cert:a'"));
        assert_eq!(faults_of(&cert), [key]);
        let all = format!("[nbd]\nclients=['psk:a']\n{CACHE}");
        assert_eq!(faults_of(&all), ["nbd.clients"]);
    }

    #[test]
    fn a_disk_s_own_socket_is_nobody_else_s() {
        let own = |name| disk(name, "socket='/s'");
        let twice = format!("{CACHE}{}{}", own("a"), own("b"));
        assert_eq!(faults_of(&twice), ["disk[1].nbd.socket"]);
        let admin = format!("[daemon]\nadmin_socket='/s'\n{CACHE}{}", own("a"));
        assert_eq!(faults_of(&admin), ["disk[0].nbd.socket"]);
        let both = disk("a", "socket='/s'") + "vhost_user={ socket='/s' }\n";
        assert_eq!(
            faults_of(&format!("{CACHE}{both}")),
            ["disk[0].vhost_user.socket"]
        );
        let mode = disk("a", "socket_mode='0600'");
        assert_eq!(
            faults_of(&format!("{CACHE}{mode}")),
            ["disk[0].nbd.socket_mode"]
        );
        let shared = disk("a", "socket='/s'") + "shared=true\n";
        assert_eq!(
            faults_of(&format!("{CACHE}{shared}")),
            ["disk[0].nbd.socket"]
        );
    }
}
