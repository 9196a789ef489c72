//! Data keys of encrypted disks: fetched before the attach, erased after the detach.

use super::state::remembered_disks;
use api::problem::ProblemKind;
use api::types::{DiskSource, Problem};
use at_rest::{DataKey, KeyStore};
use configuration::{Config, DiskConfig, EncryptionConfig, Fault};
use std::path::Path;
use std::sync::Arc;
use units::DiskId;
use units::errors::chain;

/// Where the wrapped data keys of this host's disks are.
pub fn key_store(state_dir: &Path) -> KeyStore {
    KeyStore::new(state_dir.join("keys"))
}

/// Whether the key of a disk may be fetched as its configuration says. A program is run for it only if the
/// configuration file, which is root's, names the program: else who may attach disks could run
/// anything as the service.
///
/// # Errors
/// If a disk that was attached at run time names a program.
pub(super) fn may_fetch(disk: &DiskConfig, source: DiskSource) -> Result<(), Problem> {
    if source == DiskSource::Config || disk.encryption.key_command.is_none() {
        return Ok(());
    }
    let detail = format!(
        "the disk '{}' was attached at run time and names a key_command, which only a disk of the \
         configuration file may",
        disk.name
    );
    let remedy =
        "write the disk into the configuration file, or give it a key_file or a key_credential";
    Err(Problem::new(ProblemKind::Refused, detail).with_remedy(remedy))
}

/// What this version does not do any more for disks that were attached at run time: who is about to be
/// renewed serves on instead of leaving their VMs waiting.
pub fn remembered_faults(config: &Config) -> Vec<Fault> {
    // A list that cannot be read is no fault of the configuration; the start says so.
    let remembered = remembered_disks(&config.daemon.state_dir).unwrap_or_default();
    let is_ours = |disk: &DiskConfig| config.disks.iter().all(|other| other.name != disk.name);
    let disks = remembered.into_iter().filter(is_ours);
    disks
        .filter_map(|disk| may_fetch(&disk, DiskSource::Runtime).err())
        .map(|problem| Fault::new("daemon.state_dir", problem.detail))
        .collect()
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
