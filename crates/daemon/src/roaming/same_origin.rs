//! Hosts that share a folder of owner's records name an origin alike, or they would not find each other's records.
//!
//! The record of an NBD export, and its lock, are in files that are called after the text of its address. So the first host
//! that a disk roams on leaves that text in a file which is called after the disk:
//!
//! ```text
//!   owners_dir/  8f14…e.hearth         the record of `nbd://storage:10809/web-1`
//!                8f14…e.hearth.lock    its lock
//!                6ab2c7f0….origin      which record is that of disk 6ab2c7f0…
//! ```

use durable_file::Readers;
use std::io::ErrorKind;
use std::path::Path;
use units::DiskId;

/// The longest text that is compared: more than any address has.
const TEXT_BYTES_MAX: u64 = 64 << 10;

/// Checks that every host calls the disk's origin so. May block.
///
/// # Errors
/// If one calls it otherwise, or that cannot be told.
pub(super) fn check(shared: &Path, disk: DiskId, origin: &str) -> Result<(), String> {
    let path = shared.join(format!("{disk}.origin"));
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    let text = format!("{origin}\n");
    // The name appears with the text, or not at all; one host's is the first.
    let own = shared.join(format!("{disk}.origin.{}", std::process::id()));
    let written = durable_file::replace(&own, Readers::Anybody, text.as_bytes());
    let linked = written.and_then(|()| std::fs::hard_link(&own, &path));
    // One that stays is in nobody's way.
    let _ = std::fs::remove_file(&own);
    match linked {
        Ok(()) => return durable_file::sync_folder_of(&path).map_err(failed),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        Err(error) => return Err(failed(error)),
    }
    let length = std::fs::metadata(&path).map_err(failed)?.len();
    if length > TEXT_BYTES_MAX {
        return Err(format!("{} is no address of an origin", path.display()));
    }
    let found = std::fs::read_to_string(&path).map_err(failed)?;
    if found == text {
        return Ok(());
    }
    Err(format!(
        "this host calls the disk's origin {origin}, and {} says that it is {}: write the same address on both hosts, and \
         remove that file once neither has the disk",
        path.display(),
        found.trim_end().escape_default()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_that_calls_the_origin_otherwise_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let [disk, other] = [1, 2].map(DiskId::from_u128);
        let said = |disk, origin: &str| check(folder.path(), disk, origin);
        assert_eq!(said(disk, "nbd://storage:10809/a"), Ok(()));
        assert_eq!(said(disk, "nbd://storage:10809/a"), Ok(()));
        let why = said(disk, "nbd://10.0.0.9:10809/a").unwrap_err();
        assert!(
            why.contains("nbd://storage:10809/a: write the same"),
            "{why}"
        );
        assert_eq!(said(other, "nbd://10.0.0.9:10809/a"), Ok(()));
        let names = std::fs::read_dir(folder.path()).unwrap();
        assert_eq!(names.count(), 2, "nothing else is left there");
    }
}
