//! What the configuration says of a disk.

use std::path::Path;

/// A `[[disk]]` section.
#[derive(Clone)]
pub struct DiskSettings {
    pub(crate) text: String,
}

impl DiskSettings {
    /// A disk whose origin is an NBD server.
    pub fn on_nbd(name: &str, uri: &str) -> Self {
        let keys = "reconnect_pause_max = '200ms', request_timeout = '60s', settle_time = '1s'";
        Self::on_nbd_with(name, uri, keys)
    }

    /// The same with these keys of the origin.
    pub fn on_nbd_with(name: &str, uri: &str, keys: &str) -> Self {
        Self::new(name, &format!("nbd = '{uri}', {keys}"))
    }

    /// A disk whose origin is a file.
    pub fn on_file(name: &str, path: &Path) -> Self {
        Self::new(name, &format!("file = '{}'", path.display()))
    }

    /// The same with these keys of the origin.
    pub fn on_file_with(name: &str, path: &Path, keys: &str) -> Self {
        Self::new(name, &format!("file = '{}', {keys}", path.display()))
    }

    /// A disk whose origin is an image of Ceph.
    pub fn on_rbd(name: &str, address: &str) -> Self {
        Self::new(name, &format!("rbd = '{address}'"))
    }

    /// A disk whose origin is a unit of an iSCSI target, which knows this host by a name of the tests.
    pub fn on_iscsi(name: &str, address: &str, host: &str) -> Self {
        let keys = "reconnect_pause_max = '200ms', request_timeout = '60s'";
        let initiator = format!("iqn.2026-01.org.example:{host}");
        let origin = format!("iscsi = '{address}', initiator = '{initiator}', {keys}");
        Self::new(name, &origin)
    }

    fn new(name: &str, origin: &str) -> Self {
        Self {
            text: format!("\n[[disk]]\nname = '{name}'\norigin = {{ {origin} }}\n"),
        }
    }

    /// Its socket over vhost-user, and what else a guest sees there.
    #[must_use]
    pub fn vhost_user(self, socket: &Path, more: &str) -> Self {
        let socket = socket.display();
        self.key(&format!("vhost_user = {{ socket = '{socket}'{more} }}"))
    }

    /// Under write-back, with what waits for its origin staying on flash, up to so many MiB, until
    /// somebody asks for it.
    #[must_use]
    pub fn keeping_dirty(self, mib: u64) -> Self {
        self.key("write_policy = 'back'").key(&format!(
            "write_back = {{ dirty_max = '{mib}MiB', age_max = '1000s', idle_after = '1000s' }}"
        ))
    }

    /// One more line of the section.
    #[must_use]
    pub fn key(mut self, line: &str) -> Self {
        self.text.push_str(line);
        self.text.push('\n');
        self
    }
}
