//! What holds over a restart: the configuration file's word on VMs, caches and disks, what an operator
//! changed of it while the daemon ran, and the state directory where changes are written down.

use super::disk_book::DiskBook;
use super::policies::PolicyBook;
use super::registry::{Phase, Registry};
use super::scrub_records::Scrubs;
use super::state::{Changed, StateDir, StateError};
use super::vms::VmBook;
use api::problem::ProblemKind;
use api::types::{DiskSource, Problem};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use units::errors::chain;

/// The settings of VMs, caches and disks, and the directory that remembers them.
pub(super) struct Remembered {
    vms: Arc<VmBook>,
    policies: Arc<PolicyBook>,
    disks: DiskBook,
    scrubs: Scrubs,
    /// Held while a file is written, so that an earlier list does not replace a later one.
    dir: Mutex<StateDir>,
}

impl Remembered {
    pub(super) fn new(
        vms: Arc<VmBook>,
        policies: Arc<PolicyBook>,
        disks: DiskBook,
        dir: StateDir,
    ) -> Self {
        let scrubs = dir.scrubs().unwrap_or_else(|error| {
            tracing::warn!(
                error = chain(&error),
                "what is remembered of scrubs cannot be read: they begin anew"
            );
            BTreeMap::new()
        });
        let dir = Mutex::new(dir);
        Self {
            vms,
            policies,
            disks,
            scrubs: Scrubs::new(scrubs),
            dir,
        }
    }

    pub(super) fn vms(&self) -> &VmBook {
        &self.vms
    }

    pub(super) fn policies(&self) -> &PolicyBook {
        &self.policies
    }

    pub(super) fn disks(&self) -> &DiskBook {
        &self.disks
    }

    pub(super) fn scrubs(&self) -> &Scrubs {
        &self.scrubs
    }

    pub(super) fn dir(&self) -> MutexGuard<'_, StateDir> {
        self.dir.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes down the disks that were attached at run time.
    ///
    /// # Errors
    /// If the state directory cannot be written.
    pub(super) fn write_disks(&self, registry: &Registry) -> Result<(), Problem> {
        // Locked first: the list is the one of the moment at which it is written.
        let dir = self.dir();
        let entries = registry.all().into_iter();
        let runtime = entries.filter(|entry| {
            entry.source == DiskSource::Runtime && !matches!(entry.phase, Phase::Attaching)
        });
        let disks = runtime.map(|entry| entry.config).collect();
        dir.set_disks(disks).map_err(|error| unwritten(&error))
    }

    /// Writes down what was changed of VMs, caches and disks of the configuration file.
    ///
    /// # Errors
    /// If the state directory cannot be written.
    pub(super) fn write_settings(&self) -> Result<(), Problem> {
        let changed = Changed {
            vms: self.vms.changes(),
            caches: self.policies.changes(),
            disks: self.disks.changes(),
        };
        let written = self.dir().set_settings(changed);
        written.map_err(|error| unwritten(&error))
    }
}

fn unwritten(error: &StateError) -> Problem {
    Problem::new(ProblemKind::Failed, chain(error))
        .with_remedy("make room or restore the state directory, then repeat the command")
}
