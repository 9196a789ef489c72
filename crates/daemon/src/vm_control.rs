//! What an operator can set of VMs.

use super::control::Control;
use api::problem::ProblemKind;
use api::types::Problem;
use api::vms::VmStatus;
use configuration::{Name, VmChange, VmConfig};

impl Control {
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
        if !new && !self.observer().known_vms().contains(name) {
            let remedy = format!(
                "hearth vm list; for a VM that has no disk yet: hearth vm set {name} --new ..."
            );
            return Err(self.observer().no_such_vm(name).with_remedy(remedy));
        }
        let before = self.remembered().vms().change_of(name);
        self.change_vm(name, before.then(change)).await
    }

    /// Takes back what was changed of a VM at run time: the configuration file's word holds again.
    ///
    /// # Errors
    /// If there is no such VM, that contradicts other settings, or cannot be remembered: then nothing is
    /// changed.
    pub async fn reset_vm(&self, name: &Name) -> Result<VmStatus, Problem> {
        self.observer().vm(name).await?;
        self.change_vm(name, VmChange::default()).await
    }

    async fn change_vm(&self, name: &Name, change: VmChange) -> Result<VmStatus, Problem> {
        self.refuse_when_stopping()?;
        let _one_at_a_time = self.alone().await;
        let settings = self.remembered().vms().with(name, &change);
        if let Some(fault) = configuration::vm_faults(&settings).first() {
            let detail = format!("{}: {}", fault.key, fault.message);
            return Err(Problem::new(ProblemKind::Invalid, detail));
        }
        self.refuse_unknown_images(name, &settings.images)?;
        let (change_before, before) = (
            self.remembered().vms().change_of(name),
            self.remembered().vms().settings(name),
        );
        self.tenancies().tell(&settings, &before).await?;
        self.remembered().vms().set(name, change);
        if let Err(problem) = self.remembered().write_settings() {
            self.remembered().vms().set(name, change_before);
            // It held before, so it holds again.
            let _ = self.tenancies().tell(&before, &settings).await;
            return Err(problem);
        }
        self.disk_sockets().settle();
        tracing::info!(vm = %name, "settings changed");
        Ok(self.observer().vm_or_newcomer(name).await)
    }

    fn refuse_unknown_images(&self, vm: &Name, images: &[Name]) -> Result<(), Problem> {
        let entries = self.registry().all();
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

/// Has another word of the configuration file hold for a VM; none: the defaults. What an operator changed holds over it.
///
/// # Errors
/// If the settings contradict each other or those of others: then nothing is changed.
pub(super) async fn reread_vm(
    control: &Control,
    name: &Name,
    file: Option<VmConfig>,
) -> Result<(), Problem> {
    let _one_at_a_time = control.alone().await;
    let vms = control.remembered().vms();
    let (file_before, before) = (vms.in_file(name), vms.settings(name));
    vms.set_file(name, file);
    let settings = vms.settings(name);
    let images = control.refuse_unknown_images(name, &settings.images);
    let told = match images {
        Ok(()) => control.tenancies().tell(&settings, &before).await,
        refused => refused,
    };
    if told.is_err() {
        vms.set_file(name, file_before);
    }
    control.disk_sockets().settle();
    told
}
