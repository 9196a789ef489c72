//! One tenant: what it wants, what may enter for it, what it has cost.

use crate::clock::Ended;
use crate::counts::{Counts, Wrote};
use crate::filling::Filling;
use crate::gauge::{Gauge, Wanted, Wants};
use crate::limits::CURVE_HALF_LIFE;
use crate::report::LiveCurve;
use crate::request::{Arrival, Request};
use crate::settings::{Capacity, Settings, TenantSettings};
use crate::sharing::{Sharing, Tags};
use mrc::{Counted, Kind, Live, Run};
use policy::admission::{Access, Admission, Fate, Reason, Share, Staged, Verdict};
use policy::allocation::{self, Cached, Size};
use policy::demand::WindowSettingsError;
use policy::replacement::{Fraction, Key};
use units::number::real;
use units::{Bytes, DiskSlot, Duration, Instant, TenantSlot};

/// A tenant's state. What a hit needs comes first.
pub(crate) struct Tenant<K> {
    counts: Counts,
    /// Who uses its cached blocks, if that is asked for.
    tags: Option<Tags>,
    admission: Box<dyn Admission<K>>,
    /// What it fills, as long as the flash was never full.
    filling: Option<Filling>,
    /// Blocks that may leave the flash before its admission hears of one.
    filled_unread: u64,
    gauge: Gauge,
    curve: Live,
    settings: TenantSettings,
    /// What admission was told of its share.
    share: Share,
    /// Time that a hit saves.
    saved: Duration,
    /// Reads when the running window began, and a second in the last one.
    reads_before: u64,
    reads_a_second: f64,
    /// The live curve of reads when the last window ended, where the allocation wants it.
    sizes: Vec<Size>,
    /// Its cached blocks when the last window ended, and when the one before did.
    cached: Cached,
    cached_before: Cached,
}

/// A hit saves this much until somebody has measured it: a disk array's millisecond.
const SAVED_FIRST: Duration = Duration::from_millis(1);

impl<K: Key + Into<u64>> Tenant<K> {
    pub(crate) fn new(
        settings: TenantSettings,
        all: &Settings,
    ) -> Result<Self, WindowSettingsError> {
        let share = share_of(&settings, 0, Bytes::ZERO);
        Ok(Self {
            counts: Counts::default(),
            tags: wants_tags(&settings, all).then(|| Tags::new(all.seed)),
            admission: spec_of(&settings, all).build(share),
            filling: None,
            filled_unread: 0,
            gauge: Gauge::new(all)?,
            curve: curve_of(&settings, all),
            settings,
            share,
            saved: SAVED_FIRST,
            reads_before: 0,
            reads_a_second: 0.0,
            sizes: Vec::new(),
            cached: Cached::default(),
            cached_before: Cached::default(),
        })
    }

    /// A request of its blocks has come.
    #[inline]
    pub(crate) fn arrives(&mut self, request: &Request, now: Instant) {
        let (kind, counted) = if request.write {
            (Kind::Write, &mut self.counts.writes)
        } else {
            (Kind::Read, &mut self.counts.reads)
        };
        *counted += request.count;
        let (disk, first) = (request.disk, request.first.get());
        self.gauge.access(disk, first, request.count, now);
        self.curve.access(
            kind,
            Run {
                volume: disk.get().into(),
                first,
                count: request.count,
            },
        );
    }

    /// A run of its blocks was discarded.
    pub(crate) fn discarded(&mut self, disk: DiskSlot, first: u64, count: u64) {
        self.gauge.remove(disk, first, count);
        self.curve.remove(Run {
            volume: disk.get().into(),
            first,
            count,
        });
    }

    /// A VM has read blocks of somebody else: of a base image.
    #[inline]
    pub(crate) fn reads_image(&mut self, blocks: u64) {
        self.counts.image_reads += blocks;
    }

    /// One of those was on flash or staged.
    pub(crate) fn hits_image(&mut self, block_is_read: bool) {
        self.counts.image_hits += u64::from(block_is_read);
    }

    /// A block of it is on flash.
    #[inline]
    pub(crate) fn hit(&mut self, arrival: &Arrival, key: K, now: Instant) {
        let hits = if arrival.write {
            &mut self.counts.write_hits
        } else {
            &mut self.counts.read_hits
        };
        *hits += 1;
        if let (Some(filling), false) = (&mut self.filling, arrival.write) {
            filling.hit(key);
        }
        self.admission.hit(key, arrival.access(now));
        self.tag(key, arrival.vm);
    }

    /// A block is neither on flash nor staged: what the policy says of it.
    pub(crate) fn missed(&mut self, key: K, access: Access, left: &mut Vec<(K, Fate)>) -> Verdict {
        let verdict = self.admission.missed(key, access, left);
        match verdict {
            Verdict::Admit => {}
            Verdict::Stage => self.counts.staged += 1,
            Verdict::Refuse(reason) => self.counts.refused.add(reason),
        }
        verdict
    }

    /// A block is staged: what the policy says of it. One that does not stay is counted when it is known
    /// whether the budgets have it ([`Tenant::admitted`], [`Tenant::unstaged`]).
    pub(crate) fn staged_hit(
        &mut self,
        key: K,
        access: Access,
        left: &mut Vec<(K, Fate)>,
    ) -> Staged {
        self.counts.staged_hits += u64::from(!access.write);
        self.admission.staged_hit(key, access, left)
    }

    /// Whether the policy lets the new copy of a block that is on flash be written there.
    pub(crate) fn rewrites(&mut self, key: K, access: Access, was_read: bool) -> bool {
        self.admission.rewrites(key, access, was_read)
    }

    /// The new copy of a block goes to flash, or does not for that reason.
    pub(crate) fn rewritten(&mut self, refused: Option<Reason>) {
        match refused {
            Some(reason) => self.counts.refused.add(reason),
            None => self.counts.rewritten += 1,
        }
    }

    /// A block goes to flash; the policy was asked, if it was, and the budgets have paid.
    pub(crate) fn admitted(&mut self, key: K, vm: TenantSlot) {
        self.counts.admitted += 1;
        self.tag(key, vm);
    }

    /// A block is read that is nowhere, and the flash of so many blocks was never full: whether it enters without the
    /// policy being asked.
    pub(crate) fn fills(&mut self, key: K, flash_blocks: u64) -> bool {
        if self.settings.image {
            return true;
        }
        let new = || Filling::new(flash_blocks);
        let filling = self.filling.get_or_insert_with(new);
        filling.takes(key, self.share.blocks)
    }

    /// A block entered without the policy being asked.
    pub(crate) fn filled(&mut self) {
        self.counts.filled += 1;
        if let Some(filling) = &mut self.filling {
            filling.filled();
        }
    }

    /// The flash is full for the first time.
    pub(crate) fn ends_filling(&mut self) {
        if let Some(filling) = self.filling.take() {
            self.filled_unread = filling.unread();
        }
    }

    /// The policy would have let a block in, and the budgets do not.
    pub(crate) fn unpaid(&mut self, key: K) -> Verdict {
        self.admission.withheld(key);
        self.counts.refused.add(Reason::Budget);
        Verdict::Refuse(Reason::Budget)
    }

    /// A block that somebody has read, and does not stay staged, does not go to flash.
    pub(crate) fn unstaged(&mut self) {
        self.counts.unstaged += 1;
    }

    /// A block has left staging.
    pub(crate) fn left_staging(&mut self, fate: Fate) {
        match fate {
            Fate::Admit => self.counts.admitted += 1,
            Fate::Drop => self.counts.unstaged += 1,
        }
    }

    /// A block that was let in found no room on flash.
    pub(crate) fn withheld(&mut self, key: K) {
        self.counts.admitted -= 1;
        self.counts.withheld += 1;
        self.admission.withheld(key);
        self.untag(key);
    }

    /// A block left flash by reclaim.
    pub(crate) fn evicted(&mut self, key: K) {
        self.counts.evicted += 1;
        if self.filled_unread > 0 {
            self.filled_unread -= 1;
        } else {
            self.admission.evicted(key);
        }
        self.untag(key);
    }

    /// A block is not cached any more. True if it was staged.
    pub(crate) fn removed(&mut self, key: K) -> bool {
        self.untag(key);
        let was_staged = self.admission.remove(key);
        self.counts.unstaged += u64::from(was_staged);
        was_staged
    }

    /// Bytes were written to flash for it.
    pub(crate) fn wrote(&mut self, wrote: Wrote) {
        self.counts.wrote += wrote;
    }

    /// What a hit saves, as it was measured.
    pub(crate) fn saves(&mut self, saved: Duration) {
        self.saved = saved;
    }

    /// A VM is gone that may have used its blocks.
    pub(crate) fn forget(&mut self, vm: TenantSlot) {
        if let Some(tags) = &mut self.tags {
            tags.forget(vm);
        }
    }

    /// A block of it was found on flash, or goes there, for a VM.
    #[inline]
    fn tag(&mut self, key: K, vm: TenantSlot) {
        if let Some(tags) = &mut self.tags {
            tags.used(key.into(), vm);
        }
    }

    fn untag(&mut self, key: K) {
        if let Some(tags) = &mut self.tags {
            tags.left(key.into());
        }
    }

    /// A window has ended, at whose end so many blocks of it were on flash.
    pub(crate) fn end_window(&mut self, ended: Ended, wants_sizes: bool, allocated: u64) {
        let Ended { at, length } = ended;
        let reads = self.counts.reads - self.reads_before;
        self.reads_before = self.counts.reads;
        let reads_a_second = real(reads) * 1e9 / real(length.as_nanos().max(1));
        let curve = self.curve.curve(Counted::All);
        self.gauge.look(at, |blocks| curve.hit_ratio(blocks));
        if self.gauge.has_just_come() {
            // Of one that has just come the curve of where it was is the better one.
            self.reads_a_second = self.reads_a_second.max(reads_a_second);
        } else {
            self.reads_a_second = reads_a_second;
            self.sizes.clear();
        }
        if wants_sizes && self.sizes.is_empty() {
            let curve = self.curve.curve(Counted::Reads);
            self.sizes.extend(curve.points().iter().map(|point| Size {
                blocks: point.blocks,
                hit_ratio: 1.0 - point.miss_ratio,
            }));
        }
        self.curve.fade(half_lives(length));
        let sharing = self.sharing().unwrap_or_default();
        let cached = Cached {
            allocated,
            reaccessed: sharing.reaccessed_blocks,
            shared: sharing.shared_blocks,
        };
        self.cached_before = std::mem::replace(&mut self.cached, cached);
    }

    /// It comes from elsewhere, where it wanted this.
    pub(crate) fn comes(&mut self, wanted: Wanted, now: Instant) {
        self.gauge.comes(&wanted, now);
        self.reads_a_second = self.reads_a_second.max(wanted.reads_a_second);
        self.sizes = wanted.curve;
    }

    /// What it claims of the flash when that is divided, with the segments that it has.
    pub(crate) fn claim(
        &self,
        slot: TenantSlot,
        capacity: Capacity,
        before: Option<u32>,
    ) -> allocation::Tenant<'_> {
        let wants = self.gauge.wants();
        allocation::Tenant {
            slot,
            limits: self.settings.limits(capacity),
            before,
            wss: wants.wss_predicted,
            rwss: wants.rwss_predicted,
            cached: self.cached,
            cached_before: self.cached_before,
            curve: &self.sizes,
            accesses_a_second: self.reads_a_second,
            saved_us: real(self.saved.as_nanos()) / 1e3,
        }
    }

    /// Its share of flash and staging memory changes.
    pub(crate) fn resize(&mut self, blocks: u64, staging: Bytes, left: &mut Vec<(K, Fate)>) {
        let share = share_of(&self.settings, blocks, staging);
        if share != self.share {
            self.share = share;
            self.admission.resize(share, left);
        }
    }

    /// Its own settings change, or those of all: whatever depends on what is different begins anew.
    pub(crate) fn follow(
        &mut self,
        new: TenantSettings,
        (before, after): (&Settings, &Settings),
        left: &mut Vec<(K, Fate)>,
    ) -> Result<(), WindowSettingsError> {
        let old = std::mem::replace(&mut self.settings, new);
        if spec_of(&old, before) != spec_of(&self.settings, after) {
            self.unstage(left);
            self.share = share_of(&self.settings, self.share.blocks, self.share.staging);
            self.admission = spec_of(&self.settings, after).build(self.share);
        }
        if before.demand() != after.demand() {
            self.gauge = Gauge::new(after)?;
        }
        let curve = |of: &TenantSettings, all: &Settings| (of.writes, all.curve_blocks, all.seed);
        if curve(&old, before) != curve(&self.settings, after) {
            self.curve = curve_of(&self.settings, after);
        }
        match (wants_tags(&self.settings, after), &self.tags) {
            (true, None) => self.tags = Some(Tags::new(after.seed)),
            (false, _) => self.tags = None,
            (true, Some(_)) => {}
        }
        Ok(())
    }

    /// All staged blocks leave: their policy is gone.
    fn unstage(&mut self, left: &mut Vec<(K, Fate)>) {
        let from = left.len();
        let nothing = share_of(&self.settings, self.share.blocks, Bytes::ZERO);
        self.admission.resize(nothing, left);
        for (_, fate) in &mut left[from..] {
            *fate = Fate::Drop;
        }
    }

    pub(crate) fn settings(&self) -> &TenantSettings {
        &self.settings
    }

    pub(crate) fn counts(&self) -> &Counts {
        &self.counts
    }

    pub(crate) fn wants(&self) -> &Wants {
        self.gauge.wants()
    }

    /// Memory that its admission may use, staged blocks included.
    pub(crate) fn staging(&self) -> Bytes {
        self.share.staging
    }

    /// Reads a second in the last window.
    pub(crate) fn reads_a_second(&self) -> f64 {
        self.reads_a_second
    }

    /// Who uses its cached blocks, if that is asked for.
    pub(crate) fn sharing(&self) -> Option<Sharing> {
        self.tags.as_ref().map(Tags::estimate)
    }

    /// Its curve, with what that says of its share and of its target, in blocks.
    pub(crate) fn curve(&self, present_blocks: u64, proposed_blocks: u64) -> LiveCurve {
        let reads = self.curve.curve(Counted::Reads);
        LiveCurve {
            present_hit_ratio: reads.hit_ratio(present_blocks),
            proposed_hit_ratio: reads.hit_ratio(proposed_blocks),
            knee_blocks: reads.knee_blocks(),
            all: self.curve.curve(Counted::All),
            rate: self.curve.rate(),
            reads,
            present_blocks,
            proposed_blocks,
        }
    }

    /// Memory of its admission policy, staged bytes included.
    pub(crate) fn admission_memory(&self) -> Bytes {
        self.admission.memory()
    }

    /// All memory, staged bytes included.
    pub(crate) fn memory(&self) -> Bytes {
        let own = size_of::<Self>()
            + self.curve.bytes()
            + self.tags.as_ref().map_or(0, Tags::bytes)
            + self.sizes.capacity() * size_of::<Size>();
        let filling = self.filling.as_ref().map_or(Bytes::ZERO, Filling::memory);
        Bytes::new(own as u64) + self.admission.memory() + self.gauge.memory() + filling
    }
}

pub(crate) fn spec_of<'a>(
    settings: &'a TenantSettings,
    all: &'a Settings,
) -> &'a policy::admission::Spec {
    settings.admission.as_ref().unwrap_or(&all.admission)
}

fn curve_of(settings: &TenantSettings, all: &Settings) -> Live {
    Live::new(all.curve_blocks as usize, all.seed, settings.writes)
}

fn share_of(settings: &TenantSettings, blocks: u64, staging: Bytes) -> Share {
    const PERCENT: u32 = 10_000;
    let share = Share::new(blocks, staging);
    let share = share.with_weight(Fraction::millionths(settings.weight * PERCENT));
    if settings.high_priority {
        share.with_high_priority()
    } else {
        share
    }
}

/// Whether anybody asks who uses its cached blocks: of a base image always, of others where the
/// allocation goes by blocks that were accessed again or shared.
pub(crate) fn wants_tags(settings: &TenantSettings, all: &Settings) -> bool {
    settings.image || matches!(all.allocation.about().name, "recs" | "rcrs" | "rcrs-plus")
}

/// What is left of a curve's past after that time, the same to the last bit on every machine.
fn half_lives(length: Duration) -> f64 {
    let (lives, half_life) = (length.as_nanos(), CURVE_HALF_LIFE.as_nanos());
    let whole = i32::try_from(lives / half_life).unwrap_or(i32::MAX);
    let mut left = 0.5_f64.powi(whole);
    // 2^-(1/2), 2^-(1/4) ... by square roots, which every machine rounds alike.
    let (mut root, mut part, mut rest) = (0.5_f64, half_life, lives % half_life);
    while part > 1 {
        root = root.sqrt();
        part /= 2;
        if rest >= part {
            rest -= part;
            left *= root;
        }
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_past_counts_half_after_each_half_life() {
        let after = |hours: u64| half_lives(Duration::from_secs(hours * 3600));
        assert_eq!(after(0), 1.0);
        assert_eq!(after(6), 0.5);
        assert!((after(9) - 0.353_553).abs() < 1e-5);
        assert!((after(12) - 0.25).abs() < 1e-9);
        assert!(half_lives(Duration::from_nanos(u64::MAX)) < 1e-6);
    }
}
