//! Data keys of encrypted disks: fetched before the attach, erased after the detach.

use crate::api::problem::ProblemKind;
use crate::api::types::Problem;
use crate::cli::exit::chain;
use crate::config::EncryptionConfig;
use at_rest::{DataKey, KeyStore};
use std::path::Path;
use std::sync::Arc;
use units::DiskId;

/// Where the wrapped data keys of this host's disks are.
pub(crate) fn key_store(state_dir: &Path) -> KeyStore {
    KeyStore::new(state_dir.join("keys"))
}

/// The data key of a disk; none for a disk without encryption. Waits for whatever gives the key.
///
/// # Errors
/// If the operator's key cannot be had, or does not open the disk's.
pub(super) fn data_key(
    encryption: &EncryptionConfig,
    disk: DiskId,
    state_dir: &Path,
) -> Result<Option<Arc<DataKey>>, Problem> {
    let Some(source) = encryption.source() else {
        return Ok(None);
    };
    let refused = |detail| Problem::new(ProblemKind::Refused, detail);
    let wrapping = source.fetch().map_err(|error| refused(chain(&error)))?;
    let key = key_store(state_dir).open(disk, &wrapping);
    Ok(Some(Arc::new(key.map_err(|error| refused(chain(&error)))?)))
}

/// Erases a disk's data key: what is on flash of it can be read by nobody any more.
///
/// # Errors
/// If it could not be erased.
pub(super) fn erase(disk: DiskId, state_dir: &Path) -> Result<(), Problem> {
    match key_store(state_dir).erase(disk) {
        Ok(_) => Ok(()),
        Err(error) => {
            let detail = format!("the disk is detached, but {}", chain(&error));
            let remedy = "remove the file of its data key by hand";
            Err(Problem::new(ProblemKind::Failed, detail).with_remedy(remedy))
        }
    }
}
