//! What holds a move between two hosts up.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use anyhow::Context as _;

/// What holds a move up, until it is dropped.
pub enum Obstacle {
    /// A folder where a file would be written before it replaces another one.
    Folder(PathBuf),
    /// The lock of a file, taken when its holder lets go of it.
    Lock(Option<JoinHandle<std::io::Result<File>>>),
}

impl Obstacle {
    /// Before a file is replaced.
    ///
    /// # Errors
    ///
    /// When there is one already.
    pub fn before(file: &Path) -> anyhow::Result<Self> {
        let mut beside = file.as_os_str().to_owned();
        beside.push(".new");
        let beside = PathBuf::from(beside);
        std::fs::create_dir(&beside).context("an obstacle")?;
        Ok(Self::Folder(beside))
    }

    /// When the lock of an origin is let go of.
    ///
    /// # Errors
    ///
    /// When the origin cannot be opened.
    pub fn lock(origin: &Path) -> anyhow::Result<Self> {
        let file = File::open(origin).context("the origin")?;
        let locking = std::thread::spawn(move || {
            // The source wants the lock again within milliseconds: this thread goes before all others, if it may.
            let _ = rustix::process::nice(-20);
            file.lock().map(|()| file)
        });
        Ok(Self::Lock(Some(locking)))
    }
}

impl Drop for Obstacle {
    fn drop(&mut self) {
        // Without it the test fails, which is heard.
        match self {
            Self::Folder(folder) => drop(std::fs::remove_dir(folder)),
            Self::Lock(locking) => drop(locking.take().map(JoinHandle::join)),
        }
    }
}
