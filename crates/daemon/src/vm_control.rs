//! What an operator can see and set of VMs.

use super::answers;
use super::control::Control;
use super::ledger::Ledger;
use super::registry::Entry;
use super::shards::{Pulse, Shard, states};
use super::vm_answers::{Seen, accounts, policy};
use api::problem::ProblemKind;
use api::types::{CacheStatus, Problem};
use api::vms::{ImageStatus, VmStatus, Vms};
use configuration::{Name, VmChange};
use shard::ShardStatus;
use std::collections::BTreeMap;
use std::sync::{MutexGuard, PoisonError};
use std::time::Instant;

impl Control {
    /// Every VM and base image.
    pub async fn vms(&self) -> Vms {
        self.vms_of(&self.shard_states().await)
    }

    pub(super) fn vms_of(&self, shards: &BTreeMap<Name, Box<ShardStatus>>) -> Vms {
        let ledger = self.ledger();
        self.seen(&self.entries(), shards, &ledger).all()
    }

    async fn shard_states(&self) -> BTreeMap<Name, Box<ShardStatus>> {
        states(self.shards().pulses().await)
    }

    pub(super) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        // A panic elsewhere leaves the notes whole, or one too few.
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes what was written to flash.
    pub(super) async fn note_written(&self) {
        let shards = self.shard_states().await;
        let of_each = shards
            .iter()
            .flat_map(|(cache, shard)| accounts(cache, shard));
        let counters: BTreeMap<_, _> = of_each.collect();
        self.ledger().note(Instant::now(), &counters);
    }

    /// How a cache does.
    pub(super) fn cache(&self, shard: &Shard, pulse: &Pulse) -> CacheStatus {
        let mut status = answers::cache(shard, pulse);
        if let Pulse::Status(of) = pulse {
            let ledger = self.ledger();
            status.policy = Some(policy(
                &shard.config().name,
                of,
                shard.flash(),
                &self.policies,
                &ledger,
            ));
        }
        status
    }

    fn seen<'a>(
        &'a self,
        entries: &'a [Entry],
        shards: &'a BTreeMap<Name, Box<ShardStatus>>,
        ledger: &'a Ledger,
    ) -> Seen<'a> {
        let book = &self.vms;
        Seen {
            entries,
            shards,
            book,
            ledger,
        }
    }

    /// One VM.
    ///
    /// # Errors
    /// If there is none of this name.
    pub async fn vm(&self, name: &Name) -> Result<VmStatus, Problem> {
        let mut vms = self.vms().await.vms.into_iter();
        let found = vms.find(|vm| vm.name == *name);
        found.ok_or_else(|| self.no_such_vm(name))
    }

    /// Every VM and image that has settings or a disk.
    fn known_vms(&self) -> Vec<Name> {
        let mut known = self.vms.names();
        known.extend(self.entries().iter().map(Entry::vm));
        known.sort();
        known.dedup();
        known
    }

    /// There is no VM and no image of this name, but perhaps of one much like it.
    fn no_such_vm(&self, name: &Name) -> Problem {
        let known = self.known_vms();
        let meant = configuration::meant(name, known.iter().map(Name::as_str));
        let mut problem = Problem::no_such_vm(name.as_str());
        problem.detail = format!("{}; {meant}", problem.detail);
        problem
    }

    /// One base image.
    ///
    /// # Errors
    /// If there is none of this name.
    pub async fn image(&self, name: &Name) -> Result<ImageStatus, Problem> {
        let mut images = self.vms().await.images.into_iter();
        let found = images.find(|image| image.name == *name);
        found.ok_or_else(|| self.no_such_vm(name))
    }

    /// Changes settings of a VM, and remembers them. A VM that is `new`, with no disk yet, finds them
    /// when it has one.
    ///
    /// # Errors
    /// If nobody knows the VM, they contradict each other, or cannot be remembered: then nothing is
    /// changed.
    pub async fn set_vm(
        &self,
        name: &Name,
        change: VmChange,
        new: bool,
    ) -> Result<VmStatus, Problem> {
        if !new && !self.known_vms().contains(name) {
            let remedy = format!(
                "hearth vm list; for a VM that has no disk yet: hearth vm set {name} --new ..."
            );
            return Err(self.no_such_vm(name).with_remedy(remedy));
        }
        let before = self.vms.change_of(name);
        self.change_vm(name, before.then(change)).await
    }

    /// Takes back what was changed of a VM at run time: the configuration file's word holds again.
    ///
    /// # Errors
    /// If there is no such VM, that contradicts other settings, or cannot be remembered: then nothing is
    /// changed.
    pub async fn reset_vm(&self, name: &Name) -> Result<VmStatus, Problem> {
        self.vm(name).await?;
        self.change_vm(name, VmChange::default()).await
    }

    async fn change_vm(&self, name: &Name, change: VmChange) -> Result<VmStatus, Problem> {
        self.refuse_when_stopping()?;
        let _one_at_a_time = self.changing.lock().await;
        let settings = self.vms.with(name, &change);
        if let Some(fault) = configuration::vm_faults(&settings).first() {
            let detail = format!("{}: {}", fault.key, fault.message);
            return Err(Problem::new(ProblemKind::Invalid, detail));
        }
        self.refuse_unknown_images(name, &settings.images)?;
        let (change_before, before) = (self.vms.change_of(name), self.vms.settings(name));
        self.tell_vm(&settings, &before).await?;
        self.vms.set(name, change);
        if let Err(problem) = self.remember_settings() {
            self.vms.set(name, change_before);
            // It held before, so it holds again.
            let _ = self.tell_vm(&before, &settings).await;
            return Err(problem);
        }
        self.disk_sockets().settle();
        tracing::info!(vm = %name, "settings changed");
        let shards = self.shard_states().await;
        let ledger = self.ledger();
        Ok(self.seen(&self.entries(), &shards, &ledger).vm(name))
    }

    fn refuse_unknown_images(&self, vm: &Name, images: &[Name]) -> Result<(), Problem> {
        let entries = self.entries();
        if entries
            .iter()
            .any(|entry| entry.config.shared && entry.config.name == *vm)
        {
            let detail = format!("'{vm}' is a base image, not a VM");
            return Err(Problem::new(ProblemKind::Invalid, detail));
        }
        for image in images {
            match entries.iter().find(|entry| entry.config.name == *image) {
                Some(entry) if entry.config.shared => {}
                Some(_) => {
                    let detail = format!("the disk '{image}' is not shared");
                    return Err(
                        Problem::new(ProblemKind::Invalid, detail).with_remedy(format!(
                            "detach it, then: hearth disk attach {image} --shared --origin ..."
                        )),
                    );
                }
                None => {
                    let shared = entries.iter().filter(|entry| entry.config.shared);
                    let known = shared.map(|entry| entry.config.name.as_str());
                    let detail = format!(
                        "there is no shared disk '{image}'; {}",
                        configuration::meant(image, known)
                    );
                    return Err(Problem::new(ProblemKind::Invalid, detail)
                        .with_remedy(format!("hearth disk attach {image} --shared --origin ...")));
                }
            }
        }
        Ok(())
    }
}
