//! The origin of a disk: a medium that fails for a while, forgets, and changes under strangers' hands.

use crate::run::Run;
use crate::settings::Settings;
use crate::storage::{Handle, Latency, Storage};
use block_io::{IoError, OriginDone, OriginVerb, Token};
use medium::{Fault, Kind};
use std::ops::Range;
use units::{Bytes, Duration, Instant, Offset, Prng, SECTOR_BYTES};

/// See the module's header.
pub(crate) struct Origin {
    storage: Storage,
    /// Changes with every write.
    version: u128,
    /// It fails altogether until then.
    gone_until: Option<Instant>,
}

impl Origin {
    /// An origin of zeroes.
    pub(crate) fn new(size: Bytes, latency: Latency, dice: &mut Prng) -> Self {
        Self {
            storage: Storage::new(
                size,
                Bytes::new(SECTOR_BYTES),
                Offset::after(size),
                latency,
                dice,
            ),
            version: 1,
            gone_until: None,
        }
    }

    /// What tells one content from another.
    pub(crate) fn version(&self) -> u128 {
        self.version
    }

    // A life of the process that uses it.

    /// A process of this host begins to use it.
    pub(crate) fn open(&self, host: usize) -> Handle {
        self.storage.open(host)
    }

    /// Sectors that one host had given up and that have landed while another one used the origin.
    pub(crate) fn take_strange(&mut self) -> u64 {
        self.storage.late_mut().take_strange()
    }

    /// A cache attaches it.
    pub(crate) fn session_begins(&mut self) {
        self.storage.late_mut().session_begins();
    }

    /// The process that used it has died; with `power_cut` the origin has lost its power, too.
    pub(crate) fn end(&mut self, handle: Handle, power_cut: bool, run: &mut Run) {
        self.storage.end(handle, power_cut);
        let (landed, waited) = self.storage.late_mut().take_counts();
        run.hit_many("late change landed", landed);
        run.hit_many("waited for a late change", waited);
    }

    /// What it has given up is over.
    pub(crate) fn settle_late(&mut self) {
        self.storage.settle_late();
    }

    // Operations.

    /// Takes an operation.
    pub(crate) fn submit(
        &mut self,
        handle: &mut Handle,
        token: Token,
        verb: OriginVerb,
        now: Instant,
    ) {
        if !matches!(verb, OriginVerb::Read { .. } | OriginVerb::Flush) {
            self.version += 1;
        }
        handle.submit(&mut self.storage, token, verb, now);
    }

    /// What has ended.
    pub(crate) fn poll(&mut self, handle: &mut Handle, now: Instant) -> Vec<OriginDone> {
        let mut done = Vec::new();
        handle.poll(&mut self.storage, now, &mut done);
        done
    }

    /// When something ends next.
    pub(crate) fn next_deadline(&self, handle: &Handle) -> Option<Instant> {
        handle.next_deadline(&self.storage)
    }

    // What goes wrong.

    /// Nothing does.
    pub(crate) fn clear_faults(&mut self) {
        self.gone_until = None;
        self.storage.late_mut().give_up_one_in(0);
        self.storage.errors().clear();
        self.storage.errors().release();
    }

    /// What does now and then.
    pub(crate) fn set_faults(&mut self, settings: &Settings) {
        let rates = settings.rates;
        self.storage.set_forgets(settings.origins_forget);
        self.storage.late_mut().give_up_one_in(rates.origin_late);
        let errors = self.storage.errors();
        errors.clear();
        let failed = Fault::Error(IoError::Failed);
        errors.chance(Kind::Any, rates.origin_errors, failed);
        errors.chance(Kind::Any, rates.origin_stalls, Fault::Stall);
    }

    /// Whoever has waited long finds that it fails no more, unless it is gone.
    pub(crate) fn recover(&mut self) {
        self.storage.late_mut().give_up_one_in(0);
        if self.gone_until.is_none() {
            self.storage.errors().clear();
        }
    }

    /// What is stalled goes on.
    pub(crate) fn release(&self) {
        self.storage.errors().release();
    }

    /// When it comes back, if it is gone.
    pub(crate) fn gone_until(&self) -> Option<Instant> {
        self.gone_until
    }

    /// It goes away, or takes no more writes if it is `full`, for this long.
    pub(crate) fn go(&mut self, full: bool, span: Duration, now: Instant) {
        let (kind, error) = if full {
            (Kind::Write, IoError::NoSpace)
        } else {
            (Kind::Any, IoError::Failed)
        };
        self.storage.errors().clear();
        self.storage.errors().always(kind, Fault::Error(error));
        self.gone_until = Some(now + span);
    }

    /// It is back.
    pub(crate) fn come_back(&mut self, settings: &Settings) {
        self.gone_until = None;
        self.set_faults(settings);
    }

    // Past the cache.

    /// The bytes that a reader would see now.
    pub(crate) fn peek(&self, offset: Offset, into: &mut [u8]) {
        self.storage.peek(offset, into);
    }

    /// Shows every content that a power cut now could leave in a sector.
    pub(crate) fn fates(&self, show: impl FnMut(usize, &[u8])) {
        self.storage.fates(show);
    }

    /// The ranges below `end` in which nothing that was given up may still land.
    pub(crate) fn settled(&self, end: Offset) -> Vec<Range<Offset>> {
        self.storage.late().settled(end)
    }

    /// Somebody else writes it, durably.
    pub(crate) fn replace(&mut self, offset: Offset, bytes: &[u8]) {
        self.storage.settle_late();
        self.storage.poke(offset, bytes);
        self.version += 1;
    }

    /// What it holds up to `size` is what it holds for good, and is given.
    pub(crate) fn settle(&mut self, size: Bytes) -> Vec<u8> {
        self.storage.settle_late();
        let mut bytes = vec![0; size.to_usize()];
        self.storage.peek(Offset::ZERO, &mut bytes);
        self.storage.poke(Offset::ZERO, &bytes);
        self.version += 1;
        bytes
    }
}
