//! What an operator can do to a disk's blocks: forget those that are cached.

use super::control::Control;
use super::problems::problem;
use crate::api::types::{DiskStatus, Problem};
use crate::config::Name;

impl Control {
    /// Forgets a disk's cached blocks.
    ///
    /// # Errors
    /// If there is no such disk, or it is not attached.
    pub async fn drop_blocks(&self, name: &Name) -> Result<DiskStatus, Problem> {
        let (entry, id) = self.attached(name)?;
        self.shard(&entry)?
            .ask(|handle, reply| handle.drop_cache(id, reply))
            .await
            .map_err(|error| problem(name, &error))?;
        tracing::info!(disk = %name, "cached blocks dropped");
        self.disk(name).await
    }
}
