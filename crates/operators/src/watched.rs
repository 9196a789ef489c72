//! The operators as the file names them now.

use crate::file::{FileError, OperatorsFile};
use crate::roster::Roster;
use std::os::unix::fs::MetadataExt as _;
use std::sync::{Arc, Mutex, PoisonError};

/// What tells one state of a file from another, changed in place or replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    place: (u64, u64),
    bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

/// A file of operators that is read again when it has changed.
#[derive(Debug)]
pub struct Watched {
    file: OperatorsFile,
    held: Mutex<Option<(Stamp, Arc<Roster>)>>,
}

impl Watched {
    /// Watches a file. It need not be there yet.
    pub fn new(file: OperatorsFile) -> Self {
        let held = Mutex::new(None);
        Self { file, held }
    }

    /// The file.
    pub fn file(&self) -> &OperatorsFile {
        &self.file
    }

    /// The operators as of now. Asks the file system, so it may block for a moment.
    ///
    /// # Errors
    /// If the file cannot be used: then there are none, whoever there was before.
    pub fn now(&self) -> Result<Arc<Roster>, FileError> {
        // Looked at before the file is read: a change in between is seen the next time.
        let stamp = self.stamp();
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if let (Some(stamp), Some((known, roster))) = (stamp, &*held)
            && stamp == *known
        {
            return Ok(Arc::clone(roster));
        }
        *held = None;
        let roster = Arc::new(self.file.read()?);
        *held = stamp.map(|stamp| (stamp, Arc::clone(&roster)));
        Ok(roster)
    }

    fn stamp(&self) -> Option<Stamp> {
        let of = std::fs::metadata(self.file.path()).ok()?;
        Some(Stamp {
            place: (of.dev(), of.ino()),
            bytes: of.len(),
            modified: (of.mtime(), of.mtime_nsec()),
            // Permissions and owner, too.
            changed: (of.ctime(), of.ctime_nsec()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Token;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_change_of_the_file_holds_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let file = OperatorsFile::new(&folder.path().join("operators"), None);
        let watched = Watched::new(file.clone());
        assert!(watched.now().is_err());
        let token = Token::new().unwrap();
        file.change(|roster| roster.add_token("a", token.hash()))
            .unwrap();
        assert_eq!(watched.now().unwrap().by_token(token.text()), Some("a"));
        let (first, again) = (watched.now().unwrap(), watched.now().unwrap());
        assert!(Arc::ptr_eq(&first, &again), "it is not read without need");
        file.change(|roster| roster.remove("a")).unwrap();
        assert_eq!(watched.now().unwrap().by_token(token.text()), None);
        std::fs::set_permissions(file.path(), Permissions::from_mode(0o622)).unwrap();
        assert!(watched.now().is_err(), "nobody, once others may write it");
        std::fs::remove_file(file.path()).unwrap();
        assert!(watched.now().is_err());
    }
}
