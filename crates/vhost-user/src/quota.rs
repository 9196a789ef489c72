//! How much guest memory is mapped, for one VM's connection and for all of a daemon.
//!
//! A mapping costs no memory but addresses, of which a process has 128 TiB, and a file in memory may
//! be as long as its owner likes without having a page. So without a bound one client could leave no
//! addresses for the others.
//!
//! - A table of regions has at most [`MappingLimits::of_client`].
//! - What a connection keeps mapped is at most twice that and [`SLACK_BYTES`]: a new table is mapped
//!   while the one before is in use, and there are a log and a region for requests in flight.
//! - What all connections keep mapped is at most [`MappingLimits::of_all`].

use crate::limits::MAPPING_BYTES_MAX;
use crate::mapping::MapError;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use units::Bytes;

/// What a connection may map beside two tables.
const SLACK_BYTES: u64 = 1 << 30;

/// The bounds, shared by all connections of a daemon. Cloning shares what is counted.
#[derive(Clone, Debug)]
pub struct MappingLimits {
    of_client: u64,
    all: Arc<All>,
}

#[derive(Debug)]
struct All {
    limit: u64,
    mapped: AtomicU64,
}

impl MappingLimits {
    /// Bounds for one VM's memory, and for what all of them have mapped.
    pub fn new(of_client: Bytes, of_all: Bytes) -> Self {
        Self {
            of_client: of_client.get(),
            all: Arc::new(All {
                limit: of_all.get(),
                mapped: AtomicU64::new(0),
            }),
        }
    }

    /// The most memory that one VM may have.
    pub fn of_client(&self) -> Bytes {
        Bytes::new(self.of_client)
    }

    /// The most that all of them may have mapped.
    pub fn of_all(&self) -> Bytes {
        Bytes::new(self.all.limit)
    }

    /// What is mapped now.
    pub fn mapped(&self) -> Bytes {
        Bytes::new(self.all.mapped.load(Ordering::Relaxed))
    }
}

impl Default for MappingLimits {
    /// What one mapping may have at most, for each and for all.
    fn default() -> Self {
        Self::new(Bytes::new(MAPPING_BYTES_MAX), Bytes::new(MAPPING_BYTES_MAX))
    }
}

/// What a connection has mapped, within the bounds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Quota {
    limits: MappingLimits,
    mapped: Rc<Cell<u64>>,
}

/// A part of it, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Mapped {
    quota: Quota,
    bytes: u64,
}

impl Quota {
    pub(crate) fn new(limits: MappingLimits) -> Self {
        Self {
            limits,
            mapped: Rc::default(),
        }
    }

    /// Whether a table of regions may have so many bytes.
    pub(crate) fn check_table(&self, bytes: u64) -> Result<(), MapError> {
        let limit = self.limits.of_client;
        if bytes > limit {
            return Err(MapError::OfClient { bytes, limit });
        }
        Ok(())
    }

    /// Takes room for a mapping.
    pub(crate) fn take(&self, bytes: u64) -> Result<Mapped, MapError> {
        let of_client = self.limits.of_client;
        let limit = of_client.saturating_mul(2).saturating_add(SLACK_BYTES);
        let mine = self.mapped.get().saturating_add(bytes);
        if mine > limit {
            return Err(MapError::OfClient { bytes: mine, limit });
        }
        let all = &self.limits.all;
        let more = |mapped: u64| mapped.checked_add(bytes).filter(|sum| *sum <= all.limit);
        // Only a sum: nothing else is ordered by it.
        let taken = all
            .mapped
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        if taken.is_err() {
            let limit = all.limit;
            return Err(MapError::OfAll { bytes, limit });
        }
        self.mapped.set(mine);
        Ok(Mapped {
            quota: self.clone(),
            bytes,
        })
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        let mine = &self.quota.mapped;
        mine.set(mine.get() - self.bytes);
        let all = &self.quota.limits.all;
        all.mapped.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn each_has_its_bound_and_all_have_one() {
        let limits = MappingLimits::new(Bytes::gib(2), Bytes::gib(6));
        let (one, other) = (Quota::new(limits.clone()), Quota::new(limits.clone()));
        assert!(one.check_table(2 * GIB).is_ok());
        assert!(one.check_table(2 * GIB + 1).is_err());
        let old = one.take(2 * GIB).unwrap();
        let new = one.take(2 * GIB).unwrap();
        let log = one.take(GIB).unwrap();
        assert!(matches!(one.take(1), Err(MapError::OfClient { .. })));
        assert!(matches!(other.take(2 * GIB), Err(MapError::OfAll { .. })));
        drop(old);
        assert_eq!(limits.mapped(), Bytes::gib(3));
        let others = other.take(2 * GIB).unwrap();
        drop((new, log, others));
        assert_eq!(limits.mapped(), Bytes::ZERO);
    }
}
