//! What an operator can do to a disk's blocks: forget those that are cached, and have more of them.

use super::control::Control;
use super::problems::problem;
use super::registry::{Entry, Phase};
use super::settings;
use api::problem::ProblemKind;
use api::types::{DiskSource, DiskStatus, Problem};
use configuration::{Name, Text};
use units::errors::chain;
use units::{BLOCK_BYTES, Bytes};

impl Control {
    /// Forgets a disk's cached blocks.
    ///
    /// # Errors
    /// If there is no such disk, or it is not attached.
    pub async fn drop_blocks(&self, name: &Name) -> Result<DiskStatus, Problem> {
        let (entry, id) = self.attached(name)?;
        self.shards()
            .of(&entry)?
            .ask(|handle, reply| handle.drop_cache(id, reply))
            .await
            .map_err(|error| problem(name, &error))?;
        tracing::info!(disk = %name, "cached blocks dropped");
        self.observer().disk(name).await
    }

    /// Gives a disk all of its origin, which has become longer. What is cached of it, and what waits
    /// for its origin, stays.
    ///
    /// # Errors
    /// If there is no such disk, it is not attached, its origin cannot be asked or is shorter, or the
    /// configuration says how long it has to be.
    pub async fn resize(&self, name: &Name) -> Result<DiskStatus, Problem> {
        let (entry, id) = self.attached(name)?;
        if entry.config.moves() {
            let detail =
                format!("'{name}' roams, and its peer offers it with the size that it had");
            return Err(Problem::new(ProblemKind::Refused, detail)
                .with_remedy("restart the daemons of both hosts: they find the new size"));
        }
        let size = measured(&entry).await?;
        let configured = entry.config.size.map(|size| size.0);
        let is_of_file = entry.source == DiskSource::Config;
        if let Some(configured) = configured.filter(|configured| is_of_file && *configured != size)
        {
            let detail = format!(
                "the origin of '{name}' has {size}, and the configuration file gives it {configured}"
            );
            return Err(Problem::new(ProblemKind::Refused, detail).with_remedy(
                "change its size there, or leave it out, and restart the daemon: it finds the new size",
            ));
        }
        if let Phase::Attached { geometry } = &entry.phase {
            may_become(name, geometry.size, size)?;
        }
        self.shards()
            .of(&entry)?
            .ask(|handle, reply| handle.grow(id, size, reply))
            .await
            .map_err(|error| problem(name, &error))?;
        self.registry().update(&entry, |entry| {
            if let Phase::Attached { geometry } = &mut entry.phase {
                geometry.size = size;
            }
            entry.config.size = entry.config.size.map(|_| Text(size));
        });
        self.remembered().write_disks(self.registry())?;
        self.observer().disk(name).await
    }
}

/// Whether a disk that is attached may get its origin's size: what the cache refuses, in words about
/// the origin.
fn may_become(name: &Name, present: Bytes, size: Bytes) -> Result<(), Problem> {
    let (detail, remedy) = if size < present {
        (
            format!(
                "the origin of '{name}' has {size}, and the disk {present}: a disk that is attached only grows"
            ),
            format!(
                "give the origin its size back; or hearth disk detach {name}, and attach it again"
            ),
        )
    } else if size != present && !size.is_multiple_of(BLOCK_BYTES) {
        (
            format!(
                "the origin of '{name}' has {} bytes: a disk that is attached grows to a multiple of 4KiB",
                size.get()
            ),
            "make the origin longer by what is missing, and repeat the command".to_owned(),
        )
    } else {
        return Ok(());
    };
    Err(Problem::new(ProblemKind::Refused, detail).with_remedy(remedy))
}

/// How long a disk's origin is now.
async fn measured(entry: &Entry) -> Result<Bytes, Problem> {
    let name = &entry.config.name;
    let failed =
        |reason: String| Problem::new(ProblemKind::Origin, format!("disk '{name}': {reason}"));
    let spec = settings::origin(&entry.config.origin);
    match tokio::task::spawn_blocking(move || origin::measure(&spec)).await {
        Ok(Ok(geometry)) => Ok(geometry.size),
        Ok(Err(error)) => Err(failed(chain(&error))),
        Err(error) => Err(failed(chain(&error))),
    }
}
