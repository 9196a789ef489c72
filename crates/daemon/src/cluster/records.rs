//! The owner's records of disks in the store, for threads that may wait.

use shard::{ClusterRecords, Replaced, StoredRecord, Unreached};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};
use store::{Committed, Compare, Revision, Store, StoreError, Write, keys};
use tokio::runtime::Handle;
use units::DiskId;

/// How long a store that did not answer is not asked again: a disk that is attached asks several times.
const AWAY_FOR: Duration = Duration::from_secs(2);

/// The records, as this host reads and replaces them.
pub(super) struct Records {
    store: Arc<dyn Store>,
    here: String,
    runtime: Handle,
    /// When the store did not answer last, and what it said.
    away: Mutex<Option<(Instant, StoreError)>>,
}

impl Records {
    /// In this store, for this host.
    ///
    /// # Panics
    /// Outside of a runtime.
    pub(super) fn new(store: Arc<dyn Store>, here: String) -> Self {
        let runtime = Handle::current();
        Self {
            store,
            here,
            runtime,
            away: Mutex::default(),
        }
    }

    /// Lets the runtime carry out a call, and waits for its answer.
    fn wait<T: Send + 'static>(
        &self,
        call: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, StoreError> {
        let away = || self.away.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((since, error)) = &*away()
            && since.elapsed() < AWAY_FOR
        {
            return Err(error.clone());
        }
        let answer = self.ask(call);
        *away() = match &answer {
            Err(error @ StoreError::Away(_)) => Some((Instant::now(), error.clone())),
            _ => None,
        };
        answer
    }

    fn ask<T: Send + 'static>(
        &self,
        call: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (answer, answered) = mpsc::channel();
        self.runtime.spawn(async move {
            // Nobody waits any more when the daemon ends.
            let _ = answer.send(call.await);
        });
        let ends = || StoreError::Away("the daemon ends".to_owned());
        answered.recv().map_err(|_| ends())?
    }
}

impl fmt::Debug for Records {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Records")
            .field("here", &self.here)
            .finish_non_exhaustive()
    }
}

fn unreached(error: &StoreError) -> Unreached {
    Unreached(error.to_string())
}

impl ClusterRecords for Records {
    fn here(&self) -> &str {
        &self.here
    }

    fn read(&self, disk: DiskId) -> Result<Option<StoredRecord>, Unreached> {
        let store = Arc::clone(&self.store);
        let found = self.wait(async move { store.get(&keys::owner(disk)).await });
        let found = found.map_err(|error| unreached(&error))?;
        Ok(found.map(|found| StoredRecord {
            text: found.value,
            revision: found.revision.0,
        }))
    }

    fn replace(&self, disk: DiskId, was: Option<u64>, text: &[u8]) -> Result<Replaced, Unreached> {
        let (store, key, text) = (Arc::clone(&self.store), keys::owner(disk), text.to_vec());
        let committed = self.wait(async move {
            let when = match was {
                Some(revision) => Compare::Unchanged(key.clone(), Revision(revision)),
                None => Compare::Absent(key.clone()),
            };
            store.commit(&[when], &[Write::put(key, text)]).await
        });
        match committed {
            Ok(Committed::Done(_)) => Ok(Replaced::Yes),
            Ok(Committed::Refused) => Ok(Replaced::No),
            Err(StoreError::Unknown(_)) => Ok(Replaced::Unknown),
            Err(error) => Err(unreached(&error)),
        }
    }

    fn hears_of(&self, host: &str) -> Result<bool, Unreached> {
        let Ok(key) = keys::host(host) else {
            return Ok(false);
        };
        let store = Arc::clone(&self.store);
        let found = self.wait(async move { store.get(&key).await });
        Ok(found.map_err(|error| unreached(&error))?.is_some())
    }
}
