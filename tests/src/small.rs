//! A file system that is soon full.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;

use crate::{Lab, run, tools};

/// A file system in memory, of a few MiB. It is gone when this is dropped.
pub struct SmallFileSystem {
    folder: PathBuf,
}

impl SmallFileSystem {
    /// Mounts one of `kib` KiB; `None` if this user may not.
    ///
    /// # Errors
    ///
    /// When it cannot be mounted.
    pub fn mount(lab: &Lab, kib: u64) -> anyhow::Result<Option<Self>> {
        if !tools::is_root("a file system that is full") {
            return Ok(None);
        }
        let folder = lab.path("small");
        std::fs::create_dir(&folder).context("a folder to mount on")?;
        run(Command::new("mount")
            .args(["-t", "tmpfs", "-o"])
            .arg(format!("size={kib}k"))
            .arg("small")
            .arg(&folder))?;
        Ok(Some(Self { folder }))
    }

    /// A path on it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Makes a sparse file on it.
    ///
    /// # Errors
    ///
    /// When it cannot be made.
    pub fn sparse_file(&self, name: &str, mib: u64) -> anyhow::Result<PathBuf> {
        let path = self.path(name);
        File::create(&path)?.set_len(mib << 20)?;
        Ok(path)
    }

    /// Takes all the room that is left; gives the file that has it.
    ///
    /// # Errors
    ///
    /// When it does not become full.
    pub fn fill(&self) -> anyhow::Result<PathBuf> {
        let path = self.path("filler");
        let mut file = File::create(&path)?;
        let full = loop {
            if let Err(error) = file.write_all(&[1; 4096]) {
                break error;
            }
        };
        anyhow::ensure!(full.kind() == std::io::ErrorKind::StorageFull, "{full}");
        Ok(path)
    }

    /// Where it is mounted.
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

impl Drop for SmallFileSystem {
    fn drop(&mut self) {
        // Whatever goes wrong here shows when the folder cannot be removed.
        let _ = run(Command::new("umount").arg("--lazy").arg(&self.folder));
    }
}
