//! How a disk's cache comes to this host: as the configuration says, until an operator says otherwise.

use borrowing::Manner;
use configuration::{MigrationConfig, Strategy};
use std::sync::{Mutex, MutexGuard, PoisonError};
use strategies::{Place, Row};

/// What holds for one disk now.
pub(super) struct Plan(Mutex<MigrationConfig>);

impl Plan {
    pub(super) fn new(config: &MigrationConfig) -> Self {
        Self(Mutex::new(config.clone()))
    }

    pub(super) fn strategy(&self) -> Strategy {
        self.lock().strategy
    }

    pub(super) fn row(&self) -> Row {
        self.strategy().row()
    }

    fn lock(&self) -> MutexGuard<'_, MigrationConfig> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Which reads of a disk that has come are asked of the host that had it; `None`: none.
pub(super) fn manner(row: Row) -> Option<Manner> {
    match (row.reads_from, row.behind) {
        (Place::Lender, _) if row.is_kept => Some(Manner::Keeps),
        (Place::Lender, _) => Some(Manner::Passes),
        (Place::Origin, Some(Place::Lender)) => Some(Manner::Pulls),
        (Place::Origin, _) => None,
    }
}
