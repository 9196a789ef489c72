//! A disk that a shard serves.
//!
//! ```text
//!  attach ─► (cache attaches) ─► Serving ─ detach, stop ─► Draining ─► (cache detaches) ─► gone
//! ```
//! A draining disk takes no more requests. Once its clients are gone and neither the cache nor
//! its origin has anything of it in flight, the cache is told to detach it.

use crate::error::{Reply, ShardError};
use crate::failures::Failure;
use crate::guest_tell::GuestTell;
use crate::latency::Timed;
use crate::spec::DiskSpec;
use crate::status::{DiskPhase, DiskStatus, FrontEndStatus, GuestLatency, RequestTimes};
use crate::tap::Tap;
use block_io::{BlockCipher, OriginGeometry};
use cache::{Cache, DropReason, OfDirty, Tenure, Verb};
use events::EventKind;
use frontend::{Counters, FrontEnd, Offer};
use origin::Origin;
use throttle::{Limits, Throttled};
use units::{BLOCK_BYTES, BlockIndex, Bytes, DiskId, DiskSlot, Duration, Instant, TenantSlot};

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
enum Phase {
    Serving,
    /// Who wants to know when it is gone.
    Draining(Vec<Reply<()>>),
    /// The cache is detaching it.
    Leaving(Vec<Reply<()>>),
}

pub(crate) struct Disk {
    spec: DiskSpec,
    geometry: OriginGeometry,
    origin: DiskOrigin,
    phase: Phase,
    /// How long a draining disk waits for late writes at its origin; as long as it takes, if that is not said.
    late_until: Option<Instant>,
    roams: bool,
    /// What becomes of bytes that its origin lacks, once it is detached.
    of_dirty: OfDirty,
    /// They were to be brought there first, and are not.
    has_given_up_flush: bool,
    connections: usize,
    found: Found,
    /// Who writes down what its guests ask.
    tap: Option<Tap>,
    /// Its guest, if that wants to know what it will read.
    guest: Option<GuestTell>,
    /// What connections that have gone had counted.
    counted_before: Vec<(FrontEnd, Counters)>,
    failed_requests: u64,
    latency: GuestLatency,
}

/// What was on flash when a disk was attached.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Found {
    /// Blocks that are served from there.
    pub(crate) warm_blocks: u64,
    /// Why others are not.
    pub(crate) dropped: Option<DropReason>,
}

impl Disk {
    pub(crate) fn new(spec: DiskSpec, origin: Box<dyn Origin>) -> Self {
        Self {
            spec,
            geometry: origin.geometry(),
            origin: Timed::new(origin),
            phase: Phase::Serving,
            late_until: None,
            roams: false,
            of_dirty: OfDirty::default(),
            has_given_up_flush: false,
            connections: 0,
            found: Found::default(),
            tap: None,
            guest: None,
            counted_before: Vec::new(),
            failed_requests: 0,
            latency: GuestLatency::default(),
        }
    }

    pub(crate) fn id(&self) -> DiskId {
        self.spec.id
    }

    /// What people call it.
    pub(crate) fn name(&self) -> &str {
        &self.spec.name
    }

    /// What its guests may ask in a second, when it is attached.
    pub(crate) fn limits(&self) -> Limits {
        self.spec.limits
    }

    /// A cipher of its key, if it has one.
    ///
    /// # Errors
    /// [`ShardError::NoCipher`].
    pub(crate) fn cipher(&self) -> Result<Option<Box<dyn BlockCipher>>, ShardError> {
        self.spec.cipher()
    }

    /// Whether it is a base image that VMs share.
    pub(crate) fn is_shared(&self) -> bool {
        self.spec.shared
    }

    pub(crate) fn geometry(&self) -> OriginGeometry {
        self.geometry
    }

    /// Its origin takes requests up to there now. False: that was its size already.
    pub(crate) fn set_size(&mut self, size: Bytes) -> bool {
        let before = std::mem::replace(&mut self.geometry.size, size);
        if before != size {
            tracing::info!(event = EventKind::DiskGrown.word(),
                disk = self.spec.name, %before, %size, "disk grown");
        }
        before != size
    }

    /// The cache has attached it.
    pub(crate) fn set_found(&mut self, found: Found) {
        self.found = found;
    }

    pub(crate) fn origin(&self) -> &DiskOrigin {
        &self.origin
    }

    pub(crate) fn origin_mut(&mut self) -> &mut DiskOrigin {
        &mut self.origin
    }

    /// Gives each operation of its origin that has failed since the last call to `told`, with the disk's
    /// name. Of a disk that is another host's nobody has asked for what was read: that is tried again, or left.
    pub(crate) fn take_failures(&mut self, mut told: impl FnMut(&str, Failure)) {
        let (disk, is_others) = (&self.spec.name, self.spec.tenure == Tenure::Standby);
        for failure in self.origin.failures() {
            if is_others {
                tracing::debug!(%disk, ?failure, "a part of the disk's cache could not go ahead");
            } else {
                told(disk, failure);
            }
        }
    }

    /// What clients are offered.
    pub(crate) fn offer(&self) -> Offer {
        Offer {
            name: self.spec.name.clone(),
            size: self.geometry.size,
            read_only: self.spec.is_read_only(&self.geometry),
            can_discard: self.geometry.can_discard,
        }
    }

    /// Whose it is.
    pub(crate) fn tenure(&self) -> Tenure {
        self.spec.tenure
    }

    /// Whether other hosts may have it in turn.
    pub(crate) fn roams(&self) -> bool {
        self.roams
    }

    pub(crate) fn set_roams(&mut self, roams: bool) {
        self.roams = roams;
    }

    /// As many clients as this have come with it.
    pub(crate) fn connected_all(&mut self, count: usize) {
        self.connections += count;
    }

    /// Its clients stand by from now on.
    pub(crate) fn disconnected_all(&mut self) {
        self.connections = 0;
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections
    }

    /// A client has come.
    pub(crate) fn connected(&mut self) {
        self.connections += 1;
    }

    /// A client has gone, and had counted this.
    pub(crate) fn disconnected(&mut self, front_end: FrontEnd, counters: Counters) {
        self.connections -= 1;
        let mut known = self.counted_before.iter_mut();
        match known.find(|(other, _)| *other == front_end) {
            Some((_, before)) => *before += counters,
            None => self.counted_before.push((front_end, counters)),
        }
    }

    /// What connections that have gone had counted.
    pub(crate) fn counted_before(&self) -> &[(FrontEnd, Counters)] {
        &self.counted_before
    }

    /// Tells its tap of a request.
    pub(crate) fn tell_tap(&mut self, verb: &Verb, vm: TenantSlot, now: Instant) {
        if let Some(tap) = &self.tap
            && !tap.tell(verb, vm, now)
        {
            self.tap = None;
        }
    }

    /// Whom to tell what will be read, if anybody.
    pub(crate) fn set_guest(&mut self, guest: Option<GuestTell>) {
        self.guest = guest;
    }

    /// These blocks are in memory because they will be read.
    pub(crate) fn tell_guest(&self, first: BlockIndex, count: u64) {
        if let Some(tell) = &self.guest {
            tell(first.start(), Bytes::new(count * BLOCK_BYTES));
        }
    }

    pub(crate) fn set_tap(&mut self, tap: Option<Tap>) {
        self.tap = tap;
    }

    /// Takes no more requests. False, and `reply` waits with the others: it does so already.
    pub(crate) fn drain(
        &mut self,
        reply: Reply<()>,
        of_dirty: OfDirty,
        late_until: Option<Instant>,
    ) -> bool {
        match &mut self.phase {
            Phase::Draining(waiting) | Phase::Leaving(waiting) => {
                waiting.push(reply);
                return false;
            }
            Phase::Serving => self.phase = Phase::Draining(vec![reply]),
        }
        self.of_dirty = of_dirty;
        self.late_until = late_until;
        true
    }

    /// What it was to bring to its origin before it leaves stays on flash. Who waits for its end hears so then, `reply` with
    /// the others.
    pub(crate) fn give_up_flush(&mut self, reply: Reply<()>) {
        self.of_dirty = OfDirty::Keep;
        self.has_given_up_flush = true;
        match &mut self.phase {
            Phase::Draining(waiting) | Phase::Leaving(waiting) => waiting.push(reply),
            Phase::Serving => {
                unreachable!("a disk that is served has nothing to bring before it leaves")
            }
        }
    }

    /// What becomes of bytes that its origin lacks, once it is detached.
    pub(crate) fn of_dirty(&self) -> OfDirty {
        self.of_dirty
    }

    /// How long it waits for late writes at its origin, once it is draining; as long as it takes, if that is not said.
    pub(crate) fn late_until(&self) -> Option<Instant> {
        self.late_until
    }

    /// Whether its clients have gone, and nothing of it is in flight at its origin. Who is stopping does not wait for
    /// late writes as long as it takes.
    pub(crate) fn is_idle(&self, now: Instant, is_stopping: bool) -> bool {
        let has_settled = match self.late_until {
            Some(until) => until <= now || self.origin.condition().late.is_zero(),
            None => is_stopping || self.may_land().is_zero(),
        };
        self.connections == 0 && self.origin.in_flight() == 0 && has_settled
    }

    /// Bytes of writes that may still land at its origin although nobody waits for them, over what another host writes.
    pub(crate) fn may_land(&self) -> Bytes {
        let condition = self.origin.condition();
        let bytes = condition.late.checked_add(condition.cut);
        bytes.unwrap_or(condition.late)
    }

    /// The cache is about to detach it.
    pub(crate) fn leave(&mut self) {
        if let Phase::Draining(waiting) = &mut self.phase {
            self.phase = Phase::Leaving(std::mem::take(waiting));
        }
    }

    /// It is not detached after all: who waits for that is told why, and it is served again.
    pub(crate) fn serve_again(&mut self, error: &ShardError) {
        let phase = std::mem::replace(&mut self.phase, Phase::Serving);
        self.has_given_up_flush = false;
        phase.answer(&Err(error.clone()));
    }

    /// It is gone: its origin is let go, and who waits for that is told.
    pub(crate) fn end(self) {
        let Self {
            origin,
            phase,
            has_given_up_flush,
            ..
        } = self;
        // Who hears of it may open the origin at once.
        drop(origin);
        phase.answer(&if has_given_up_flush {
            Err(ShardError::FlushGivenUp)
        } else {
            Ok(())
        });
    }

    /// Whether the cache is detaching it.
    pub(crate) fn is_leaving(&self) -> bool {
        matches!(self.phase, Phase::Leaving(_))
    }

    pub(crate) fn is_serving(&self) -> bool {
        matches!(self.phase, Phase::Serving)
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

    /// Adds how long its requests have taken to `times`.
    pub(crate) fn add_times(&self, times: &mut RequestTimes) {
        times.add(&self.latency, self.origin.latency());
    }

    pub(crate) fn status(
        &self,
        slot: DiskSlot,
        cache: &Cache,
        front_ends: Vec<FrontEndStatus>,
        (limits, throttled): (Limits, Throttled),
    ) -> DiskStatus {
        let condition = self.origin.condition();
        DiskStatus {
            id: self.spec.id,
            name: self.spec.name.clone(),
            size: self.geometry.size,
            policy: cache.facts().policy_of(slot).unwrap_or(self.spec.policy),
            write_back: cache
                .facts()
                .write_back_settings_of(slot)
                .unwrap_or(self.spec.write_back),
            dirty: cache.facts().write_back_of(slot).unwrap_or_default(),
            read_only: self.spec.is_read_only(&self.geometry),
            tenant: self.spec.tenant.clone(),
            shared: self.spec.shared,
            views: cache.facts().views_of(slot),
            phase: match self.phase {
                Phase::Serving => DiskPhase::Serving,
                Phase::Draining(_) | Phase::Leaving(_) => DiskPhase::Detaching,
            },
            connections: self.connections,
            front_ends,
            in_flight: cache.facts().in_flight(slot),
            origin_connected: condition.connected,
            late_bytes: if self.roams {
                self.may_land()
            } else {
                condition.late
            },
            warm_blocks: self.found.warm_blocks,
            dropped: self.found.dropped,
            stats: cache.facts().stats_of(slot).unwrap_or_default(),
            hinted: cache.facts().hinted(slot),
            failed_requests: self.failed_requests,
            limits,
            throttled,
            guest_latency: self.latency.clone(),
            origin_latency: self.origin.latency().clone(),
        }
    }
}

impl Phase {
    /// Tells everybody who waits for the end how it came.
    fn answer(self, outcome: &Result<(), ShardError>) {
        let (Self::Draining(waiting) | Self::Leaving(waiting)) = self else {
            return;
        };
        for reply in waiting {
            reply(outcome.clone());
        }
    }
}
