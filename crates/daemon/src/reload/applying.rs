//! The steps of a reload that change disks, VMs and caches.

use super::super::attach_at_start::attach_at_start;
use super::super::control::Control;
use super::super::policy_control::reread_policy;
use super::super::registry::Phase;
use super::super::vm_control::reread_vm;
use super::super::write_back::reread_disk;
use super::plan::Step;
use api::problem::ProblemKind;
use api::types::{DiskSource, Problem};
use api::write_back::{DiskChange, OfDirty};
use configuration::{Config, DiskConfig, Name};
use std::sync::Arc;

/// Takes a step; returns what there is to know about it.
///
/// # Errors
/// As the command that does the same: then nothing of the step was done.
pub(super) async fn apply(
    control: &Arc<Control>,
    step: &Step,
    wanted: &Config,
) -> Result<Option<String>, Problem> {
    match step {
        Step::Policy(name) => {
            let cache = wanted.caches.iter().find(|cache| cache.name == *name);
            let policy = cache.map(|cache| cache.policy.clone()).unwrap_or_default();
            reread_policy(control, name, policy).await?;
        }
        Step::Vm(name) => {
            let vm = wanted.vms.iter().find(|vm| vm.name == *name);
            reread_vm(control, name, vm.cloned()).await?;
        }
        Step::Disk(name) => {
            if let Some(disk) = disk_of(wanted, name) {
                reread_disk(control, disk).await?;
            }
        }
        Step::Attach(name) => {
            if let Some(disk) = disk_of(wanted, name) {
                return attach(control, disk).await;
            }
        }
        Step::Detach(name) => detach(control, name).await?,
        Step::Log | Step::Restart(_) => {}
    }
    Ok(None)
}

fn disk_of<'c>(wanted: &'c Config, name: &Name) -> Option<&'c DiskConfig> {
    wanted.disks.iter().find(|disk| disk.name == *name)
}

/// Attaches a disk as a start would: if its origin is away it waits, which is what is returned.
async fn attach(control: &Arc<Control>, disk: &DiskConfig) -> Result<Option<String>, Problem> {
    let name = &disk.name;
    let entry = control.reserve(control.remembered().disks().over(disk), DiskSource::Config)?;
    let has_room = control.tenancies().has_room(&entry);
    if let Err(problem) = has_room.and_then(|()| control.disk_sockets().may_attach(&entry)) {
        control.registry().remove(&entry);
        return Err(problem);
    }
    control
        .remembered()
        .disks()
        .set_file(name, Some(disk.clone()));
    attach_at_start(Arc::clone(control), entry).await;
    match control.registry().get(name).map(|entry| entry.phase) {
        Some(Phase::Waiting { why }) => Ok(Some(format!("it waits: {}", why.in_a_line()))),
        _ => Ok(None),
    }
}

/// Detaches a disk if nobody uses it and its origin lacks nothing, and forgets what was changed of it.
async fn detach(control: &Control, name: &Name) -> Result<(), Problem> {
    match control.detach(name, false, OfDirty::Refuse, false).await {
        Ok(_) => {}
        // An operator has detached it before.
        Err(problem) if problem.is(ProblemKind::NoSuchDisk) => {}
        Err(problem) => return Err(problem),
    }
    control.remembered().disks().set_file(name, None);
    control
        .remembered()
        .disks()
        .set(name, DiskChange::default());
    control.remembered().write_settings()
}
