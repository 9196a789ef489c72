//! What is wrong with who may open a disk over NBD.

use super::socket;
use crate::fault::Fault;
use crate::model::{Config, DiskConfig};
use crate::nbd_clients::ClientName;
use crate::text::{SocketPath, Switch, Text};
use crate::words::TlsMode;
use std::path::Path;

/// What is wrong with a disk's part on its own; keys are relative to the disk.
pub(super) fn disk_faults(disk: &DiskConfig) -> Vec<Fault> {
    let mut faults = Vec::new();
    let nbd = &disk.nbd;
    if let Some(path) = &nbd.socket {
        socket(path, "nbd.socket", &mut faults);
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
    use crate::nbd_clients::{ClientName, ParseClientError};
    use crate::parse;

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
