//! The history between boots: one file of the state directory.

use crate::error::AgentError;
use crate::log::say;
use durable_file::{Readers, replace};
use guest_files::{Maps, Settings, history};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

/// Longer than the longest history: what is longer is none of ours.
const HISTORY_BYTES_MAX: u64 = 4 << 20;

/// The file of the history.
pub(crate) struct History {
    path: PathBuf,
}

impl History {
    /// In this folder, which is made if it is not there.
    pub(crate) fn in_folder(folder: &Path) -> Result<Self, AgentError> {
        std::fs::create_dir_all(folder).map_err(|source| AgentError::State {
            path: folder.to_owned(),
            source,
        })?;
        Ok(Self {
            path: folder.join("history"),
        })
    }

    /// The history of earlier boots; an empty one if there is none, or it is no good.
    pub(crate) fn load(&self, settings: Settings) -> Maps {
        let maps = match self.read() {
            Ok(bytes) => history::decode(&bytes, settings).map_err(|error| error.to_string()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Maps::new(settings),
            Err(error) => Err(error.to_string()),
        };
        maps.unwrap_or_else(|reason| {
            say(&format!("{}: {reason}; begun anew", self.path.display()));
            Maps::new(settings)
        })
    }

    fn read(&self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let file = std::fs::File::open(&self.path)?;
        file.take(HISTORY_BYTES_MAX).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Makes the history durable.
    pub(crate) fn save(&self, maps: &Maps) -> Result<(), AgentError> {
        let saved = replace(&self.path, Readers::Owner, &history::encode(maps));
        saved.map_err(|source| AgentError::State {
            path: self.path.clone(),
            source,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use guest_files::{Handle, Use};

    #[test]
    fn a_history_outlives_the_process_and_a_rotten_one_is_begun_anew() {
        let folder = tempfile::tempdir().unwrap();
        let history = History::in_folder(&folder.path().join("new")).unwrap();
        let mut maps = history.load(Settings::default());
        assert!(maps.is_empty());
        maps.used(&Handle::new(1, 1, b"a file").unwrap(), Use::Read);
        history.save(&maps).unwrap();
        assert_eq!(history.load(Settings::default()).len(), 1);
        std::fs::write(&history.path, b"rotten").unwrap();
        assert!(history.load(Settings::default()).is_empty());
    }
}
