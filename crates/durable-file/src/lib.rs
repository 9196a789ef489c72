//! Small files that are replaced whole: after a crash at any instant there is the old content or
//! the new one.
//!
//! ```text
//!  make PATH.new ─► write it ─► sync it ─► rename it to PATH ─► sync the folder
//! ```
//!
//! Where a file system has no room for `PATH.new`, a file of one sector can be overwritten where it is
//! ([`overwrite`]): a medium never tears a sector.

#![forbid(unsafe_code)]

use rustix::fs::OFlags;
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _, fchown};
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
    replace_for(path, readers, None, content)
}

/// As [`replace`], for another owner: the user and group of the file from its first moment under `path` on.
///
/// # Errors
/// As [`replace`], and if this process may not give files away.
pub fn replace_for(
    path: &Path,
    readers: Readers,
    owner: Option<(u32, u32)>,
    content: &[u8],
) -> io::Result<()> {
    let beside = beside(path);
    let mode = match readers {
        Readers::Anybody => 0o666,
        Readers::Owner => 0o600,
    };
    let mut file = create(&beside, mode)?;
    let given = match owner {
        Some((user, group)) => fchown(&file, Some(user), Some(group)),
        None => Ok(()),
    };
    let written = given
        .and_then(|()| file.write_all(content))
        .and_then(|()| file.sync_all());
    if let Err(error) = written.and_then(|()| std::fs::rename(&beside, path)) {
        // The first error is the one to tell of; what stays here does no harm.
        let _ = std::fs::remove_file(&beside);
        return Err(error);
    }
    sync_folder_of(path)
}

/// Bytes of a sector.
pub const SECTOR_BYTES: usize = 512;

/// Writes over the content of a file that is there, needing no room. When it returns the content is
/// durable. A file that was shorter than a sector becomes one first, filled up with spaces.
///
/// # Errors
/// What the system said; then the old content stands, with spaces behind it, or the new one. A file
/// that is longer than a sector is left alone, and so is what a link leads to.
pub fn overwrite(path: &Path, content: &[u8; SECTOR_BYTES]) -> io::Result<()> {
    let file = OpenOptions::new()
        .write(true)
        .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
        .open(path)?;
    let found = file.metadata()?;
    let before = usize::try_from(found.len()).unwrap_or(usize::MAX);
    if !found.is_file() || before > SECTOR_BYTES {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    if before < SECTOR_BYTES {
        // Never together with the content: a crash could leave the one without the other.
        file.write_all_at(&[b' '; SECTOR_BYTES][before..], before as u64)?;
        file.sync_all()?;
    }
    file.write_all_at(content, 0)?;
    file.sync_all()
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
    fn a_file_of_a_sector_is_overwritten_where_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let new = [b'n'; SECTOR_BYTES];
        for old in [b"short".to_vec(), vec![b'o'; SECTOR_BYTES]] {
            std::fs::write(&path, old).unwrap();
            overwrite(&path, &new).unwrap();
            assert_eq!(std::fs::read(&path).unwrap(), new);
        }
        let long = vec![b'o'; SECTOR_BYTES + 1];
        std::fs::write(&path, &long).unwrap();
        assert!(overwrite(&path, &new).is_err());
        assert_eq!(std::fs::read(&path).unwrap(), long);
        assert!(overwrite(&dir.path().join("none"), &new).is_err());
        let link = dir.path().join("link");
        std::fs::write(&path, "short").unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(overwrite(&link, &new).is_err());
        assert_eq!(std::fs::read(&path).unwrap(), b"short");
    }

    #[test]
    fn what_could_not_be_replaced_leaves_nothing_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        // A folder with something in it is not replaced by a file.
        std::fs::create_dir_all(path.join("b")).unwrap();
        assert!(replace(&path, Readers::Anybody, b"new").is_err());
        assert!(!beside(&path).exists());
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
