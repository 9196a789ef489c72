//! The file with the operators: read by the daemon, changed by `hearth operator`.
//!
//! Who may write the file may make themselves an operator. So it counts only if its owner is root, the process that reads it, or
//! a user who was named as such, and nobody else may write it. All of that is asked of the open file, not of its path.

use crate::roster::{Roster, RosterError};
use durable_file::Readers;
use rustix::fs::{FlockOperation, flock};
use std::fs::{File, Metadata};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// The longest file that is read: 1,000 operators with long names.
const BYTES_MAX: u64 = 256 << 10;
/// Permission bits with which others than the owner may write a file.
const WRITABLE: u32 = 0o022;

/// Why a file names no operators, or was not changed.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The file cannot be read or written.
    #[error("{}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Others may write the file.
    #[error("{} may be written by others than its owner (mode {mode:04o})", path.display())]
    Writable {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The file is somebody else's.
    #[error("{} belongs to user {uid}, who would choose the operators", path.display())]
    Owner {
        /// The file.
        path: PathBuf,
        /// Its owner.
        uid: u32,
    },
    /// It is no file, or too long for one of operators.
    #[error("{} is no file of operators", path.display())]
    Kind {
        /// What is there.
        path: PathBuf,
    },
    /// Its text is wrong, or a change makes no sense.
    #[error("{}", path.display())]
    Roster {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: RosterError,
    },
}

impl FileError {
    /// What to do about it.
    pub fn remedy(&self) -> String {
        match self {
            Self::Io { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                "make the first operator: hearth operator add NAME".to_owned()
            }
            Self::Io { path, .. } => format!(
                "let the daemon's user read it: chown hearth {}",
                path.display()
            ),
            Self::Writable { path, .. } => {
                let path = path.display();
                format!("look who is in it, then: chmod 0600 {path}")
            }
            Self::Owner { path, .. } => format!(
                "look who is in it, then give it to the daemon's user: chown hearth {}",
                path.display()
            ),
            Self::Kind { path } => {
                format!(
                    "move {} away; hearth operator add makes it anew",
                    path.display()
                )
            }
            Self::Roster { source, .. } => match source {
                RosterError::Line { .. } => {
                    "correct the line, or remove it and add the operator again".to_owned()
                }
                RosterError::Unknown { .. } => "hearth operator list".to_owned(),
                RosterError::Taken { name } => format!(
                    "hearth operator remove {name}, for a new token; or choose another name"
                ),
                RosterError::Name { .. } | RosterError::TooMany => {
                    "hearth operator list".to_owned()
                }
            },
        }
    }
}

/// A file with operators, and the user who may own it beside root and this process.
#[derive(Clone, Debug)]
pub struct OperatorsFile {
    path: PathBuf,
    daemon: Option<(u32, u32)>,
}

impl OperatorsFile {
    /// The file at a path. `daemon` is the user and group that the daemon runs as, if that is another than this process's: a new
    /// file becomes theirs.
    pub fn new(path: &Path, daemon: Option<(u32, u32)>) -> Self {
        Self {
            path: path.to_owned(),
            daemon,
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The operators.
    ///
    /// # Errors
    /// If the file cannot be read, may be written by others, belongs to somebody else, or is wrong.
    pub fn read(&self) -> Result<Roster, FileError> {
        let file = File::open(&self.path).map_err(|source| self.io(source))?;
        let metadata = file.metadata().map_err(|source| self.io(source))?;
        self.check(&metadata)?;
        let mut text = String::new();
        let mut bounded = file.take(BYTES_MAX);
        let read = bounded.read_to_string(&mut text);
        read.map_err(|source| self.io(source))?;
        Roster::parse(&text).map_err(|source| self.wrong(source))
    }

    /// Changes the operators, one change at a time on this host; returns what the change returned. A file that is not there
    /// is made.
    ///
    /// # Errors
    /// As [`Self::read`], if the change makes no sense, or the file cannot be written: then it is as before.
    pub fn change<T>(
        &self,
        change: impl FnOnce(&mut Roster) -> Result<T, RosterError>,
    ) -> Result<T, FileError> {
        let folder = match self.path.parent() {
            Some(folder) if folder != Path::new("") => folder,
            _ => Path::new("."),
        };
        // The file is replaced, so that a lock on it would be one on the old file.
        let folder = File::open(folder).map_err(|source| self.io(source))?;
        flock(&folder, FlockOperation::LockExclusive).map_err(|errno| self.io(errno.into()))?;
        let mut owner = self.daemon;
        let mut roster = match std::fs::symlink_metadata(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Roster::default(),
            Err(source) => return Err(self.io(source)),
            Ok(_) => {
                let there = std::fs::metadata(&self.path).map_err(|source| self.io(source))?;
                owner = Some((there.uid(), there.gid()));
                self.read()?
            }
        };
        let done = change(&mut roster).map_err(|source| self.wrong(source))?;
        let owner = owner.filter(|_| rustix::process::geteuid().is_root());
        let text = roster.to_string();
        durable_file::replace_for(&self.path, Readers::Owner, owner, text.as_bytes())
            .map_err(|source| self.io(source))?;
        Ok(done)
    }

    fn check(&self, metadata: &Metadata) -> Result<(), FileError> {
        let path = self.path.clone();
        if !metadata.is_file() || metadata.len() > BYTES_MAX {
            return Err(FileError::Kind { path });
        }
        let mode = metadata.mode() & 0o7777;
        if mode & WRITABLE != 0 {
            return Err(FileError::Writable { path, mode });
        }
        let (uid, own) = (metadata.uid(), rustix::process::geteuid().as_raw());
        let is_daemons = self.daemon.is_some_and(|(daemon, _)| daemon == uid);
        if uid != 0 && uid != own && !is_daemons {
            return Err(FileError::Owner { path, uid });
        }
        Ok(())
    }

    fn io(&self, source: io::Error) -> FileError {
        let path = self.path.clone();
        FileError::Io { path, source }
    }

    fn wrong(&self, source: RosterError) -> FileError {
        let path = self.path.clone();
        FileError::Roster { path, source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt as _, chown};

    fn file(folder: &Path) -> OperatorsFile {
        OperatorsFile::new(&folder.join("operators"), None)
    }

    fn add(file: &OperatorsFile, name: &str) -> Result<(), FileError> {
        file.change(|roster| roster.add_certificate(&format!("cert:{name}")))
    }

    #[test]
    fn a_new_file_is_its_owners_alone() {
        let folder = tempfile::tempdir().unwrap();
        let file = file(folder.path());
        add(&file, "a").unwrap();
        let mode = std::fs::metadata(file.path()).unwrap().mode() & 0o777;
        assert_eq!(mode, 0o600);
        assert_eq!(file.read().unwrap().names().count(), 1);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_file_that_others_may_write_names_nobody() {
        let folder = tempfile::tempdir().unwrap();
        let file = file(folder.path());
        add(&file, "a").unwrap();
        for mode in [0o620, 0o602, 0o666] {
            std::fs::set_permissions(file.path(), Permissions::from_mode(mode)).unwrap();
            let error = file.read().unwrap_err();
            assert!(matches!(error, FileError::Writable { .. }), "{error}");
            assert!(error.remedy().contains("chmod 0600"));
            assert!(add(&file, "b").is_err());
        }
        std::fs::set_permissions(file.path(), Permissions::from_mode(0o640)).unwrap();
        file.read().unwrap();
    }

    #[test]
    fn a_file_of_somebody_else_names_nobody() {
        let folder = tempfile::tempdir().unwrap();
        let file = file(folder.path());
        add(&file, "a").unwrap();
        if chown(file.path(), Some(4242), Some(4242)).is_err() {
            // Only root gives files away.
            return;
        }
        let error = file.read().unwrap_err();
        assert!(
            matches!(error, FileError::Owner { uid: 4242, .. }),
            "{error}"
        );
        let theirs = OperatorsFile::new(file.path(), Some((4242, 4242)));
        theirs.read().unwrap();
        // A change leaves it theirs.
        add(&theirs, "b").unwrap();
        assert_eq!(std::fs::metadata(file.path()).unwrap().uid(), 4242);
    }

    #[test]
    fn changes_at_once_lose_none() {
        let folder = tempfile::tempdir().unwrap();
        let file = file(folder.path());
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let file = &file;
                scope.spawn(move || {
                    for at in 0..10 {
                        add(file, &format!("{thread}-{at}")).unwrap();
                    }
                });
            }
        });
        assert_eq!(file.read().unwrap().names().count(), 40);
    }

    #[test]
    fn what_is_no_such_file_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let missing = file(folder.path()).read().unwrap_err();
        assert!(missing.remedy().contains("hearth operator add"));
        let other = OperatorsFile::new(folder.path(), None).read().unwrap_err();
        assert!(matches!(other, FileError::Kind { .. }), "{other}");
        let file = file(folder.path());
        std::fs::write(file.path(), "x\n").unwrap();
        std::fs::set_permissions(file.path(), Permissions::from_mode(0o600)).unwrap();
        let error = file.read().unwrap_err();
        assert!(matches!(error, FileError::Roster { .. }), "{error}");
    }
}
