//! What operators want of VMs: the configuration file's word, and over it what was changed while the
//! daemon ran, which is remembered in the state directory.
//!
//! Asked by handshakes and changed by the control, each for a few map operations and never across a
//! wait; hence a lock rather than a task of its own.

use configuration::{Name, VmChange, VmConfig};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The settings of every VM that has any.
#[derive(Debug, Default)]
pub(super) struct VmBook {
    file: Mutex<BTreeMap<Name, VmConfig>>,
    changed: Mutex<BTreeMap<Name, VmChange>>,
}

impl VmBook {
    pub(super) fn new(file: &[VmConfig], changed: BTreeMap<Name, VmChange>) -> Self {
        let file = file.iter().map(|vm| (vm.name.clone(), vm.clone()));
        Self {
            file: Mutex::new(file.collect()),
            changed: Mutex::new(changed),
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Name, VmChange>> {
        // A panic elsewhere leaves the map whole: every change is one map operation.
        self.changed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn file(&self) -> MutexGuard<'_, BTreeMap<Name, VmConfig>> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the file has of a VM, if it has anything.
    pub(super) fn in_file(&self, vm: &Name) -> Option<VmConfig> {
        self.file().get(vm).cloned()
    }

    /// Replaces what the file has of a VM.
    pub(super) fn set_file(&self, vm: &Name, settings: Option<VmConfig>) {
        let mut file = self.file();
        match settings {
            Some(settings) => file.insert(vm.clone(), settings),
            None => file.remove(vm),
        };
    }

    /// What the file says of a VM, or the defaults.
    pub(super) fn of_file(&self, vm: &Name) -> VmConfig {
        self.in_file(vm)
            .unwrap_or_else(|| VmConfig::new(vm.clone()))
    }

    /// What holds for a VM.
    pub(super) fn settings(&self, vm: &Name) -> VmConfig {
        self.with(vm, &self.change_of(vm))
    }

    /// What would hold for a VM with this change instead of the present one.
    pub(super) fn with(&self, vm: &Name, change: &VmChange) -> VmConfig {
        let mut settings = self.of_file(vm);
        change.apply(&mut settings);
        settings
    }

    /// What was changed of a VM since the file was read.
    pub(super) fn change_of(&self, vm: &Name) -> VmChange {
        self.lock().get(vm).cloned().unwrap_or_default()
    }

    /// All changes, to be written down.
    pub(super) fn changes(&self) -> BTreeMap<Name, VmChange> {
        self.lock().clone()
    }

    /// Replaces what is changed of a VM; no change forgets it.
    pub(super) fn set(&self, vm: &Name, change: VmChange) {
        let mut changed = self.lock();
        if change == VmChange::default() {
            changed.remove(vm);
        } else {
            changed.insert(vm.clone(), change);
        }
    }

    /// Every VM that has settings.
    pub(super) fn names(&self) -> Vec<Name> {
        let mut names: Vec<Name> = self.file().keys().cloned().collect();
        names.extend(self.lock().keys().cloned());
        names.sort();
        names.dedup();
        names
    }

    /// Whether a VM may attach a base image.
    pub(super) fn may_read(&self, vm: &Name, image: &Name) -> bool {
        self.settings(vm).images.contains(image)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        text.parse().unwrap()
    }

    #[test]
    fn a_change_holds_over_the_file_until_it_is_taken_back() {
        let mut web = VmConfig::new(name("web"));
        web.weight = 3;
        let book = VmBook::new(&[web], BTreeMap::new());
        let change = VmChange {
            weight: Some(7),
            ..VmChange::default()
        };
        book.set(&name("web"), change);
        assert_eq!(book.settings(&name("web")).weight, 7);
        book.set(&name("web"), VmChange::default());
        assert_eq!(book.settings(&name("web")).weight, 3);
        assert!(book.changes().is_empty());
    }

    #[test]
    fn a_vm_that_nobody_named_has_the_defaults_and_reads_no_image() {
        let book = VmBook::default();
        assert_eq!(book.settings(&name("db")), VmConfig::new(name("db")));
        assert!(!book.may_read(&name("db"), &name("debian")));
        let images = Some(vec![name("debian")]);
        let change = VmChange {
            images,
            ..VmChange::default()
        };
        book.set(&name("db"), change);
        assert!(book.may_read(&name("db"), &name("debian")));
        assert_eq!(book.names(), [name("db")]);
    }
}
