//! Small files that are replaced whole: after a crash at any instant there is the old content or
//! the new one.
//!
//! ```text
//!  make PATH.new ─► write it ─► sync it ─► rename it to PATH ─► sync the folder
//! ```

#![forbid(unsafe_code)]

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// Who may read a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readers {
    /// Whoever the process's mask lets.
    Anybody,
    /// Its owner alone.
    Owner,
}

/// Replaces a file's content, or makes the file. When it returns the content is durable.
///
/// # Errors
/// What the system said; then the old content stands, or the new one already does.
pub fn replace(path: &Path, readers: Readers, content: &[u8]) -> io::Result<()> {
    let beside = beside(path);
    let mode = match readers {
        Readers::Anybody => 0o666,
        Readers::Owner => 0o600,
    };
    let mut file = create(&beside, mode)?;
    file.write_all(content)?;
    file.sync_all()?;
    std::fs::rename(&beside, path)?;
    sync_folder_of(path)
}

/// Makes the file anew. What a crash left there is removed, and so is what somebody else has put
/// there who may write the folder: were a link followed, or a file of theirs taken, the content
/// would go where they want.
fn create(path: &Path, mode: u32) -> io::Result<File> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(mode).open(path)
}

/// Makes durable what was made, renamed or removed under this path's name.
///
/// # Errors
/// What the system said.
pub fn sync_folder_of(path: &Path) -> io::Result<()> {
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    File::open(folder)?.sync_all()
}

fn beside(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".new");
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_file_is_made_and_replaced_and_nothing_is_left_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.json");
        for content in ["a longer text", "short"] {
            replace(&path, Readers::Anybody, content.as_bytes()).unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), content);
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_a_crash_left_beside_it_does_not_matter() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        std::fs::write(beside(&path), "half of something that is quite long").unwrap();
        replace(&path, Readers::Anybody, b"whole").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"whole");
    }

    #[test]
    fn a_link_at_the_temporary_path_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (path, other) = (dir.path().join("a"), dir.path().join("other"));
        std::fs::write(&other, "untouched").unwrap();
        std::os::unix::fs::symlink(&other, beside(&path)).unwrap();
        replace(&path, Readers::Owner, b"secret").unwrap();
        assert_eq!(std::fs::read(&other).unwrap(), b"untouched");
        assert_eq!(std::fs::read(&path).unwrap(), b"secret");
        assert!(std::fs::symlink_metadata(&path).unwrap().is_file());
    }

    #[test]
    fn a_file_that_somebody_holds_at_the_temporary_path_does_not_get_the_secret() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        std::fs::write(beside(&path), "").unwrap();
        let held = File::open(beside(&path)).unwrap();
        replace(&path, Readers::Owner, b"secret").unwrap();
        assert_eq!(held.metadata().unwrap().len(), 0);
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_secret_is_its_owners() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        replace(&path, Readers::Owner, b"secret").unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_folder_that_is_missing_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("none").join("a");
        let error = replace(&path, Readers::Anybody, b"").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
