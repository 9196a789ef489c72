//! What is remembered of scrubs over restarts, and which caches were told of theirs.

use api::scrub::{ScrubFound, ScrubStatus};
use cache::{ScrubPass, Scrubbed};
use configuration::Name;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use units::Bytes;

/// How often it is written down how far a pass is: so much of it is read again after a crash.
const WRITE_PAUSE: Duration = Duration::from_secs(10);

/// What is remembered of the scrub of a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ScrubRecord {
    /// The pass that is under way.
    pass: Option<PassRecord>,
    /// When the last whole pass ended, in seconds since 1970.
    last_whole_pass: Option<u64>,
    /// What it found.
    last: ScrubFound,
}

impl ScrubRecord {
    /// The pass that is under way.
    pub(super) fn pass(&self) -> Option<PassRecord> {
        self.pass
    }

    /// When the last whole pass ended, in seconds since 1970; none if there was none.
    pub(super) fn last_whole_pass(&self) -> Option<u64> {
        self.last_whole_pass
    }
}

/// A pass that is under way, as it is written down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PassRecord {
    rate: u64,
    segment: u32,
    found: ScrubFound,
}

/// The records by the name of their cache.
pub(super) type ScrubRecords = BTreeMap<Name, ScrubRecord>;

/// What is known of the scrubs of all caches.
#[derive(Debug)]
pub(super) struct Scrubs(Mutex<Known>);

#[derive(Debug)]
struct Known {
    records: ScrubRecords,
    /// Caches that were told of their pass since the daemon was started, and how many whole passes they had had then.
    told: BTreeMap<Name, u64>,
    written: Option<Instant>,
}

impl Scrubs {
    pub(super) fn new(records: ScrubRecords) -> Self {
        Self(Mutex::new(Known {
            records,
            told: BTreeMap::new(),
            written: None,
        }))
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is remembered of a cache.
    pub(super) fn record(&self, name: &Name) -> ScrubRecord {
        let known = self.known();
        known.records.get(name).copied().unwrap_or_default()
    }

    /// How many whole passes a cache had had when it was told of the pass that is under way; none if it was not told.
    pub(super) fn told(&self, name: &Name) -> Option<u64> {
        self.known().told.get(name).copied()
    }

    /// A cache was told of a pass, after so many whole ones.
    pub(super) fn begun(&self, name: &Name, pass: PassRecord, whole_passes: u64) {
        let mut known = self.known();
        known.told.insert(name.clone(), whole_passes);
        known.records.entry(name.clone()).or_default().pass = Some(pass);
    }

    /// How far a pass has come. True when it is time to write that down.
    pub(super) fn advanced(&self, name: &Name, pass: PassRecord) -> bool {
        let mut known = self.known();
        known.records.entry(name.clone()).or_default().pass = Some(pass);
        let written = known.written;
        written.is_none_or(|written| written.elapsed() >= WRITE_PAUSE)
    }

    /// A pass is over: whole at a time, in seconds since 1970, with what it found, or not. Returns how far it had come.
    pub(super) fn ended(
        &self,
        name: &Name,
        whole: Option<(u64, ScrubFound)>,
    ) -> Option<PassRecord> {
        let mut known = self.known();
        known.told.remove(name);
        let record = known.records.entry(name.clone()).or_default();
        if let Some((at, found)) = whole {
            record.last_whole_pass = Some(at);
            record.last = found;
        }
        record.pass.take()
    }

    /// What is written down now.
    pub(super) fn to_write(&self) -> ScrubRecords {
        let mut known = self.known();
        known.written = Some(Instant::now());
        known.records.clone()
    }

    /// Adds to what a cache says of its scrub what is remembered of it.
    pub(super) fn complete(&self, name: &Name, status: &mut ScrubStatus) {
        let record = self.record(name);
        status.last_whole_pass = record.last_whole_pass;
        status.last = record.last;
    }
}

/// What passes have found, for the API and the record.
pub(super) fn found(of: &Scrubbed) -> ScrubFound {
    ScrubFound {
        blocks: of.blocks,
        damaged_clean_blocks: of.damaged_clean,
        damaged_dirty_blocks: of.damaged_dirty,
        damaged_lists: of.damaged_lists,
    }
}

/// What a cache says of its scrub, for the API; what only the records know is left out.
pub(super) fn status(of: &cache::ScrubStatus) -> ScrubStatus {
    let pass = of.pass.map(|(pass, rate)| api::scrub::ScrubPass {
        rate: rate.get(),
        segment: pass.segment.into(),
        segments: of.segments.into(),
        found: found(&pass.found),
    });
    ScrubStatus {
        pass,
        total: found(&of.total),
        ..ScrubStatus::default()
    }
}

impl PassRecord {
    /// Of a pass at this rate.
    pub(super) fn of(pass: ScrubPass, rate: Bytes) -> Self {
        Self {
            rate: rate.get(),
            segment: pass.segment,
            found: found(&pass.found),
        }
    }

    /// What it may read in a second.
    pub(super) fn rate(self) -> Bytes {
        Bytes::new(self.rate)
    }

    /// What it has found.
    pub(super) fn found(self) -> ScrubFound {
        self.found
    }

    /// Where it is.
    pub(super) fn pass(self) -> ScrubPass {
        let found = self.found;
        ScrubPass {
            segment: self.segment,
            found: Scrubbed {
                blocks: found.blocks,
                damaged_clean: found.damaged_clean_blocks,
                damaged_dirty: found.damaged_dirty_blocks,
                damaged_lists: found.damaged_lists,
            },
        }
    }
}
