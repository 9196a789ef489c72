//! One tenant: what it wants, what may enter for it, what it has cost.

use crate::counts::Counts;
use crate::gauge::Gauge;
use crate::limits::CURVE_HALF_LIFE;
use crate::request::{Arrival, Request};
use crate::settings::{Settings, TenantSettings};
use crate::sharing::Tags;
use mrc::{Counted, Kind, Live, Run};
use policy::admission::budget::TokenBucket;
use policy::admission::{Admission, Fate, Reason, Share, Verdict};
use policy::allocation::{Cached, Size};
use policy::demand::WindowSettingsError;
use policy::replacement::{Fraction, Key};
use units::number::real;
use units::{Bytes, DiskSlot, Duration, Instant};

/// A tenant's state. What a hit needs comes first.
pub(crate) struct Tenant<K> {
    pub(crate) counts: Counts,
    /// Who uses its cached blocks, if that is asked for.
    pub(crate) tags: Option<Tags>,
    pub(crate) admission: Box<dyn Admission<K>>,
    pub(crate) gauge: Gauge,
    pub(crate) curve: Live,
    pub(crate) budget: Option<TokenBucket>,
    pub(crate) settings: TenantSettings,
    /// What admission was told of its share.
    pub(crate) share: Share,
    /// Time that a hit saves.
    pub(crate) saved: Duration,
    /// Reads when the running window began, and a second in the last one.
    reads_before: u64,
    pub(crate) reads_a_second: f64,
    /// The live curve of reads when the last window ended, where the allocation wants it.
    pub(crate) sizes: Vec<Size>,
    /// Its cached blocks when the last window ended, and when the one before did.
    pub(crate) cached: Cached,
    pub(crate) cached_before: Cached,
}

/// A hit saves this much until somebody has measured it: a disk array's millisecond.
const SAVED_FIRST: Duration = Duration::from_millis(1);

impl<K: Key + Into<u64>> Tenant<K> {
    pub(crate) fn new(
        settings: TenantSettings,
        all: &Settings,
        now: Instant,
    ) -> Result<Self, WindowSettingsError> {
        let share = share_of(&settings, 0, Bytes::ZERO);
        Ok(Self {
            counts: Counts::default(),
            tags: wants_tags(&settings, all).then(|| Tags::new(all.seed)),
            admission: spec_of(&settings, all).build(share),
            gauge: Gauge::new(all)?,
            curve: curve_of(&settings, all),
            budget: settings.budget.map(|budget| TokenBucket::new(budget, now)),
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

    pub(crate) fn refuse(&mut self, reason: Reason) -> Verdict {
        self.counts.refused.add(reason);
        Verdict::Refuse(reason)
    }

    /// A window has ended, of that length.
    pub(crate) fn look(&mut self, at: Instant, length: Duration, wants_sizes: bool) {
        let reads = self.counts.reads - self.reads_before;
        self.reads_before = self.counts.reads;
        self.reads_a_second = real(reads) * 1e9 / real(length.as_nanos().max(1));
        let curve = self.curve.curve(Counted::All);
        self.gauge.look(at, |blocks| curve.hit_ratio(blocks));
        self.sizes.clear();
        if wants_sizes {
            let curve = self.curve.curve(Counted::Reads);
            self.sizes.extend(curve.points().iter().map(|point| Size {
                blocks: point.blocks,
                hit_ratio: 1.0 - point.miss_ratio,
            }));
        }
        self.curve.fade(half_lives(length));
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
        now: Instant,
        left: &mut Vec<(K, Fate)>,
    ) -> Result<(), WindowSettingsError> {
        let old = std::mem::replace(&mut self.settings, new);
        if spec_of(&old, before) != spec_of(&self.settings, after) {
            self.unstage(left);
            self.share = share_of(&self.settings, self.share.blocks, self.share.staging);
            self.admission = spec_of(&self.settings, after).build(self.share);
        }
        if old.budget != self.settings.budget {
            crate::tenancy::follow(&mut self.budget, self.settings.budget, now);
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

    /// All memory, staged bytes included.
    pub(crate) fn memory(&self) -> Bytes {
        let own = size_of::<Self>()
            + self.curve.bytes()
            + self.tags.as_ref().map_or(0, Tags::bytes)
            + self.sizes.capacity() * size_of::<Size>();
        Bytes::new(own as u64) + self.admission.memory() + self.gauge.memory()
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

impl<K> Tenant<K> {
    /// A block of it was found on flash, or in memory, for somebody.
    #[inline]
    pub(crate) fn tag(&mut self, key: u64, arrival: &Arrival) {
        if let Some(tags) = &mut self.tags {
            tags.used(key, arrival.vm);
        }
    }
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
