//! How a disk's cache comes to this host: as the configuration says, until an operator says otherwise.

use crate::pace::Pace;
use api::roaming::MoveSettings;
use borrowing::Manner;
use configuration::{Auto, MigrationConfig, Strategy};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use strategies::{Place, Row};
use units::Bytes;

/// What holds for one disk now, and how much has come.
pub(super) struct Plan {
    strategy: Mutex<Strategy>,
    pace: Pace,
    /// Of all disks together.
    of_link: Arc<Pace>,
    came: AtomicU64,
    lent: Arc<AtomicU64>,
}

impl Plan {
    pub(super) fn new(config: &MigrationConfig, of_link: Arc<Pace>) -> Self {
        Self {
            strategy: Mutex::new(config.strategy),
            pace: Pace::new(config.rate.0),
            of_link,
            came: AtomicU64::new(0),
            lent: Arc::default(),
        }
    }

    /// An operator says otherwise. Nothing is changed that is not said.
    pub(super) fn set(&self, settings: &MoveSettings) {
        if let Some(strategy) = settings.strategy {
            *self.strategy.lock().unwrap_or_else(PoisonError::into_inner) = strategy;
        }
        if let Some(rate) = settings.rate {
            self.pace.set(rate.0);
        }
    }

    pub(super) fn strategy(&self) -> Strategy {
        *self.strategy.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn row(&self) -> Row {
        self.strategy().row()
    }

    pub(super) fn rate(&self) -> Auto<Bytes> {
        self.pace.rate()
    }

    /// Bytes of the other host's cache that have come.
    pub(super) fn came(&self) -> u64 {
        self.came.load(Ordering::Relaxed)
    }

    /// Bytes that were lent to the other host.
    pub(super) fn lent(&self) -> u64 {
        self.lent.load(Ordering::Relaxed)
    }

    /// Who lends counts them there.
    pub(super) fn counts_lent(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.lent)
    }

    /// Bytes have come.
    pub(super) fn has_come(&self, bytes: usize) {
        self.came.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// The other host is asked for so many bytes.
    pub(super) fn asks_lender(&self, bytes: Bytes) {
        self.pace.count(bytes);
        self.of_link.count(bytes);
    }

    /// The origin is asked for so many bytes that the other host has cached.
    pub(super) fn asks_origin(&self, bytes: Bytes) {
        self.pace.count(bytes);
    }

    /// Waits until more may be copied from there.
    pub(super) async fn wait(&self, from: Place) {
        self.pace.wait().await;
        if from == Place::Lender {
            self.of_link.wait().await;
        }
    }

    /// Rests after a window that took so long, unless a rate is said: half of the time the link and both flashes are the
    /// guest's and its neighbours'.
    pub(super) async fn rest(&self, took: Duration) {
        if (self.pace.rate(), self.of_link.rate()) == (Auto::Auto, Auto::Auto) {
            tokio::time::sleep(took).await;
        }
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
