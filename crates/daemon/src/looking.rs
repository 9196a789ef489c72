//! What is asked of the file system of a disk's origin: by a thread that may wait, and for no longer than a request may
//! take. The server of a share may be gone, and a thread of the runtime that waits for it would hold every command.

use super::registry::Entry;
use super::settings;
use api::problem::ProblemKind;
use api::types::Problem;
use configuration::OriginPlace;
use origin::OriginSpec;
use shard::{Folders, OwnerFile};
use std::path::PathBuf;
use units::errors::chain;

/// Where a disk's origin is, and its owner's record.
pub(super) struct Places {
    pub(super) origin: OriginPlace,
    pub(super) record: PathBuf,
}

/// Looks where these are.
///
/// # Errors
/// If the file system does not answer.
pub(super) async fn places(entry: &Entry, folders: Folders) -> Result<Places, Problem> {
    let origin = entry.config.origin.clone();
    owner_of(entry, folders, move |owner| Places {
        origin: OriginPlace::of(&origin),
        record: owner.path().to_owned(),
    })
    .await
}

/// Looks where the owner's record of a disk is.
///
/// # Errors
/// If the file system does not answer.
pub(super) async fn owner_file(entry: &Entry, folders: Folders) -> Result<OwnerFile, Problem> {
    owner_of(entry, folders, |owner| owner).await
}

async fn owner_of<T: Send + 'static>(
    entry: &Entry,
    folders: Folders,
    then: impl FnOnce(OwnerFile) -> T + Send + 'static,
) -> Result<T, Problem> {
    let (id, cache) = (entry.id, entry.cache.to_string());
    let spec: OriginSpec = settings::origin(&entry.config.origin);
    let looking = tokio::task::spawn_blocking(move || {
        let asked = spec.clone();
        origin::within_time(&spec, move || {
            then(OwnerFile::new(id, &asked, &folders, &cache))
        })
    });
    let failed = |detail| Problem::new(ProblemKind::Origin, detail);
    let looked = looking.await.map_err(|error| failed(chain(&error)))?;
    looked.map_err(|error| failed(chain(&error)))
}
