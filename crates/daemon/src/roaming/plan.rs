//! How a disk's cache comes to this host: as the configuration says, until an operator says otherwise.

use crate::pace::Pace;
use api::roaming::MoveSettings;
use borrowing::Manner;
use configuration::{Auto, MigrationConfig, Strategy};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
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
    copied: Mutex<Option<Copied>>,
}

/// How many blocks the other host has cached, and how many of those are cached here, too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Copied {
    there: u64,
    here: u64,
    /// All of it was gone through once: what comes may have been here before.
    is_whole: bool,
}

impl Plan {
    pub(super) fn new(config: &MigrationConfig, of_link: Arc<Pace>) -> Self {
        Self {
            strategy: Mutex::new(config.strategy),
            pace: Pace::new(config.rate.0),
            of_link,
            came: AtomicU64::new(0),
            lent: Arc::default(),
            copied: Mutex::default(),
        }
    }

    /// An operator says otherwise. Nothing is changed that is not said.
    pub(super) fn set(&self, settings: &MoveSettings) {
        if let Some(strategy) = settings.strategy {
            *self.strategy.lock().unwrap_or_else(PoisonError::into_inner) = strategy;
        }
        if let Some(rate) = settings.rate {
            self.set_rate(rate.0);
        }
    }

    /// An operator says another rate.
    pub(super) fn set_rate(&self, rate: Auto<Bytes>) {
        self.pace.set(rate);
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

    /// The other host has so many blocks cached, and so many of those are cached here. Neither is known: `None`.
    pub(super) fn set_copied(&self, there_and_here: Option<(u64, u64)>) {
        *self.copied() = there_and_here.map(|(there, here)| Copied {
            there,
            here,
            is_whole: true,
        });
    }

    /// The other host has so many blocks cached, and it is not known yet how many are here.
    pub(super) fn listed(&self, there: u64) {
        self.copied().get_or_insert(Copied {
            there,
            ..Copied::default()
        });
    }

    /// So many of the blocks that the other host has cached have come.
    pub(super) fn have_come(&self, blocks: u32) {
        if let Some(copied) = &mut *self.copied()
            && !copied.is_whole
        {
            copied.here = copied.there.min(copied.here + u64::from(blocks));
        }
    }

    /// So many are not right any more.
    pub(super) fn is_stale(&self, blocks: u32) {
        if let Some(copied) = &mut *self.copied() {
            copied.here = copied.here.saturating_sub(u64::from(blocks));
        }
    }

    /// Of the reads that hit the other host's cache, how many will hit here: the part of its blocks that is here, as
    /// far as that is known.
    pub(super) fn hit_ratio(&self) -> Option<f64> {
        let copied = (*self.copied()).filter(|copied| copied.there > 0)?;
        #[allow(clippy::cast_precision_loss, reason = "a ratio for people")]
        Some(copied.here as f64 / copied.there as f64)
    }

    fn copied(&self) -> MutexGuard<'_, Option<Copied>> {
        self.copied.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// Whether who copies rests after a window for as long as the window took. So it is unless a rate is said: half of the
    /// time the link and both flashes are the guest's and its neighbours'.
    pub(super) fn rests(&self) -> bool {
        (self.pace.rate(), self.of_link.rate()) == (Auto::Auto, Auto::Auto)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_reads_will_hit_as_blocks_have_come_and_are_right() {
        let pace = Arc::new(Pace::new(Auto::Auto));
        let plan = Plan::new(&MigrationConfig::default(), pace);
        plan.have_come(3);
        assert_eq!(plan.hit_ratio(), None, "nobody has said how many there are");
        plan.listed(8);
        plan.have_come(7);
        plan.is_stale(1);
        assert_eq!(plan.hit_ratio(), Some(0.75));
        plan.have_come(100);
        assert_eq!(plan.hit_ratio(), Some(1.0));
        plan.set_copied(Some((10, 5)));
        plan.listed(12);
        plan.have_come(5);
        assert_eq!(plan.hit_ratio(), Some(0.5), "they were here before");
        plan.is_stale(100);
        assert_eq!(plan.hit_ratio(), Some(0.0));
        plan.set_copied(Some((0, 0)));
        assert_eq!(plan.hit_ratio(), None, "nothing is cached there");
    }
}
