//! A flash file: made by `hearth cache format`, and broken on purpose.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use crate::{Lab, hearth, tools};

/// The file that stands in for local flash.
pub struct Flash {
    path: PathBuf,
}

impl Flash {
    /// Formats a file of `mib` MiB as a cache.
    ///
    /// # Errors
    ///
    /// When `hearth cache format` fails.
    pub fn format(lab: &Lab, name: &str, mib: u64) -> anyhow::Result<Self> {
        let path = lab.path(name);
        tools::run(
            Command::new(hearth::program()?)
                .args(["cache", "format"])
                .arg(&path)
                .args(["--size", &format!("{mib}MiB")]),
        )?;
        Ok(Self { path })
    }

    /// Takes a file that somebody else has made.
    pub fn existing(path: &Path) -> Self {
        Self {
            path: path.to_path_buf(),
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its size now.
    ///
    /// # Errors
    ///
    /// When it is gone.
    pub fn bytes(&self) -> anyhow::Result<u64> {
        Ok(std::fs::metadata(&self.path)
            .context("the flash file")?
            .len())
    }

    /// Cuts it off behind its first `bytes`.
    ///
    /// # Errors
    ///
    /// When the file system refuses.
    pub fn truncate(&self, bytes: u64) -> anyhow::Result<()> {
        Ok(File::options()
            .write(true)
            .open(&self.path)?
            .set_len(bytes)?)
    }

    /// Overwrites `length` bytes at each of `offsets` with what was never written there.
    ///
    /// # Errors
    ///
    /// When the file system refuses.
    pub fn rot(&self, offsets: impl IntoIterator<Item = u64>, length: usize) -> anyhow::Result<()> {
        let file = File::options().write(true).open(&self.path)?;
        for offset in offsets {
            file.write_all_at(&vec![0xa5; length], offset)?;
        }
        Ok(file.sync_all()?)
    }

    /// Flips one bit at each of `offsets`.
    ///
    /// # Errors
    ///
    /// When the file system refuses.
    pub fn flip_bits(&self, offsets: impl IntoIterator<Item = u64>) -> anyhow::Result<()> {
        let file = File::options().read(true).write(true).open(&self.path)?;
        for offset in offsets {
            let mut byte = [0];
            file.read_exact_at(&mut byte, offset)?;
            file.write_all_at(&[byte[0] ^ 0x10], offset)?;
        }
        Ok(file.sync_all()?)
    }

    /// Every byte of it, to put back later.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    pub fn content(&self) -> anyhow::Result<Vec<u8>> {
        std::fs::read(&self.path).context("the flash file")
    }
}
