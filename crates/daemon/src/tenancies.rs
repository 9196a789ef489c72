//! What is wanted of VMs and caches, told to the tenancies of the shards.

use super::registry::{Entry, Registry};
use super::shards::{Shard, Shards};
use super::tenants;
use super::vms::VmBook;
use api::problem::ProblemKind;
use api::types::Problem;
use configuration::{DiskConfig, Name, PolicyConfig, VmConfig};
use events::EventKind;
use shard::ShardError;
use std::sync::Arc;
use units::errors::chain;

/// The tenancies of all caches, with what decides on their tenants.
pub(super) struct Tenancies {
    registry: Arc<Registry>,
    shards: Arc<Shards>,
    vms: Arc<VmBook>,
}

impl Tenancies {
    pub(super) fn new(registry: Arc<Registry>, shards: Arc<Shards>, vms: Arc<VmBook>) -> Self {
        Self {
            registry,
            shards,
            vms,
        }
    }

    /// Tells every tenancy what holds for every VM, before the first disk comes.
    pub(super) async fn tell_all(&self) {
        for name in self.vms.names() {
            let vm = self.vms.settings(&name);
            for shard in self.shards.all() {
                if let Err(problem) = self.tell_one(shard, &vm).await {
                    tracing::error!(event = EventKind::SettingsBroken.word(),
                        vm = %name, cache = %shard.config().name, reason = problem.detail,
                        "the VM's settings do not hold");
                }
            }
        }
    }

    /// Tells every tenancy what holds for a VM from now on; if one refuses, those told before get
    /// `before` again.
    ///
    /// # Errors
    /// The first refusal.
    pub(super) async fn tell(&self, vm: &VmConfig, before: &VmConfig) -> Result<(), Problem> {
        for shard in self.shards.all() {
            if let Some(message) = self.promised(shard, Some(vm)) {
                return Err(too_much(message));
            }
        }
        let mut told = Vec::new();
        for shard in self.shards.all() {
            if let Err(problem) = self.tell_one(shard, vm).await {
                for shard in told {
                    // It held before, so it holds again.
                    let _ = self.tell_one(shard, before).await;
                }
                return Err(problem);
            }
            told.push(shard);
        }
        Ok(())
    }

    /// Tells the tenancy of a disk's cache what holds for its VM now that its disks are others.
    pub(super) async fn tell_of(&self, disk: &DiskConfig, cache: &Name) {
        if disk.shared {
            return;
        }
        let vm = self.vms.settings(disk.tenant());
        if let Some(shard) = self.shards.get(cache)
            && let Err(problem) = self.tell_one(shard, &vm).await
        {
            tracing::error!(event = EventKind::SettingsBroken.word(),
                vm = %vm.name, cache = %cache, reason = problem.detail, "the VM's settings do not hold");
        }
    }

    /// Tells every cache what the reads of VMs weigh for `frequency` in memory.
    pub(super) async fn weigh(&self, weights: &[(Name, f64)]) {
        if weights.is_empty() {
            return;
        }
        let weights = weights.iter();
        let weights = weights.map(|(vm, weight)| (vm.to_string(), tenants::fraction(*weight)));
        let weights: Vec<_> = weights.collect();
        for shard in self.shards.all() {
            let told = shard
                .ask(|handle, reply| handle.set_weights(weights.clone(), reply))
                .await;
            if let Err(error) = told {
                let cache = &shard.config().name;
                tracing::debug!(%cache, %error, "the weights of VMs are not told: the cache is stopping");
            }
        }
    }

    async fn tell_one(&self, shard: &Shard, vm: &VmConfig) -> Result<(), Problem> {
        let Some(flash) = shard.flash() else {
            // Nothing is on flash that is not there.
            return Ok(());
        };
        let cache = &shard.config().name;
        let is_own = |entry: &Entry| entry.is_of(&vm.name) && entry.cache == *cache;
        let disks = self
            .registry
            .select(|entry| is_own(entry).then(|| entry.config.clone()));
        let disks: Vec<&DiskConfig> = disks.iter().collect();
        let settings = tenants::tenant(vm, &disks, flash)
            .map_err(|error| Problem::new(ProblemKind::Invalid, format!("{}: {error}", vm.name)))?;
        let name = vm.name.to_string();
        shard
            .ask(|handle, reply| handle.set_tenant(name, settings, reply))
            .await
            .map_err(|error| refused(&format!("VM '{}' on cache '{cache}'", vm.name), &error))
    }

    /// What is wrong with what VMs are promised of a cache, with one of them as it would be.
    pub(super) fn promised(&self, shard: &Shard, changed: Option<&VmConfig>) -> Option<String> {
        let cache = &shard.config().name;
        let has_tenant = |entry: &Entry| !entry.config.shared && entry.cache == *cache;
        let mut names: Vec<Name> = self
            .registry
            .select(|entry| has_tenant(entry).then(|| entry.vm()));
        names.sort();
        names.dedup();
        let vms: Vec<VmConfig> = names
            .iter()
            .map(|name| match changed {
                Some(changed) if changed.name == *name => changed.clone(),
                _ => self.vms.settings(name),
            })
            .collect();
        tenants::floors(cache, shard.flash()?.capacity, &vms)
    }

    /// Whether what VMs are promised can be kept with a disk that has been reserved.
    ///
    /// # Errors
    /// If not, with the sum.
    pub(super) fn has_room(&self, entry: &Entry) -> Result<(), Problem> {
        let shard = self.shards.get(&entry.cache);
        let refused = shard.and_then(|shard| self.promised(shard, None));
        refused.map_or(Ok(()), |message| Err(too_much(message)))
    }

    /// Says where VMs are promised more than there is. A daemon starts nevertheless: VMs wait for
    /// their disks, and the flash may be another one than the configuration was written for.
    pub(super) fn warn_of_promises(&self) {
        for shard in self.shards.all() {
            if let Some(reason) = self.promised(shard, None) {
                let cache = &shard.config().name;
                tracing::error!(event = EventKind::SettingsBroken.word(),
                    %cache, reason, "VMs are promised more than there is: not every floor holds");
            }
        }
    }
}

/// Tells a tenancy what its cache's policy is.
pub(super) async fn tell_policy(shard: &Shard, policy: &PolicyConfig) -> Result<(), Problem> {
    let Some(flash) = shard.flash() else {
        return Ok(());
    };
    let settings = tenants::settings(policy, flash)
        .map_err(|error| Problem::new(ProblemKind::Invalid, chain(&error)))?;
    shard
        .ask(|handle, reply| handle.set_tenancy(settings, reply))
        .await
        .map_err(|error| refused(&format!("cache '{}'", shard.config().name), &error))
}

fn refused(whose: &str, error: &ShardError) -> Problem {
    let kind = match error {
        ShardError::Stopping | ShardError::Ended => ProblemKind::Stopping,
        _ => ProblemKind::Invalid,
    };
    Problem::new(kind, format!("{whose}: {}", chain(error)))
}

/// VMs would be promised more than there is.
fn too_much(message: String) -> Problem {
    Problem::new(ProblemKind::Invalid, message).with_remedy(
        "hearth vm list shows the shares; hearth vm set VM --floor SIZE lowers a floor",
    )
}
