//! What holds a move between two hosts up.

use std::path::{Path, PathBuf};

use anyhow::Context as _;

/// What holds a move up, until it is dropped.
pub enum Obstacle {
    /// A folder where a file would be written before it replaces another one.
    Folder(PathBuf),
    /// A file that is called differently for a while: first its name, then where it is.
    Hidden(PathBuf, PathBuf),
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

    /// Where an origin is opened by its name. Whoever has it open goes on.
    ///
    /// # Errors
    ///
    /// When it cannot be called differently.
    pub fn hide(origin: &Path) -> anyhow::Result<Self> {
        let hidden = origin.with_extension("hidden");
        std::fs::rename(origin, &hidden).context("the origin")?;
        Ok(Self::Hidden(origin.to_owned(), hidden))
    }
}

impl Drop for Obstacle {
    fn drop(&mut self) {
        // Without it the test fails, which is heard.
        match self {
            Self::Folder(folder) => drop(std::fs::remove_dir(folder)),
            Self::Hidden(origin, hidden) => drop(std::fs::rename(hidden, origin)),
        }
    }
}
