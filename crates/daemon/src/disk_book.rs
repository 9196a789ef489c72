//! What operators want of the disks of the configuration file: the file's word, and over it what was
//! changed while the daemon ran, which is remembered in the state directory. As [`super::vms`] for VMs.
//! Disks that were attached at run time are remembered whole and need no page here.

use api::write_back::DiskChange;
use configuration::{DiskConfig, Name};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What the file says of its disks, and what was changed of them.
#[derive(Debug, Default)]
pub(super) struct DiskBook {
    file: Mutex<BTreeMap<Name, DiskConfig>>,
    changed: Mutex<BTreeMap<Name, DiskChange>>,
}

impl DiskBook {
    pub(super) fn new(file: &[DiskConfig], changed: BTreeMap<Name, DiskChange>) -> Self {
        let file = file.iter().map(|disk| (disk.name.clone(), disk.clone()));
        Self {
            file: Mutex::new(file.collect()),
            changed: Mutex::new(changed),
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Name, DiskChange>> {
        // A panic elsewhere leaves the map whole: every change is one map operation.
        self.changed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn file(&self) -> MutexGuard<'_, BTreeMap<Name, DiskConfig>> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces what the file has of a disk.
    pub(super) fn set_file(&self, disk: &Name, config: Option<DiskConfig>) {
        let mut file = self.file();
        match config {
            Some(config) => file.insert(disk.clone(), config),
            None => file.remove(disk),
        };
    }

    /// What the file says of a disk.
    pub(super) fn of_file(&self, disk: &Name) -> Option<DiskConfig> {
        self.file().get(disk).cloned()
    }

    /// What was changed of a disk since the file was read.
    pub(super) fn change_of(&self, disk: &Name) -> DiskChange {
        self.lock().get(disk).cloned().unwrap_or_default()
    }

    /// A disk as the file has it, with what was changed of it.
    pub(super) fn over(&self, disk: &DiskConfig) -> DiskConfig {
        changed(disk, &self.change_of(&disk.name))
    }

    /// All changes, to be written down.
    pub(super) fn changes(&self) -> BTreeMap<Name, DiskChange> {
        self.lock().clone()
    }

    /// Replaces what is changed of a disk; no change forgets it.
    pub(super) fn set(&self, disk: &Name, change: DiskChange) {
        let mut changed = self.lock();
        if change.is_nothing() {
            changed.remove(disk);
        } else {
            changed.insert(disk.clone(), change);
        }
    }
}

/// A disk with a change.
pub(super) fn changed(disk: &DiskConfig, change: &DiskChange) -> DiskConfig {
    let mut disk = disk.clone();
    if let Some(policy) = change.write_policy {
        disk.write_policy = policy;
    }
    change.write_back.apply(&mut disk.write_back);
    change.limits.apply(&mut disk.limits);
    disk
}

#[cfg(test)]
mod tests {
    use super::*;
    use configuration::{Auto, FileOrigin, LimitsChange, Text, WriteBackChange, WritePolicy};
    use units::Bytes;

    #[test]
    fn a_change_holds_over_the_file_until_it_is_taken_back() {
        let name: Name = "web".parse().unwrap();
        let file = DiskConfig::new(name.clone(), FileOrigin::new("/o".into()).into());
        let book = DiskBook::default();
        assert_eq!(book.over(&file), file);
        let change = DiskChange {
            write_policy: Some(WritePolicy::Back),
            write_back: WriteBackChange {
                dirty_max: Some(Text(Auto::Fixed(Bytes::gib(7)))),
                ..WriteBackChange::default()
            },
            limits: LimitsChange {
                iops: Some(Text("500".parse().unwrap())),
                ..LimitsChange::default()
            },
        };
        let keys = ["write_policy", "write_back.dirty_max", "limits.iops"];
        assert_eq!(change.keys(), keys);
        book.set(&name, change);
        let over = book.over(&file);
        assert_eq!(over.write_policy, WritePolicy::Back);
        assert_eq!(over.write_back.dirty_max.0, Auto::Fixed(Bytes::gib(7)));
        assert_eq!(over.limits.iops.0.to_string(), "500");
        assert_eq!(over.write_back.age_max, file.write_back.age_max);
        book.set(&name, DiskChange::default());
        assert_eq!(book.over(&file), file);
        assert!(book.changes().is_empty());
    }
}
