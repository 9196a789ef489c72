//! What operators want of caches and VMs, told to the tenancies of the shards: checked, told, remembered.
//!
//! ```text
//!   change ─► alone? ─► beside the others? ─► every tenancy that it concerns ─► state directory
//!              │ no         │ no, with the sums      │ no: those told before get the old word back
//!              └────────────┴─────── refused, and nothing has changed ───────┘
//! ```

use super::advice::{Divided, advise};
use super::control::Control;
use super::shards::Shard;
use super::state::Changed;
use super::tenants;
use api::advice::HostAdvice;
use api::problem::ProblemKind;
use api::types::{CacheStatus, Problem};
use configuration::{DiskConfig, Name, PolicyChange, PolicyConfig, VmConfig};
use shard::ShardError;
use units::errors::chain;

impl Control {
    /// Changes a cache's policy, and remembers it.
    ///
    /// # Errors
    /// If there is no such cache, the settings contradict each other, or they cannot be remembered: then
    /// nothing is changed.
    pub async fn set_policy_of(
        &self,
        name: &Name,
        change: PolicyChange,
    ) -> Result<CacheStatus, Problem> {
        let before = self.policies.change_of(name);
        self.change_policy(name, before.then(change)).await
    }

    /// Takes back what was changed of a cache's policy at run time.
    ///
    /// # Errors
    /// As [`Control::set_policy_of`].
    pub async fn reset_policy_of(&self, name: &Name) -> Result<CacheStatus, Problem> {
        self.change_policy(name, PolicyChange::default()).await
    }

    async fn change_policy(
        &self,
        name: &Name,
        change: PolicyChange,
    ) -> Result<CacheStatus, Problem> {
        self.refuse_when_stopping()?;
        let _one_at_a_time = self.changing.lock().await;
        let shard = self.shards().get(name);
        let shard = shard.ok_or_else(|| Problem::no_such_cache(name.as_str()))?;
        let settings = self.policies.with(name, &change);
        if let Some(fault) = configuration::policy_faults(&settings).first() {
            let detail = format!("{}: {}", fault.key, fault.message);
            return Err(Problem::new(ProblemKind::Invalid, detail));
        }
        let before = self.policies.change_of(name);
        tell_policy(shard, &settings).await?;
        self.policies.set(name, change);
        if let Err(problem) = self.remember_settings() {
            self.policies.set(name, before);
            // It held before, so it holds again.
            let _ = tell_policy(shard, &self.policies.settings(name)).await;
            return Err(problem);
        }
        tracing::info!(cache = %name, "policy changed");
        let pulse = shard.pulse().await;
        Ok(self.cache(shard, &pulse))
    }

    /// Writes down what was changed of VMs and caches.
    pub(super) fn remember_settings(&self) -> Result<(), Problem> {
        let changed = Changed {
            vms: self.vms.changes(),
            caches: self.policies.changes(),
            disks: self.disk_book.changes(),
        };
        self.state().set_settings(changed).map_err(|error| {
            Problem::new(ProblemKind::Failed, chain(&error))
                .with_remedy("make room or restore the state directory, then repeat the command")
        })
    }

    /// Tells every tenancy what holds for every VM, before the first disk comes.
    pub(super) async fn tell_all_vms(&self) {
        for name in self.vms.names() {
            let vm = self.vms.settings(&name);
            for shard in self.shards().all() {
                if let Err(problem) = self.tell_vm_to(shard, &vm).await {
                    tracing::error!(vm = %name, cache = %shard.config().name, reason = problem.detail,
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
    pub(super) async fn tell_vm(&self, vm: &VmConfig, before: &VmConfig) -> Result<(), Problem> {
        for shard in self.shards().all() {
            if let Some(message) = self.promised(shard, Some(vm)) {
                return Err(too_much(message));
            }
        }
        let mut told = Vec::new();
        for shard in self.shards().all() {
            if let Err(problem) = self.tell_vm_to(shard, vm).await {
                for shard in told {
                    // It held before, so it holds again.
                    let _ = self.tell_vm_to(shard, before).await;
                }
                return Err(problem);
            }
            told.push(shard);
        }
        Ok(())
    }

    /// Tells the tenancy of a disk's cache what holds for its VM now that its disks are others.
    pub(super) async fn tell_vm_of(&self, disk: &DiskConfig, cache: &Name) {
        if disk.shared {
            return;
        }
        let vm = self.vms.settings(disk.tenant());
        if let Some(shard) = self.shards().get(cache)
            && let Err(problem) = self.tell_vm_to(shard, &vm).await
        {
            tracing::error!(vm = %vm.name, cache = %cache, reason = problem.detail,
                "the VM's settings do not hold");
        }
    }

    async fn tell_vm_to(&self, shard: &Shard, vm: &VmConfig) -> Result<(), Problem> {
        let Some(flash) = shard.flash() else {
            // Nothing is on flash that is not there.
            return Ok(());
        };
        let cache = &shard.config().name;
        let entries = self.entries();
        let own = entries
            .iter()
            .filter(|entry| !entry.config.shared && entry.cache == *cache && entry.vm() == vm.name);
        let disks: Vec<&DiskConfig> = own.map(|entry| &entry.config).collect();
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
        let mut names: Vec<Name> = self
            .entries()
            .iter()
            .filter(|entry| !entry.config.shared && entry.cache == *cache)
            .map(super::registry::Entry::vm)
            .collect();
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
    pub(super) fn has_room(&self, entry: &super::registry::Entry) -> Result<(), Problem> {
        let shard = self.shards().get(&entry.cache);
        let refused = shard.and_then(|shard| self.promised(shard, None));
        refused.map_or(Ok(()), |message| Err(too_much(message)))
    }

    /// Says where VMs are promised more than there is. A daemon starts nevertheless: VMs wait for
    /// their disks, and the flash may be another one than the configuration was written for.
    pub(super) fn tell_what_was_promised(&self) {
        for shard in self.shards().all() {
            if let Some(reason) = self.promised(shard, None) {
                let cache = &shard.config().name;
                tracing::error!(%cache, reason, "VMs are promised more than there is: not every floor holds");
            }
        }
    }

    /// Advice on this host.
    pub async fn advice(&self) -> HostAdvice {
        let status = self.status().await;
        let divided = status.caches.into_iter().filter_map(|cache| {
            let policy = cache.policy?;
            let divides = policy.settings.enabled == Some(true) && policy.error.is_none();
            divides.then_some(Divided {
                cache: cache.name,
                capacity_blocks: policy.capacity_blocks,
                load: policy.load,
            })
        });
        let divided: Vec<Divided> = divided.collect();
        advise(&divided, &self.vms().await)
    }
}

/// Tells a tenancy what its cache's policy is.
async fn tell_policy(shard: &Shard, policy: &PolicyConfig) -> Result<(), Problem> {
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
pub(super) fn too_much(message: String) -> Problem {
    Problem::new(ProblemKind::Invalid, message).with_remedy(
        "hearth vm list shows the shares; hearth vm set VM --floor SIZE lowers a floor",
    )
}
