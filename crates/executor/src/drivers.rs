//! The moves that this host drives: those whose record names it, and, while it plans for the cluster, those whose
//! driver is gone.

use crate::driving::drive;
use crate::hosts::heard;
use crate::records::{Recorded, all};
use crate::says::FleetSays;
use events::EventKind;
use placement::Name;
use placement::moving::{Event, Timeouts};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use store::{Changes, Revision, Store, StoreError, keys};
use tokio::task::JoinHandle;

/// How often a driver looks after its move, and this host after moves.
pub const EVERY: Duration = Duration::from_secs(1);

/// This host as a driver of moves.
pub struct Drivers {
    store: Arc<dyn Store>,
    me: Name,
    timeouts: Timeouts,
    every: Duration,
    /// Whether this host plans for the cluster, and takes over what others have left.
    leads: Arc<AtomicBool>,
    says: Arc<dyn FleetSays>,
    driven: BTreeMap<Name, JoinHandle<()>>,
}

impl Drivers {
    /// Nothing is driven yet.
    pub fn new(
        store: Arc<dyn Store>,
        me: Name,
        leads: Arc<AtomicBool>,
        says: Arc<dyn FleetSays>,
    ) -> Self {
        Self {
            store,
            me,
            timeouts: Timeouts::default(),
            every: EVERY,
            leads,
            says,
            driven: BTreeMap::new(),
        }
    }

    /// Drives moves with these times, and looks so often.
    #[must_use]
    pub fn with(mut self, timeouts: Timeouts, every: Duration) -> Self {
        (self.timeouts, self.every) = (timeouts, every);
        self
    }

    /// Drives moves for as long as this runs.
    pub async fn keep(mut self) {
        let mut changes = Changes::new(keys::MOVES.prefix());
        loop {
            let seen = self.look().await;
            let seen = seen.inspect_err(|error| {
                tracing::debug!(%error, "moves are not seen");
                self.says.saw_nothing();
            });
            changes.wait(&*self.store, seen.ok(), self.every).await;
        }
    }

    async fn look(&mut self) -> Result<Revision, StoreError> {
        self.driven.retain(|_, task| !task.is_finished());
        let (heard, revision) = heard(&*self.store).await?;
        let moves = all(&*self.store).await?;
        self.says.saw(&heard, &moves);
        for Recorded { record, .. } in moves {
            if record.stage.is_final() || self.driven.contains_key(&record.vm) {
                continue;
            }
            let Some(driver) = &record.driver else {
                continue;
            };
            let first = if *driver == self.me {
                None
            } else if self.leads.load(Ordering::Relaxed) && !heard.contains(driver.as_str()) {
                let event = EventKind::DriverLost.word();
                tracing::warn!(event, vm = %record.vm, host = %driver,
                    "the driver of a move is gone: this host goes on");
                Some(Event::DriverLost)
            } else {
                continue;
            };
            let task = drive(
                Arc::clone(&self.store),
                (self.me.clone(), Arc::clone(&self.says)),
                record.vm.clone(),
                self.timeouts,
                first,
                self.every,
            );
            self.driven.insert(record.vm, tokio::spawn(task));
        }
        Ok(revision)
    }
}
