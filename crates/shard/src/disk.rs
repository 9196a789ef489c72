//! A disk that a shard serves.
//!
//! ```text
//!  attach ─► (cache attaches) ─► Serving ─ detach, stop ─► Draining ─► (cache detaches) ─► gone
//! ```
//! A draining disk takes no more requests. Once its clients are gone and neither the cache nor
//! its origin has anything of it in flight, the cache is told to detach it.

use crate::control::{Reply, ShardError};
use crate::latency::Timed;
use crate::spec::DiskSpec;
use crate::status::{DiskPhase, DiskStatus, FrontEndStatus, GuestLatency, RequestTimes};
use crate::tap::Tap;
use block_io::OriginGeometry;
use cache::{Cache, DropReason, OfDirty, Verb};
use frontend::{Counters, FrontEnd};
use origin::Origin;
use units::{DiskSlot, Duration, Instant};

/// The origin of a disk, through the ring and timed.
pub(crate) type DiskOrigin = Timed<Box<dyn Origin>>;

/// What a guest's request counts as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestKind {
    Read,
    Write,
    Flush,
    /// A hint; nobody waits for it.
    Prefetch,
}

impl RequestKind {
    pub(crate) fn of(verb: &Verb) -> Self {
        match verb {
            Verb::Read { .. } => Self::Read,
            Verb::Write { .. } | Verb::Discard { .. } | Verb::WriteZeroes { .. } => Self::Write,
            Verb::Flush => Self::Flush,
            Verb::Prefetch { .. } => Self::Prefetch,
        }
    }
}

/// Where a disk is in its life.
pub(crate) enum Phase {
    Serving,
    /// Who wants to know when it is gone.
    Draining(Vec<Reply<()>>),
    /// The cache is detaching it.
    Leaving(Vec<Reply<()>>),
}

impl Phase {
    /// Tells everybody who waits for the end how it came.
    pub(crate) fn answer(self, outcome: &Result<(), ShardError>) {
        let (Self::Draining(waiting) | Self::Leaving(waiting)) = self else {
            return;
        };
        for reply in waiting {
            reply(outcome.clone());
        }
    }
}

pub(crate) struct Disk {
    pub(crate) spec: DiskSpec,
    pub(crate) geometry: OriginGeometry,
    pub(crate) origin: DiskOrigin,
    pub(crate) phase: Phase,
    /// How long a draining disk waits for late writes at its origin.
    pub(crate) late_until: Option<Instant>,
    /// What becomes of bytes that its origin lacks, once it is detached.
    pub(crate) of_dirty: OfDirty,
    pub(crate) connections: usize,
    pub(crate) warm_blocks: u64,
    pub(crate) dropped: Option<DropReason>,
    /// Who writes down what its guests ask.
    pub(crate) tap: Option<Tap>,
    /// What connections that have gone had counted.
    pub(crate) counted_before: Vec<(FrontEnd, Counters)>,
    failed_requests: u64,
    latency: GuestLatency,
}

impl Disk {
    pub(crate) fn new(spec: DiskSpec, origin: Box<dyn Origin>) -> Self {
        Self {
            spec,
            geometry: origin.geometry(),
            origin: Timed::new(origin),
            phase: Phase::Serving,
            late_until: None,
            of_dirty: OfDirty::default(),
            connections: 0,
            warm_blocks: 0,
            dropped: None,
            tap: None,
            counted_before: Vec::new(),
            failed_requests: 0,
            latency: GuestLatency::default(),
        }
    }

    pub(crate) fn is_serving(&self) -> bool {
        matches!(self.phase, Phase::Serving)
    }

    pub(crate) fn is_read_only(&self) -> bool {
        self.geometry.read_only || self.spec.read_only || self.spec.shared
    }

    /// Counts an answered request.
    pub(crate) fn answered(&mut self, kind: RequestKind, time: Duration, failed: bool) {
        self.failed_requests += u64::from(failed);
        match kind {
            RequestKind::Read => self.latency.read.record(time),
            RequestKind::Write => self.latency.write.record(time),
            RequestKind::Flush => self.latency.flush.record(time),
            RequestKind::Prefetch => {}
        }
    }

    /// Keeps what a connection that goes had counted.
    pub(crate) fn keep_counters(&mut self, front_end: FrontEnd, counters: Counters) {
        let mut known = self.counted_before.iter_mut();
        match known.find(|(other, _)| *other == front_end) {
            Some((_, before)) => *before += counters,
            None => self.counted_before.push((front_end, counters)),
        }
    }

    /// Adds how long its requests have taken to `times`.
    pub(crate) fn add_times(&self, times: &mut RequestTimes) {
        times.add(&self.latency, self.origin.latency());
    }

    pub(crate) fn status(
        &self,
        slot: DiskSlot,
        cache: &Cache,
        front_ends: Vec<FrontEndStatus>,
    ) -> DiskStatus {
        let condition = self.origin.condition();
        DiskStatus {
            id: self.spec.id,
            name: self.spec.name.clone(),
            size: self.geometry.size,
            policy: cache.policy_of(slot).unwrap_or(self.spec.policy),
            write_back: cache
                .write_back_settings_of(slot)
                .unwrap_or(self.spec.write_back),
            dirty: cache.write_back_of(slot).unwrap_or_default(),
            read_only: self.is_read_only(),
            tenant: self.spec.tenant.clone(),
            shared: self.spec.shared,
            views: cache.views_of(slot),
            phase: match self.phase {
                Phase::Serving => DiskPhase::Serving,
                Phase::Draining(_) | Phase::Leaving(_) => DiskPhase::Detaching,
            },
            connections: self.connections,
            front_ends,
            in_flight: cache.in_flight(slot),
            origin_connected: condition.connected,
            late_bytes: condition.late,
            warm_blocks: self.warm_blocks,
            dropped: self.dropped,
            stats: cache.stats_of(slot).unwrap_or_default(),
            failed_requests: self.failed_requests,
            guest_latency: self.latency.clone(),
            origin_latency: self.origin.latency().clone(),
        }
    }
}

/// The slot with this index.
pub(crate) fn slot(index: usize) -> DiskSlot {
    DiskSlot::new(u16::try_from(index).expect("slots are few"))
}
