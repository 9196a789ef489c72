//! A daemon that lets TCP clients in with TLS and a pre-shared key only.

use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::{Lab, free_port};

/// A key, in a folder of its own as QEMU wants it, and the port on which it is asked for.
pub struct Psk {
    folder: PathBuf,
    port: u16,
}

impl Psk {
    /// Whom the key is for.
    pub const USER: &str = "vm1";

    /// Makes a key, and chooses a port.
    ///
    /// # Errors
    ///
    /// When the file cannot be written, or there is no port.
    pub fn new(lab: &Lab) -> anyhow::Result<Self> {
        let folder = lab.path("keys");
        std::fs::create_dir_all(&folder).context("a folder for the key")?;
        let user = Self::USER;
        let key = "6b2f0f3f8c0d4f57a4a1c1a1f2f5c2b9e0c4a87f1d3d6e52b8a9c0d1e2f30415";
        let made = Self {
            folder,
            port: free_port()?,
        };
        std::fs::write(made.file(), format!("{user}:{key}\n")).context("a key")?;
        Ok(made)
    }

    /// Where the key's file, `keys.psk`, lies.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The key's file.
    pub fn file(&self) -> PathBuf {
        self.folder.join("keys.psk")
    }

    /// The port of loopback.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// What `[nbd]` has for it.
    pub fn settings(&self) -> String {
        format!(
            "tcp_address = '127.0.0.1:{}'\n[nbd.tls]\nmode = 'require'\npsk_file = '{}'",
            self.port,
            self.file().display()
        )
    }
}
