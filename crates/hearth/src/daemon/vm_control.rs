//! What an operator can see and set of VMs.

use super::control::Control;
use super::registry::Entry;
use super::shards::Pulse;
use super::state::Changed;
use super::vm_answers::Seen;
use crate::api::problem::ProblemKind;
use crate::api::types::Problem;
use crate::api::vms::{ImageStatus, VmStatus, Vms};
use crate::cli::exit::chain;
use crate::config::{self, Name, VmChange};
use shard::ShardStatus;
use std::collections::BTreeMap;

impl Control {
    /// Every VM and base image.
    pub async fn vms(&self) -> Vms {
        let shards = self.shard_states().await;
        self.seen(&self.entries(), &shards).all()
    }

    async fn shard_states(&self) -> BTreeMap<Name, Box<ShardStatus>> {
        let mut shards = BTreeMap::new();
        for shard in self.shards().all() {
            if let Pulse::Status(status) = shard.pulse().await {
                shards.insert(shard.config().name.clone(), status);
            }
        }
        shards
    }

    fn seen<'a>(
        &'a self,
        entries: &'a [Entry],
        shards: &'a BTreeMap<Name, Box<ShardStatus>>,
    ) -> Seen<'a> {
        let book = &self.vms;
        Seen {
            entries,
            shards,
            book,
        }
    }

    /// One VM.
    ///
    /// # Errors
    /// If there is none of this name.
    pub async fn vm(&self, name: &Name) -> Result<VmStatus, Problem> {
        let mut vms = self.vms().await.vms.into_iter();
        let found = vms.find(|vm| vm.name == *name);
        found.ok_or_else(|| Problem::no_such_vm(name.as_str()))
    }

    /// One base image.
    ///
    /// # Errors
    /// If there is none of this name.
    pub async fn image(&self, name: &Name) -> Result<ImageStatus, Problem> {
        let mut images = self.vms().await.images.into_iter();
        let found = images.find(|image| image.name == *name);
        found.ok_or_else(|| Problem::no_such_vm(name.as_str()))
    }

    /// Changes settings of a VM, and remembers them. A VM that has no disk yet finds them when it has.
    ///
    /// # Errors
    /// If they contradict each other, or cannot be remembered: then nothing is changed.
    pub async fn set_vm(&self, name: &Name, change: VmChange) -> Result<VmStatus, Problem> {
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
        if let Some(fault) = config::vm_faults(&settings).first() {
            let detail = format!("{}: {}", fault.key, fault.message);
            return Err(Problem::new(ProblemKind::Invalid, detail));
        }
        self.refuse_unknown_images(name, &settings.images)?;
        let before = self.vms.change_of(name);
        self.vms.set(name, change);
        if let Err(problem) = self.remember_settings() {
            self.vms.set(name, before);
            return Err(problem);
        }
        tracing::info!(vm = %name, "settings changed");
        let shards = self.shard_states().await;
        Ok(self.seen(&self.entries(), &shards).vm(name))
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
                        config::meant(image, known)
                    );
                    return Err(Problem::new(ProblemKind::Invalid, detail)
                        .with_remedy(format!("hearth disk attach {image} --shared --origin ...")));
                }
            }
        }
        Ok(())
    }

    fn remember_settings(&self) -> Result<(), Problem> {
        let changed = Changed {
            vms: self.vms.changes(),
        };
        self.state().set_settings(changed).map_err(|error| {
            Problem::new(ProblemKind::Failed, chain(&error))
                .with_remedy("make room or restore the state directory, then repeat the command")
        })
    }
}
