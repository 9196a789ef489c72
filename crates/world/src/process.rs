//! The process of one life: the cache or its recovery, where each disk stands with it, and when it dies.

use crate::attachment::Attachment;
use crate::disks::Disks;
use crate::run::Run;
use crate::storage::Handle;
use crate::violation::Violation;
use block_io::{FlashDone, OriginDone};
use cache::{
    Cache, Committed, DestageState, DirtyStatus, DiskStats, Effect, Mode, OpenError, Recovered,
    Recovery, WritePolicy,
};
use units::{Bytes, DiskSlot, Instant};

/// Memory that requests in flight may pin beside what the configuration allows for writes.
const BUFFERED_SLACK: Bytes = Bytes::mib(1);

/// What runs.
enum Software {
    /// Nothing.
    Down,
    /// The cache is being opened.
    Recovery(Box<Recovery>),
    /// The cache serves.
    Cache(Box<Cache>),
}

/// See the module's header.
pub(crate) struct Process {
    software: Software,
    /// By the number of the disk.
    attachments: Vec<Attachment>,
    /// What it has open of each origin.
    origins: Vec<Handle>,
    /// Operations submitted and completed.
    operations: u64,
    /// It dies at this one.
    crash_at: Option<u64>,
    has_crashed: bool,
}

impl Process {
    /// A process that has so many disks to serve and opens nothing yet.
    pub(crate) fn new(disks: usize, crash_at: Option<u64>) -> Self {
        Self {
            software: Software::Down,
            attachments: (0..disks).map(|_| Attachment::default()).collect(),
            origins: Vec::new(),
            operations: 0,
            crash_at,
            has_crashed: false,
        }
    }

    // What runs.

    /// The cache, if it serves.
    pub(crate) fn cache(&self) -> Option<&Cache> {
        match &self.software {
            Software::Cache(cache) => Some(cache),
            Software::Down | Software::Recovery(_) => None,
        }
    }

    /// The same, to be asked.
    pub(crate) fn cache_mut(&mut self) -> Option<&mut Cache> {
        match &mut self.software {
            Software::Cache(cache) => Some(cache),
            Software::Down | Software::Recovery(_) => None,
        }
    }

    /// The cache is being opened.
    pub(crate) fn opens(&self) -> bool {
        matches!(self.software, Software::Recovery(_))
    }

    /// It begins to open the cache.
    pub(crate) fn open(&mut self, recovery: Recovery) {
        self.software = Software::Recovery(Box::new(recovery));
    }

    /// How opening the cache has ended. It says so once.
    pub(crate) fn finished(&mut self) -> Option<Result<Recovered, OpenError>> {
        match &mut self.software {
            Software::Recovery(recovery) => recovery.finished(),
            Software::Down | Software::Cache(_) => None,
        }
    }

    /// The cache serves.
    pub(crate) fn serve(&mut self, cache: Cache) {
        self.software = Software::Cache(Box::new(cache));
    }

    /// What it asks for.
    pub(crate) fn take_effects(&mut self) -> Vec<Effect> {
        let mut effects = Vec::new();
        match &mut self.software {
            Software::Down => {}
            Software::Recovery(recovery) => recovery.take_effects(&mut effects),
            Software::Cache(cache) => cache.take_effects(&mut effects),
        }
        effects
    }

    /// An operation of flash has ended.
    pub(crate) fn flash_done(&mut self, done: FlashDone, now: Instant) {
        match &mut self.software {
            Software::Down => {}
            Software::Recovery(recovery) => recovery.flash_done(done, now),
            Software::Cache(cache) => cache.flash_done(done, now),
        }
    }

    /// An operation of an origin has ended.
    pub(crate) fn origin_done(&mut self, done: OriginDone, now: Instant) {
        if let Some(cache) = self.cache_mut() {
            cache.origin_done(done, now);
        }
    }

    /// When the cache wants to be looked at.
    pub(crate) fn next_tick(&self) -> Option<Instant> {
        self.cache()?.next_deadline()
    }

    /// It is looked at.
    pub(crate) fn tick(&mut self, now: Instant) {
        if let Some(cache) = self.cache_mut() {
            cache.tick(now);
        }
    }

    // When it dies.

    /// Counts an operation; at the chosen one the process dies. False if it has died.
    pub(crate) fn survives_operation(&mut self) -> bool {
        self.operations += 1;
        self.has_crashed |= self.crash_at == Some(self.operations);
        !self.has_crashed
    }

    /// It does not die any more where that was planned.
    pub(crate) fn live_on(&mut self) {
        self.crash_at = None;
    }

    /// Operations so far.
    pub(crate) fn operations(&self) -> u64 {
        self.operations
    }

    /// Whether it has died.
    pub(crate) fn has_crashed(&self) -> bool {
        self.has_crashed
    }

    // Disks.

    /// Where a disk stands with it.
    pub(crate) fn disk(&self, number: usize) -> &Attachment {
        &self.attachments[number]
    }

    /// The same, to be changed.
    pub(crate) fn disk_mut(&mut self, number: usize) -> &mut Attachment {
        &mut self.attachments[number]
    }

    /// The disk of a slot.
    pub(crate) fn number_of(&self, slot: DiskSlot) -> Option<usize> {
        let mut attachments = self.attachments.iter();
        attachments.position(|attachment| attachment.slot() == Some(slot))
    }

    /// The numbers of the disks that are served.
    pub(crate) fn served(&self) -> Vec<usize> {
        let numbers = 0..self.attachments.len();
        numbers
            .filter(|number| self.disk(*number).served_as().is_some())
            .collect()
    }

    /// It opens the origins.
    pub(crate) fn open_origins(&mut self, disks: &Disks) {
        self.origins = disks.iter().map(|disk| disk.origin().open(0)).collect();
    }

    /// What it has open of the origin of a disk.
    pub(crate) fn origin(&self, number: usize) -> Option<&Handle> {
        self.origins.get(number)
    }

    /// The same, to be used.
    pub(crate) fn origin_mut(&mut self, number: usize) -> &mut Handle {
        &mut self.origins[number]
    }

    /// What it had open of the origins, when it has died.
    pub(crate) fn take_origins(&mut self) -> Vec<Handle> {
        std::mem::take(&mut self.origins)
    }

    /// What a disk that is attached has that its origin lacks.
    pub(crate) fn write_back_of(&self, number: usize) -> Option<DirtyStatus> {
        self.cache()?
            .facts()
            .write_back_of(self.disk(number).slot()?)
    }

    /// The policy that the cache says a disk has.
    pub(crate) fn policy_of(&self, number: usize) -> Option<WritePolicy> {
        self.cache()?.facts().policy_of(self.disk(number).slot()?)
    }

    /// Whether the cache says that the operator has to decide about a disk.
    pub(crate) fn is_locked(&self, number: usize) -> bool {
        let status = self.write_back_of(number);
        status.is_some_and(|status| matches!(status.state, DestageState::Locked(_)))
    }

    /// Whether guests are served without flash, or not at all.
    pub(crate) fn is_bypassed(&self) -> bool {
        self.cache()
            .is_none_or(|cache| cache.facts().status().mode != Mode::Active)
    }

    /// How far it knows its tables on flash to be durable.
    pub(crate) fn committed(&self) -> Option<Committed> {
        self.cache()?.facts().committed()
    }

    // What it has done.

    /// Counts and limits, while nothing is in flight and the flash has been given `written` bytes.
    ///
    /// # Errors
    /// I7 if the cache counts otherwise, or holds more than it may.
    pub(crate) fn inspect(&self, written: u64, run: &Run) -> Result<(), Violation> {
        let Some(cache) = self.cache() else {
            return Ok(());
        };
        let status = cache.facts().status();
        let counted = cache.facts().stats().flash_written.total();
        if status.mode == Mode::Active && counted != written {
            return Err(Violation::new(
                "I7",
                format!("the cache counts {counted} bytes written to flash, the device {written}"),
            ));
        }
        if status.buffered > run.settings().config.write_buffer + BUFFERED_SLACK {
            return Err(Violation::new(
                "I7",
                format!("{} wait to be written to flash", status.buffered),
            ));
        }
        Ok(())
    }

    /// The rare branches that the cache has counted.
    pub(crate) fn count_marks(&self, run: &mut Run) {
        let Some(cache) = self.cache() else {
            return;
        };
        let stats = cache.facts().stats();
        let served = self.attachments.iter().filter_map(Attachment::served_as);
        let disks: Vec<DiskStats> = served
            .filter_map(|disk| cache.facts().stats_of(disk))
            .collect();
        let sum = |of: fn(&DiskStats) -> u64| disks.iter().map(of).sum::<u64>();
        let windows = cache.facts().shares().map_or(0, |shares| shares.window);
        for (name, count) in [
            ("checksum mismatch", stats.checksum_mismatches),
            ("flash error", stats.flash_errors),
            ("flash timeout", stats.flash_timeouts),
            ("read repeated", stats.reads_repeated),
            ("segment reclaimed", stats.segments_reclaimed),
            ("survivor kept", stats.blocks_kept),
            ("block evicted", stats.blocks_evicted),
            ("not admitted: no segment", stats.not_admitted.no_segment),
            (
                "not admitted: write buffer",
                stats.not_admitted.write_buffer,
            ),
            ("not admitted: index full", stats.not_admitted.index_full),
            ("write waited for the journal", stats.writes_waited),
            ("checkpoint", stats.checkpoints),
            ("staged block read", sum(|disk| disk.read_block_staged_hits)),
            ("hot block read", sum(|disk| disk.read_block_hot_hits)),
            (
                "prefetched block read",
                sum(|disk| disk.read_block_ahead_hits),
            ),
            ("write allocated", stats.writes_allocated),
            ("window ended", windows),
            ("not rewritten for the budget", stats.not_rewritten),
            ("not admitted: settings", stats.not_admitted.settings),
            ("contended write", stats.contended_writes),
            ("shared fill", stats.shared_fills),
            ("killed fill", stats.killed_fills),
            ("rewritten block trusted again", stats.retrusted_blocks),
        ] {
            run.hit_many(name, count);
        }
        for (reason, count) in stats.not_admitted.refused.iter() {
            run.hit_many(reason.name(), count);
        }
        let pages = stats.flash_written.journal / 4096;
        if pages > run.settings().geometry().journal_pages() {
            run.hit("journal wrapped");
        }
    }
}
