//! From a disk's configuration to a disk that its shard serves: reaching the origin and reading the
//! owner's record may take long, so both happen on a thread that may wait.

use super::control::Control;
use super::keys;
use super::problems::{problem, refused};
use super::registry::{Entry, Phase};
use super::settings;
use crate::api::problem::ProblemKind;
use crate::api::types::Problem;
use crate::cli::exit::chain;
use shard::OwnerFile;

impl Control {
    /// Opens a disk's origin, looks who had it last, and gives it to its shard.
    pub(super) async fn open_and_attach(&self, entry: &Entry) -> Result<Phase, Problem> {
        let failed = |detail: String| Problem::new(ProblemKind::Origin, detail);
        let spec = settings::origin(&entry.config.origin)
            .ok_or_else(|| failed("the disk names no origin".to_owned()))?;
        let dirty_max = self.room_for_dirty(entry, &entry.config)?;
        let read_only = entry.config.read_only;
        let (id, cache) = (entry.id, entry.cache.to_string());
        let folders = self.state().folders();
        let encryption = entry.config.encryption.clone();
        let keys_dir = folders.state.clone();
        let fetching =
            tokio::task::spawn_blocking(move || keys::data_key(&encryption, id, &keys_dir));
        let key = match fetching.await {
            Ok(key) => key?,
            Err(error) => return Err(failed(chain(&error))),
        };
        let opening = tokio::task::spawn_blocking(move || {
            let opened = origin::open(&spec, read_only);
            let mut owner = OwnerFile::new(id, &spec, &folders, &cache);
            opened.map(|opened| {
                // Only when it is ours.
                let found = owner.lock(read_only).and_then(|()| owner.load());
                (opened, found, owner)
            })
        });
        let (opened, found, owner) = match opening.await {
            Ok(Ok((opened, found, owner))) => (
                settings::fits(&entry.config, opened).map_err(failed)?,
                found,
                owner,
            ),
            Ok(Err(error)) => return Err(failed(chain(&error))),
            Err(error) => return Err(failed(chain(&error))),
        };
        let name = &entry.config.name;
        let found = found.map_err(|error| problem(name, &error.into()))?;
        if !self.registry().begin(entry) {
            // Forgotten, or given other settings, while its origin was being opened.
            let detail = "its settings were changed while its origin was being opened";
            return Err(Problem::new(ProblemKind::Busy, detail));
        }
        let spec = settings::disk(&entry.config, owner, found.as_ref(), key, dirty_max);
        let attached = self
            .shard(entry)?
            .ask(|handle, reply| handle.attach(spec, opened, reply))
            .await
            .map_err(|error| refused(name, &error, found.as_ref()))?;
        self.tap(entry).await;
        Ok(Phase::Attached {
            geometry: attached.geometry,
        })
    }
}
