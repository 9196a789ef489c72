//! Where the owner's record of a disk is that two hosts list.

use anyhow::Context as _;
use serde_json::Value;
use std::path::{Path, PathBuf};

use crate::{Etcd, HearthSettings, Image};

/// Where it is.
pub(crate) enum Records {
    /// Beside the image.
    Beside(PathBuf),
    /// In a folder that the hosts share.
    Folder(PathBuf),
    /// In the store of their cluster.
    Etcd(Etcd),
}

impl Records {
    pub(crate) fn beside(image: &Image) -> Self {
        let mut path = image.path().as_os_str().to_owned();
        path.push(".hearth");
        Self::Beside(PathBuf::from(path))
    }

    /// What a host's configuration says of that.
    pub(crate) fn configured(&self, settings: HearthSettings) -> HearthSettings {
        match self {
            Self::Beside(_) => settings,
            Self::Folder(folder) => {
                settings.daemon_key(&format!("owners_dir = '{}'", folder.display()))
            }
            Self::Etcd(etcd) => settings.section(&etcd.as_section("")),
        }
    }

    /// The file of the record.
    ///
    /// # Panics
    ///
    /// When it is in no file.
    pub(crate) fn path(&self) -> PathBuf {
        match self {
            Self::Beside(path) => path.clone(),
            Self::Folder(folder) => in_folder(folder),
            Self::Etcd(_) => panic!("a test that reads a record's file uses a file"),
        }
    }

    /// The record of a disk.
    pub(crate) fn read(&self, disk: &str) -> anyhow::Result<Value> {
        let text = match self {
            Self::Etcd(etcd) => etcd.record(disk)?,
            Self::Beside(_) | Self::Folder(_) => {
                std::fs::read_to_string(self.path()).context("the owner's record")?
            }
        };
        serde_json::from_str(&text).with_context(|| text.clone())
    }
}

fn in_folder(folder: &Path) -> PathBuf {
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths = files.map(|file| file.path());
    let record = paths.find(|path| path.extension().is_some_and(|end| end == "hearth"));
    record.unwrap_or_else(|| folder.join("no-record-yet"))
}
