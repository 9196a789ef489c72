//! What can be set: for all tenants of a cache, and for each one.
//!
//! Every setting can be changed while the cache runs; a change that contradicts the others is refused
//! with the arithmetic ([`crate::SettingsError`]) and changes nothing.

use crate::limits::CURVE_BLOCKS_DEFAULT;
use flash_format::{Geometry, PAGE_BYTES};
use mrc::Writes;
use policy::admission;
use policy::admission::budget::Budget;
use policy::allocation;
use policy::demand::limits::SAMPLE_BLOCKS_DEFAULT;
use policy::demand::{Reuses, WindowSettings, Windows};
use policy::prediction;
use policy::replacement::Fraction;
pub use segment_log::Spare;
use units::{BLOCK_BYTES, Bytes, Duration};

/// The flash that is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// Segments that tenants can hold, those that reclaim keeps free not counted.
    pub segments: u32,
    /// Blocks that a segment holds.
    pub segment_blocks: u32,
    /// What a checkpoint of the log writes at once; nothing where blocks lie in place.
    pub checkpoint: Bytes,
}

impl Capacity {
    /// That of a log with this layout.
    pub fn of(geometry: &Geometry) -> Self {
        Self {
            segments: segment_log::segments_for_shares(geometry),
            segment_blocks: geometry.segment_blocks_max(),
            checkpoint: Bytes::new((geometry.checkpoint_pages() + 1) * PAGE_BYTES as u64),
        }
    }

    /// All blocks.
    pub fn blocks(self) -> u64 {
        u64::from(self.segments) * u64::from(self.segment_blocks)
    }

    /// As many segments as these bytes need (rounds up).
    pub fn segments_for(self, bytes: Bytes) -> u64 {
        bytes.get().div_ceil(self.segment_bytes())
    }

    /// Bytes of blocks in a segment.
    pub fn segment_bytes(self) -> u64 {
        u64::from(self.segment_blocks) * BLOCK_BYTES
    }

    /// What letting one more block in can cause to be written for its tenant beside it: a segment
    /// opened, and others reclaimed for it of which at most half is kept.
    pub fn reserve(self) -> Bytes {
        Bytes::new(2 * self.segment_bytes())
    }

    /// The same on the whole device: the journal may need a checkpoint, too.
    pub fn device_reserve(self) -> Bytes {
        self.reserve() + self.checkpoint
    }

    /// Bytes of blocks in all segments.
    pub fn bytes(self) -> Bytes {
        Bytes::new(self.blocks() * BLOCK_BYTES)
    }
}

/// How the window of demand is found.
#[derive(Clone, Debug, PartialEq)]
pub enum Window {
    /// It is set.
    Fixed(Duration),
    /// Each tenant's is at the knee of its hit ratio by window length, chosen again each window.
    Knee {
        /// The lengths to choose from.
        lengths: Windows,
        /// How.
        settings: WindowSettings,
    },
}

/// How demand is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// From a sample of so many blocks a tenant: bounded memory, what the daemon takes.
    Sampled(u32),
    /// Of every block: memory grows with the accesses of the longest window.
    Exact,
}

/// What holds for all tenants of a cache.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// What may enter the flash, unless a tenant says otherwise.
    pub admission: admission::Spec,
    /// Whether a block that is read enters as long as nothing ever had to leave the flash, and half of its tenant's
    /// share is not filled or a quarter of the tenant's blocks come back, whatever the admission policy; write
    /// budgets hold.
    pub fill: bool,
    /// Memory for what admission stages and remembers, of all tenants together; divided in proportion
    /// to their shares.
    pub staging: Bytes,
    /// Memory for all frames of blocks in memory, staged, prefetched and hot, and their tables; none is what staging
    /// needs, so that nothing is hot.
    pub frames: Option<Bytes>,
    /// Which blocks that are read are worth a frame.
    pub hot: policy::memory::Spec,
    /// Who guesses what is read next, for frames that are free.
    pub prefetch: prefetch::Specs,
    /// What the device may be written.
    pub budget: Option<Budget>,
    /// How flash is divided.
    pub allocation: allocation::Spec,
    /// What happens to flash that a share gives and its tenant does not use.
    pub spare: Spare,
    /// How often a block must have been used again to count as demand.
    pub reuses: Reuses,
    /// How demand is measured.
    pub measure: Measure,
    /// Over which window.
    pub window: Window,
    /// How the next window's demand is predicted.
    pub prediction: prediction::Spec,
    /// Outliers of demand are cut so before anything is predicted from them.
    pub filter: prediction::Filter,
    /// A share follows what the allocation asks for if the difference is at least this part of it.
    pub hysteresis: Fraction,
    /// Blocks in the sample behind a tenant's live curve.
    pub curve_blocks: u32,
    /// All memory of the tenancy with what is staged. Beyond it tenants and settings are refused.
    pub memory: Bytes,
    /// Decides which blocks are sampled.
    pub seed: u64,
}

/// What holds for one tenant.
#[derive(Clone, Debug, PartialEq)]
pub struct TenantSettings {
    /// A base image: its blocks are read by VMs that are tenants of their own, and counted to each.
    pub image: bool,
    /// Flash that it always has.
    pub floor: Bytes,
    /// Flash that it never goes beyond.
    pub ceiling: Option<Bytes>,
    /// What its demand counts beside another's, where weights count: 100 is usual.
    pub weight: u32,
    /// Of high priority: `frequency` admission does not hold it to the threshold.
    pub high_priority: bool,
    /// What may be written to flash for it.
    pub budget: Option<Budget>,
    /// What may enter the flash of it, if not what holds for all.
    pub admission: Option<admission::Spec>,
    /// What its writes do to cached blocks: its curve depends on it.
    pub writes: Writes,
}

impl Default for Settings {
    /// Everything is admitted and all have equal shares: what a cache without tenants does.
    fn default() -> Self {
        let spec = "it is registered by this name";
        Self {
            admission: "always".parse().expect(spec),
            fill: false,
            staging: Bytes::ZERO,
            frames: None,
            hot: policy::memory::Spec::default(),
            prefetch: prefetch::Specs::default(),
            budget: None,
            allocation: "equal".parse().expect(spec),
            spare: Spare::Lent,
            reuses: Reuses::ONE,
            measure: Measure::Sampled(SAMPLE_BLOCKS_DEFAULT),
            window: Window::Fixed(Duration::from_secs(300)),
            prediction: "exp-self".parse().expect(spec),
            filter: prediction::Filter::default(),
            hysteresis: Fraction::millionths(50_000),
            curve_blocks: CURVE_BLOCKS_DEFAULT,
            memory: Bytes::gib(1),
            seed: 1,
        }
    }
}

impl Default for TenantSettings {
    /// A VM of its own, with nothing promised and nothing refused.
    fn default() -> Self {
        Self {
            image: false,
            floor: Bytes::ZERO,
            ceiling: None,
            weight: 100,
            high_priority: false,
            budget: None,
            admission: None,
            writes: Writes::Allocate,
        }
    }
}

impl TenantSettings {
    /// Floor, ceiling and weight as the allocation takes them: a floor rounded up to segments, a ceiling
    /// rounded down.
    pub fn limits(&self, capacity: Capacity) -> allocation::Limits {
        let segments = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
        allocation::Limits {
            floor: segments(capacity.segments_for(self.floor)),
            ceiling: self
                .ceiling
                .map(|ceiling| segments(ceiling.get() / capacity.segment_bytes())),
            weight: self.weight,
        }
    }
}

impl Settings {
    /// What a tenant's measure of demand depends on.
    pub(crate) fn demand(&self) -> impl PartialEq + use<'_> {
        let how = (self.measure, self.reuses, self.seed);
        (how, &self.window, &self.prediction, &self.filter)
    }
}
