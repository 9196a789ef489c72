//! Which disks the hook has attached: an empty file for each, in a folder beside the admin socket, which is empty again after
//! a restart of the host.

use configuration::Name;
use std::io;
use std::path::{Path, PathBuf};

/// The folder of the files.
pub(super) struct Marks {
    folder: PathBuf,
}

impl Marks {
    pub(super) fn beside(admin_socket: &Path) -> Self {
        let folder = admin_socket.parent().unwrap_or(Path::new("/")).join("hook");
        Self { folder }
    }

    /// A file of a disk, with this ending.
    pub(super) fn path(&self, name: &Name, ending: &str) -> PathBuf {
        self.folder.join(format!("{name}.{ending}"))
    }

    /// Makes the folder.
    pub(super) fn make_folder(&self) -> io::Result<()> {
        std::fs::create_dir_all(&self.folder)
    }

    /// Remembers that the hook attached the disk.
    pub(super) fn set(&self, name: &Name) -> io::Result<()> {
        self.make_folder()?;
        std::fs::write(self.attached(name), "")
    }

    pub(super) fn is_set(&self, name: &Name) -> bool {
        self.attached(name).exists()
    }

    /// Forgets it.
    pub(super) fn clear(&self, name: &Name) {
        // What is not there need not go.
        let _ = std::fs::remove_file(self.attached(name));
    }

    fn attached(&self, name: &Name) -> PathBuf {
        self.path(name, "attached")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_set_and_cleared() {
        let folder = tempfile::tempdir().unwrap();
        let marks = Marks::beside(&folder.path().join("admin.sock"));
        let name: Name = "web-vda".parse().unwrap();
        assert!(!marks.is_set(&name));
        marks.set(&name).unwrap();
        assert!(marks.is_set(&name));
        marks.clear(&name);
        marks.clear(&name);
        assert!(!marks.is_set(&name));
    }
}
