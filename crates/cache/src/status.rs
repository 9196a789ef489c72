//! What a cache is like at a moment, for people and metrics.

use crate::api::WritePolicy;
use crate::back::destage_state;
use crate::cache::Cache;
use crate::host_record::Retirement;
use crate::stats::{DiskStats, Stats};
use crate::views::Views;
use crate::write_back::{DirtyStatus, WriteBack};
use block_io::PAGE_BYTES;
use block_store::{Committed, SegmentCounts};
use units::{Bytes, DiskSlot};

/// Whether the flash is in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The flash is in use.
    Active,
    /// The flash is being given up; writes wait until that is recorded.
    Retiring {
        /// Why.
        reason: String,
    },
    /// There is no flash: everything goes to the origins.
    Bypassed {
        /// Why.
        reason: String,
    },
}

/// What a cache is like at a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Whether the flash is in use.
    pub mode: Mode,
    /// Whether reads of cached blocks go to their origins, since the flash is late with them.
    pub bypasses_reads: bool,
    /// Whether writes of the flash are late, or were a moment ago: guests do not wait for them, and
    /// after a crash the cache would open cold.
    pub is_in_doubt: bool,
    /// Which cache; zero without a flash.
    pub uuid: u128,
    /// Its incarnation; zero without a flash.
    pub incarnation: u64,
    /// Bytes of flash.
    pub capacity: Bytes,
    /// Bytes in a segment.
    pub segment_bytes: Bytes,
    /// Blocks that the segments can hold.
    pub blocks_max: u64,
    /// Blocks in the cache.
    pub cached_blocks: u64,
    /// Segments by what they are.
    pub segments: SegmentCounts,
    /// Memory for all that is remembered of blocks on flash.
    pub memory: Bytes,
    /// Bytes that wait in memory to be written to flash.
    pub buffered: Bytes,
    /// Blocks whose bytes are staged in memory.
    pub staged_blocks: u64,
    /// Memory for them.
    pub staged: Bytes,
    /// Memory of the admission, as it counts it: what is staged included.
    pub admission: Bytes,
    /// Why nothing enters the flash, if the settings contradict each other.
    pub error: Option<String>,
}

impl Cache {
    /// Counters since the cache was opened.
    pub fn stats(&self) -> Stats {
        self.ports.stats.with_store(self.ports.store.stats())
    }

    /// Counters of a disk since it was attached; none if it is not.
    pub fn stats_of(&self, disk: DiskSlot) -> Option<DiskStats> {
        self.disks.get(disk)?;
        let cached = self
            .flash
            .as_ref()
            .map_or(0, |flash| flash.facts().cached_blocks_of(disk));
        Some(DiskStats {
            cached_blocks: cached,
            ..*self.disks.counted(disk)
        })
    }

    /// The write policy of an attached disk.
    pub fn policy_of(&self, disk: DiskSlot) -> Option<WritePolicy> {
        Some(self.disks.get(disk)?.policy)
    }

    /// Requests of a disk that are not answered yet.
    pub fn in_flight(&self, disk: DiskSlot) -> u32 {
        self.disks.get(disk).map_or(0, |disk| disk.in_flight)
    }

    /// How far the tables on flash are durable; `None` without flash.
    pub fn committed(&self) -> Option<Committed> {
        Some(self.flash.as_ref()?.facts().committed())
    }

    /// What an attached disk has that its origin lacks; none if it is not attached.
    pub fn write_back_of(&self, disk: DiskSlot) -> Option<DirtyStatus> {
        self.disks.get(disk)?;
        let stats = self.disks.counted(disk);
        let mut status = DirtyStatus {
            destaged: Bytes::new(stats.destaged_bytes),
            stalls: stats.stalled_writes,
            is_bypassed: self.backs.does_without(disk),
            ..DirtyStatus::default()
        };
        if let Some(flash) = self.flash.with_logs() {
            status.epoch = flash
                .facts()
                .disk_entry(disk)
                .map_or(0, |entry| entry.epoch);
            if let Some(dirty) = flash.dirty_log(disk) {
                status.logged = dirty.log().logged();
                status.distinct = dirty.log().distinct() + dirty.log().erased();
                let age = |at| self.ports.now.since(at);
                status.oldest = dirty.log().oldest().map(age);
                status.intervals = dirty.log().intervals();
            }
        }
        if let Some(back) = self.backs.get(disk) {
            status.state = destage_state(&self.flash, disk, back);
        }
        Some(status)
    }

    /// How the writes of an attached disk reach its origin under write-back, as it was asked for last;
    /// none if it is not attached.
    pub fn write_back_settings_of(&self, disk: DiskSlot) -> Option<WriteBack> {
        Some(self.disks.get(disk)?.write_back)
    }

    /// What the cache is like now.
    pub fn status(&self) -> Status {
        let reason = self.flash.why_bypassed().unwrap_or_default().to_owned();
        let mode = match (self.flash.as_ref(), self.host_record.retirement()) {
            (Some(_), _) => Mode::Active,
            (None, Retirement::None | Retirement::Done) => Mode::Bypassed { reason },
            (None, Retirement::Asked { .. } | Retirement::Refused { .. }) => {
                Mode::Retiring { reason }
            }
        };
        let Some(flash) = self.flash.as_ref() else {
            return Status {
                mode,
                bypasses_reads: false,
                is_in_doubt: false,
                uuid: 0,
                incarnation: 0,
                capacity: Bytes::ZERO,
                segment_bytes: Bytes::ZERO,
                blocks_max: 0,
                cached_blocks: 0,
                segments: SegmentCounts::default(),
                memory: Bytes::ZERO,
                buffered: Bytes::ZERO,
                staged_blocks: 0,
                staged: Bytes::ZERO,
                admission: Bytes::ZERO,
                error: None,
            };
        };
        let views = self
            .disks
            .iter()
            .filter_map(|(_, disk)| disk.views.as_ref());
        let views = Bytes::new(views.map(Views::bytes).sum::<usize>() as u64);
        let geometry = flash.facts().geometry();
        Status {
            mode,
            bypasses_reads: self.bypasses_reads(),
            is_in_doubt: self.is_in_doubt(),
            uuid: flash.facts().uuid(),
            incarnation: flash.facts().incarnation(),
            capacity: geometry.capacity(),
            segment_bytes: geometry.segment_bytes(),
            blocks_max: u64::from(geometry.segment_count())
                * u64::from(geometry.segment_blocks_max()),
            cached_blocks: flash.facts().cached_blocks(),
            segments: flash.facts().segment_counts(),
            memory: flash.facts().memory_bytes() + views,
            buffered: flash.facts().buffered(),
            staged_blocks: self.admission.staged_blocks() as u64,
            staged: staged_bytes(self),
            admission: self.admission.memory(),
            error: self.admission.error().map(ToString::to_string),
        }
    }
}

/// Memory for what is staged: the blocks' buffers, and the table of them.
fn staged_bytes(cache: &Cache) -> Bytes {
    let buffers = cache.admission.staged_blocks() * PAGE_BYTES;
    Bytes::new((cache.admission.staging_table_bytes() + buffers) as u64)
}
