//! Writes that wait on flash for their origin, as an operator sees them: changing a disk's policy and
//! settings, bringing what it lacks to the origin, and whether a cache has room for it all.

use super::control::Control;
use super::disk_book::changed;
use super::problems::{on_its_way, problem, stands_by};
use super::registry::{Entry, Phase};
use super::system::since_1970;
use api::problem::ProblemKind;
use api::types::{DiskSource, DiskStatus, Problem};
use api::write_back::{Barrier, DiskChange};
use configuration::{DestageOrder, DiskConfig, Name, WritePolicy};
use shard::LimitHandle;
use units::errors::chain;

impl Control {
    /// Changes a disk's settings. A change from or to write-back ends when the origin has what it
    /// needs, which may take long; a disk that waits is tried again with them at once. Remembered over
    /// restarts.
    ///
    /// # Errors
    /// If there is no such disk, it is being attached or detached, the change makes no sense, or the
    /// origin or its folder refuses what the change needs: then what holds is in the disk's status.
    pub async fn change_disk(
        &self,
        name: &Name,
        change: DiskChange,
    ) -> Result<DiskStatus, Problem> {
        let entry = self.changeable(name)?;
        let wanted = changed(&entry.config, &change);
        let names_policy = change.write_policy.is_some();
        self.turn_into(&entry, wanted, names_policy).await?;
        if entry.source == DiskSource::Config {
            let before = self.remembered().disks().change_of(name);
            self.remembered().disks().set(name, before.then(change));
            self.remembered().write_settings()?;
        }
        self.remembered().write_disks(self.registry())?;
        self.observer().disk(name).await
    }

    /// Takes back what was changed of a disk of the configuration file.
    ///
    /// # Errors
    /// See [`Self::change_disk`]; and if the file does not have the disk.
    pub async fn reset_disk(&self, name: &Name) -> Result<DiskStatus, Problem> {
        let entry = self.changeable(name)?;
        let Some(file) = self.remembered().disks().of_file(name) else {
            return Err(Problem::new(
                ProblemKind::Invalid,
                format!(
                    "the configuration file has no disk '{name}', so there is nothing to go back to"
                ),
            ));
        };
        let mut wanted = entry.config.clone();
        wanted.write_policy = file.write_policy;
        wanted.write_back = file.write_back.clone();
        wanted.limits = file.limits.clone();
        self.turn_into(&entry, wanted, true).await?;
        self.remembered().disks().set(name, DiskChange::default());
        self.remembered().write_settings()?;
        self.observer().disk(name).await
    }

    /// A disk whose settings can be changed: it is attached, or waits.
    fn changeable(&self, name: &Name) -> Result<Entry, Problem> {
        self.refuse_when_stopping()?;
        let entry = self.registry().entry(name)?;
        match entry.phase {
            Phase::Attached { .. } | Phase::Waiting { .. } => Ok(entry),
            Phase::Standby { .. } => Err(stands_by(name)),
            Phase::Attaching | Phase::Forgetting { .. } | Phase::Detaching { .. } => {
                Err(on_its_way(name))
            }
        }
    }

    /// Makes a disk what it is wanted to be. With `names_policy` the shard is asked for the policy even
    /// if the disk seems to have it: another change to it may be under way.
    async fn turn_into(
        &self,
        entry: &Entry,
        wanted: DiskConfig,
        names_policy: bool,
    ) -> Result<(), Problem> {
        let (name, id) = (&entry.config.name, entry.id);
        if let Some(fault) = configuration::disk_faults(&wanted).first() {
            let detail = format!("{}: {}", fault.key, fault.message);
            return Err(Problem::new(ProblemKind::Invalid, detail));
        }
        let dirty_max = {
            // Two changes that fit one by one must not pass together.
            let _alone = self.alone().await;
            let dirty_max = self.opener().room_for_dirty(entry, &wanted)?;
            if !self.registry().reconfigure(entry, &wanted) {
                return Err(on_its_way(name));
            }
            dirty_max
        };
        if let Phase::Waiting { .. } = entry.phase {
            self.tenancies().tell_of(&wanted, &entry.cache).await;
            tracing::info!(disk = %name, policy = %wanted.write_policy,
                "the settings of a disk that waits were changed");
            self.try_waiting();
            return Ok(());
        }
        let was = &entry.config;
        let shard = self.shards().of(entry)?;
        let limits = wanted.limits.settings();
        if wanted.limits != was.limits
            && let Err(error) = shard
                .ask(|handle, reply| LimitHandle::of(handle).set(id, limits, reply))
                .await
        {
            self.set_config(entry, was);
            return Err(problem(name, &error));
        }
        let settings = wanted.write_back.settings(dirty_max);
        if (wanted.write_back != was.write_back || wanted.write_policy != was.write_policy)
            && let Err(error) = shard
                .ask(|handle, reply| handle.set_write_back(id, settings, reply))
                .await
        {
            self.set_config(entry, was);
            return Err(problem(name, &error));
        }
        let policy = wanted.write_policy;
        if (names_policy || policy != was.write_policy)
            && let Err(error) = shard
                .ask(|handle, reply| handle.set_policy(id, policy.into(), reply))
                .await
        {
            let mut half = wanted.clone();
            half.write_policy = was.write_policy;
            self.set_config(entry, &half);
            return Err(problem(name, &error));
        }
        self.tenancies().tell_of(&wanted, &entry.cache).await;
        tracing::info!(disk = %name, %policy, "the disk's settings were changed");
        Ok(())
    }

    fn set_config(&self, entry: &Entry, config: &DiskConfig) {
        self.registry()
            .update(entry, |entry| entry.config = config.clone());
    }

    /// Brings every write that was answered to the origin, durably. Without `wait` that only begins,
    /// if there is more to do than a flush.
    ///
    /// # Errors
    /// If there is no such disk, it is not attached, or the origin fails.
    pub async fn flush(&self, name: &Name, wait: bool) -> Result<DiskStatus, Problem> {
        let (entry, id) = self.attached(name)?;
        let shard = self.shards().of(&entry)?;
        if wait || entry.config.write_policy != WritePolicy::Back {
            shard
                .ask(|handle, reply| handle.destage(id, reply))
                .await
                .map_err(|error| problem(name, &error))?;
        } else {
            let disk = name.clone();
            let told = move |result: Result<(), shard::ShardError>| match result {
                Ok(()) => tracing::info!(disk = %disk, "the disk was flushed"),
                Err(error) => {
                    let reason = chain(&error);
                    tracing::warn!(disk = %disk, reason, "the disk was not flushed");
                }
            };
            shard.handle().destage(id, Box::new(told));
        }
        self.observer().disk(name).await
    }

    /// Makes the origin consistent as of now: it has everything that was answered before, and what
    /// comes later only in the order of the guest's flushes.
    ///
    /// # Errors
    /// If there is no such disk, it is not attached, its writes do not reach the origin in order,
    /// or the origin fails.
    pub async fn barrier(&self, name: &Name) -> Result<Barrier, Problem> {
        let (entry, id) = self.attached(name)?;
        let config = &entry.config;
        if config.write_policy == WritePolicy::Back
            && config.write_back.order == DestageOrder::Unordered
        {
            let detail = format!(
                "the writes of '{name}' reach its origin in any order: what is written after a barrier would make it inconsistent again"
            );
            return Err(Problem::new(ProblemKind::Refused, detail)
                .with_remedy(format!("hearth disk set {name} --order ordered")));
        }
        let asked_at_seconds = since_1970().as_secs_f64();
        self.shards()
            .of(&entry)?
            .ask(|handle, reply| handle.destage(id, reply))
            .await
            .map_err(|error| problem(name, &error))?;
        let status = self.observer().disk(name).await?;
        Ok(Barrier {
            disk: name.clone(),
            asked_at_seconds,
            reached_at_seconds: since_1970().as_secs_f64(),
            epoch: status.write_back.map_or(0, |write_back| write_back.epoch),
        })
    }
}

/// Has another word of the configuration file hold for a disk's write policy, how its writes reach the origin, and its
/// limits. What an operator changed holds over it.
///
/// # Errors
/// See [`Control::change_disk`].
pub(super) async fn reread_disk(control: &Control, file: &DiskConfig) -> Result<(), Problem> {
    let entry = control.changeable(&file.name)?;
    let over = control.remembered().disks().over(file);
    let mut wanted = entry.config.clone();
    wanted.write_policy = over.write_policy;
    wanted.write_back = over.write_back;
    wanted.limits = over.limits;
    control.turn_into(&entry, wanted, true).await?;
    let disks = control.remembered().disks();
    if let Some(mut known) = disks.of_file(&file.name) {
        known.write_policy = file.write_policy;
        known.write_back.clone_from(&file.write_back);
        known.limits.clone_from(&file.limits);
        disks.set_file(&file.name, Some(known));
    }
    Ok(())
}
