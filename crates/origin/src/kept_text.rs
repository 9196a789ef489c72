//! Texts that must outlive the process, in folders of the state directory.
//!
//! `hearth recover` is run by root most of the time, and the daemon is not: what root writes here belongs to who has the folder.

use durable_file::Readers;
use std::io;
use std::os::unix::fs::{MetadataExt as _, chown};
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::xxh3_128;

/// Where the text of an origin is: in a folder of its kind, under a name made of the origin's.
pub(crate) fn path_of(state_dir: &Path, folder: &str, origin: &str, suffix: &str) -> PathBuf {
    let hash = xxh3_128(origin.as_bytes());
    state_dir.join(folder).join(format!("{hash:032x}.{suffix}"))
}

/// Writes a text durably, and makes its folder. May block.
pub(crate) fn store(path: &Path, text: &str) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
        give_to_owner_of_folder(folder);
        durable_file::sync_folder_of(folder)?;
    }
    durable_file::replace(path, Readers::Owner, text.as_bytes())?;
    give_to_owner_of_folder(path);
    Ok(())
}

/// The bytes of a text, if it is there.
pub(crate) fn load(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The same as text; empty if it is not there.
pub(crate) fn text(path: &Path) -> io::Result<String> {
    let bytes = load(path)?.unwrap_or_default();
    String::from_utf8(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// Lets the owner of a folder use what is in it.
pub(crate) fn give_to_owner_of_folder(path: &Path) {
    let folder = path.parent().map(std::fs::metadata);
    if let (Some(Ok(folder)), Ok(file)) = (folder, std::fs::metadata(path))
        && folder.uid() != file.uid()
    {
        // Who may not do that is not root.
        let _ = chown(path, Some(folder.uid()), Some(folder.gid()));
    }
}
