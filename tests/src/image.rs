//! A raw disk image with known content.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

use crate::{Lab, tools};

/// An image whose every 8 bytes follow from their position, so that a block out of place is seen.
pub struct Image {
    path: PathBuf,
    bytes: u64,
}

impl Image {
    /// Writes an image of `mib` MiB.
    ///
    /// # Errors
    ///
    /// When it cannot be written.
    pub fn new(lab: &Lab, name: &str, mib: u64) -> anyhow::Result<Self> {
        let path = lab.path(name);
        let bytes = mib << 20;
        let mut out = BufWriter::with_capacity(1 << 20, File::create(&path).context("an image")?);
        for position in (0..bytes).step_by(8) {
            out.write_all(&Self::word(position).to_le_bytes())?;
        }
        out.into_inner().context("an image")?.sync_all()?;
        Ok(Self { path, bytes })
    }

    /// Takes a file as it is.
    ///
    /// # Errors
    ///
    /// When there is none.
    pub fn existing(path: &Path) -> anyhow::Result<Self> {
        let bytes = std::fs::metadata(path)
            .with_context(|| path.display().to_string())?
            .len();
        Ok(Self {
            path: path.to_path_buf(),
            bytes,
        })
    }

    /// The eight bytes at `position`, a multiple of eight, in a new image.
    pub fn word(position: u64) -> u64 {
        (position ^ 0x5bd1_e995)
            .wrapping_mul(0x9fb2_1c65_1e98_df25)
            .rotate_left(29)
            ^ position
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its size.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Reads from the file itself, past every server.
    ///
    /// # Errors
    ///
    /// When that is not possible.
    pub fn read(&self, offset: u64, length: usize) -> anyhow::Result<Vec<u8>> {
        let mut buffer = vec![0; length];
        File::open(&self.path)?.read_exact_at(&mut buffer, offset)?;
        Ok(buffer)
    }

    /// Checks that the export at `uri` is, byte for byte, this image.
    ///
    /// # Errors
    ///
    /// At the first block that differs.
    pub fn check_equals_export(&self, lab: &Lab, uri: &str) -> anyhow::Result<()> {
        let seen = read_export(lab, uri)?;
        let real = std::fs::read(&self.path).context("the image")?;
        ensure!(
            seen.len() == real.len(),
            "{} bytes through hearth, {} at the origin",
            seen.len(),
            real.len()
        );
        for (block, (seen, real)) in seen.chunks(4096).zip(real.chunks(4096)).enumerate() {
            ensure!(seen == real, "block {block} differs from the origin's");
        }
        Ok(())
    }
}

/// Reads a whole export, in order, and gives the bytes.
///
/// # Errors
///
/// When the copy fails.
pub(crate) fn read_export(lab: &Lab, uri: &str) -> anyhow::Result<Vec<u8>> {
    let copy = lab.path("copy.raw");
    let _ = std::fs::remove_file(&copy);
    // One connection, so that requests and connections of a test are its own.
    tools::run(
        Command::new("nbdcopy")
            .args(["--connections=1", "--destination-is-zero"])
            .arg(uri)
            .arg(&copy),
    )?;
    std::fs::read(&copy).context("the copy")
}
