//! What an operator sees of a tenant, and of all together.

use crate::counts::{Counts, Wrote};
use crate::gauge::Wants;
use crate::settings::TenantSettings;
use crate::sharing::{Sharing, Tags};
use crate::tenancy::Tenancy;
use mrc::{Counted, Curve};
use policy::admission::Refusals;
use policy::admission::budget::TokenBucket;
use policy::replacement::Key;
use units::{Bytes, Instant, TenantSlot};

/// A write budget and how much of it is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BudgetLeft {
    /// Bytes a day.
    pub per_day: Bytes,
    /// Bytes that may be written at once after a long rest.
    pub burst: Bytes,
    /// Bytes that may be written now.
    pub left: Bytes,
    /// Bytes that were written beyond it, which are made up for before anything is let in.
    pub debt: Bytes,
}

/// A live miss-ratio curve, and what it says of the sizes that matter.
#[derive(Clone, Debug, PartialEq)]
pub struct LiveCurve {
    /// Of reads alone.
    pub reads: Curve,
    /// Of reads and writes.
    pub all: Curve,
    /// Part of the tenant's blocks that are sampled for it.
    pub rate: f64,
    /// The tenant's present share in blocks.
    pub present_blocks: u64,
    /// Read hit ratio of an LRU cache of that size.
    pub present_hit_ratio: f64,
    /// What the tenant is proposed: its target, in blocks.
    pub proposed_blocks: u64,
    /// Read hit ratio of an LRU cache of that size.
    pub proposed_hit_ratio: f64,
    /// The size at the knee of the reads' curve, in blocks.
    pub knee_blocks: Option<u64>,
}

/// One tenant, now.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// Who.
    pub tenant: TenantSlot,
    /// What was set.
    pub settings: TenantSettings,
    /// Its admission policy as it is written in settings.
    pub admission: String,
    /// Its demand, and the window it is measured over.
    pub wants: Wants,
    /// Segments that it is to hold.
    pub share_segments: u32,
    /// Segments that the allocation asked for.
    pub target_segments: u32,
    /// Memory that its admission may use, staged blocks included.
    pub staging: Bytes,
    /// What became of its blocks since it was attached.
    pub counts: Counts,
    /// Its write budget, if it has one.
    pub budget: Option<BudgetLeft>,
    /// Reads a second in the last window.
    pub reads_a_second: f64,
    /// Its live curve.
    pub curve: LiveCurve,
    /// Who uses its cached blocks: of a base image.
    pub sharing: Option<Sharing>,
    /// All memory that the tenancy has for it.
    pub memory: Bytes,
}

/// All tenants together, now.
#[derive(Clone, Debug, PartialEq)]
pub struct HostReport {
    /// Tenants attached.
    pub tenants: usize,
    /// When the running window ends.
    pub window_ends: Instant,
    /// Bytes written to flash since the start, by what for.
    pub wrote: Wrote,
    /// The device's write budget, if it has one.
    pub budget: Option<BudgetLeft>,
    /// Blocks that are divided among tenants.
    pub capacity_blocks: u64,
    /// Demand by capacity; above 1 the host is overloaded.
    pub load: f64,
    /// Blocks that would be cached twice or more if base images were not shared. An estimate.
    pub saved_by_sharing_blocks: u64,
    /// All memory of the tenancy, staged bytes included.
    pub memory: Bytes,
    /// What it may have.
    pub memory_limit: Bytes,
}

fn left(bucket: &TokenBucket, now: Instant) -> BudgetLeft {
    // Looking lets time pass in a bucket; the one that decides is left alone.
    let mut bucket = bucket.clone();
    BudgetLeft {
        per_day: bucket.budget().bytes_per_day(),
        burst: bucket.budget().burst(),
        left: bucket.left(now),
        debt: bucket.debt(now),
    }
}

impl<K: Key + Into<u64>> Tenancy<K> {
    /// Everything about one tenant; `None` if it is not attached. Draws its curve: some ten
    /// microseconds.
    pub fn report(&self, slot: TenantSlot) -> Option<Report> {
        let tenant = self.get(slot)?;
        let share = self.shares.get(slot);
        let (share, target) = share.map_or((0, 0), |of| (of.segments, of.target_segments));
        let blocks = |segments: u32| u64::from(segments) * u64::from(self.capacity.segment_blocks);
        let (present_blocks, proposed_blocks) = (blocks(share), blocks(target));
        let reads = tenant.curve.curve(Counted::Reads);
        Some(Report {
            tenant: slot,
            settings: tenant.settings.clone(),
            admission: crate::tenant::spec_of(&tenant.settings, &self.settings).to_string(),
            wants: *tenant.gauge.wants(),
            share_segments: share,
            target_segments: target,
            staging: tenant.share.staging,
            counts: tenant.counts,
            budget: tenant.budget.as_ref().map(|bucket| left(bucket, self.now)),
            reads_a_second: tenant.reads_a_second,
            curve: LiveCurve {
                present_hit_ratio: reads.hit_ratio(present_blocks),
                proposed_hit_ratio: reads.hit_ratio(proposed_blocks),
                knee_blocks: reads.knee_blocks(),
                all: tenant.curve.curve(Counted::All),
                rate: tenant.curve.rate(),
                reads,
                present_blocks,
                proposed_blocks,
            },
            sharing: tenant.tags.as_ref().map(Tags::estimate),
            memory: tenant.memory(),
        })
    }

    /// What became of a tenant's blocks, without the cost of a whole report.
    pub fn counts(&self, slot: TenantSlot) -> Option<&Counts> {
        Some(&self.get(slot)?.counts)
    }

    /// Blocks that were not let in, of all tenants that are attached.
    pub fn refused(&self) -> Refusals {
        let mut sum = Refusals::default();
        for (_, tenant) in self.each() {
            sum += tenant.counts.refused;
        }
        sum
    }

    /// Memory of all admission policies, staged bytes included.
    pub fn admission_memory(&self) -> Bytes {
        self.each()
            .map(|(_, tenant)| tenant.admission.memory())
            .sum()
    }

    /// A tenant's demand.
    pub fn wants(&self, slot: TenantSlot) -> Option<&Wants> {
        Some(self.get(slot)?.gauge.wants())
    }

    /// Everything about all tenants together.
    pub fn host_report(&self) -> HostReport {
        let images = self.each().filter(|(_, tenant)| tenant.settings.image);
        let saved = images.filter_map(|(_, tenant)| Some(tenant.tags.as_ref()?.estimate()));
        HostReport {
            tenants: self.each().count(),
            window_ends: self.window_ends,
            wrote: self.wrote,
            budget: self.budget.as_ref().map(|bucket| left(bucket, self.now)),
            capacity_blocks: self.capacity.blocks(),
            load: self.shares.load,
            saved_by_sharing_blocks: saved.map(|sharing| sharing.saved_blocks).sum(),
            memory: self.memory(),
            memory_limit: self.settings.memory,
        }
    }
}
