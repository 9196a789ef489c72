//! `[guest]`: the sockets over which agents in guests speak with the daemon, one for each VM.

use super::text::{Mode, SocketPath, Switch, Text};
use super::words::Name;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// `[guest]`: what holds for every VM's socket.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GuestConfig {
    /// Where each VM has a socket by its name.
    pub directory: Text<Switch<SocketPath>>,
    /// Permission bits of the sockets.
    pub socket_mode: Text<Mode>,
    /// The group that owns them.
    pub socket_group: Option<String>,
    /// Whether it is kept what guests say of whom they speak with.
    pub sockets: bool,
}

impl Default for GuestConfig {
    fn default() -> Self {
        Self {
            directory: Text(Switch::Off),
            socket_mode: Text(Mode::new(0o660)),
            socket_group: None,
            sockets: false,
        }
    }
}

impl GuestConfig {
    /// The socket of a VM; none if there are none. The same on every host with this directory, so that a VM that
    /// migrates finds it.
    pub fn socket(&self, vm: &Name) -> Option<PathBuf> {
        let directory = self.directory.0.as_ref()?;
        Some(directory.0.join(format!("{vm}.sock")))
    }
}

#[cfg(test)]
mod tests {
    use crate::parse;

    #[test]
    fn a_vm_has_its_socket_by_its_name() {
        let config = parse("[guest]\ndirectory='/run/hearth/guest'\n").unwrap();
        let vm = "web".parse().unwrap();
        let path = config.guest.socket(&vm).unwrap();
        assert_eq!(path.to_str(), Some("/run/hearth/guest/web.sock"));
        assert_eq!(parse("").unwrap().guest.socket(&vm), None);
    }

    #[test]
    fn sockets_of_disks_and_of_guests_lie_apart() {
        let both = "[guest]\ndirectory='/v'\n[vhost_user]\ndirectory='/v'\n";
        let faults = parse(both).unwrap_err();
        assert_eq!(faults[0].key, "guest.directory");
        assert!(parse("[guest]\ndirectory='v'\n").is_err());
    }
}
