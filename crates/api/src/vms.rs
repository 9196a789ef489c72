//! What the admin API tells of VMs and base images: who has which part of the flash, and why.
//!
//! Units are the last word of a name. Blocks have 4096 bytes.

use crate::guests::GuestStatus;
use configuration::{Name, PolicyChange};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use units::number::real;
use utoipa::ToSchema;

/// VMs and base images.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Vms {
    /// Each VM, by name.
    pub vms: Vec<VmStatus>,
    /// Each base image, by name.
    pub images: Vec<ImageStatus>,
}

/// Base images.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Images {
    /// Each base image, by name.
    pub images: Vec<ImageStatus>,
}

/// A VM.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct VmStatus {
    /// Its name.
    #[schema(value_type = String)]
    pub name: Name,
    /// Its own disks.
    #[schema(value_type = Vec<String>)]
    pub disks: Vec<Name>,
    /// The base images that it may read, and what it has read of them.
    pub images: Vec<ImageUse>,
    /// What was set for it.
    pub settings: VmSettings,
    /// The settings that were changed at run time; the others are the configuration file's.
    pub changed: Vec<String>,
    /// What its own disks were asked since they were attached, all together.
    pub counters: VmCounters,
    /// What it has of each cache that it has disks on, and why.
    pub shares: Vec<Share>,
    /// The channel to the agent in its guest; none without `guest.directory`.
    pub guest: Option<GuestStatus>,
}

/// What a VM or a base image has of a cache, and why. Counts are since it came to the cache.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Share {
    /// The cache.
    #[schema(value_type = String)]
    pub cache: Name,
    /// Why nothing of it enters the flash: its settings contradict others.
    pub error: Option<String>,
    /// The flash that it is to have.
    pub share_blocks: u64,
    /// The flash that the allocation asked for; the share follows it where the change is worth making.
    pub target_blocks: u64,
    /// The flash that it has.
    pub held_blocks: u64,
    /// What it wants.
    pub demand: Demand,
    /// What may enter, and what did not.
    pub admission: Admission,
    /// What became of its reads and writes.
    pub blocks: BlockCounts,
    /// Bytes written to flash for it, by cause.
    pub flash_written_bytes: FlashWritten,
    /// Bytes written to flash for it in the last 24 hours, or since the daemon's start.
    pub flash_written_day_bytes: u64,
    /// Its write budget, if it has one of its own.
    pub write_budget: Option<WriteBudget>,
    /// Its live miss-ratio curve.
    pub curve: Curve,
    /// Of a base image: whose its cached blocks are. Estimated from a sample.
    pub sharing: Option<Sharing>,
    /// What became of guesses of what it reads next; none while nobody guesses.
    #[serde(default)]
    pub prefetch: Option<Prefetch>,
    /// Main memory for all that is known of it, staged blocks included.
    pub memory_bytes: u64,
    /// What its reads weigh where `hot` is `frequency`, by its processors and memory, as `hearth monitor` says: 1 of equal VMs,
    /// and without a monitor.
    #[serde(default = "one")]
    pub memory_weight: f64,
}

const fn one() -> f64 {
    1.0
}

/// What became of guesses of what a VM reads next.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Prefetch {
    /// Blocks that were fetched into memory.
    pub fetched_blocks: u64,
    /// Of these, read before they left memory.
    pub used_blocks: u64,
    /// Of those that were read, blocks of which the guest had been told: its agent may have read them ahead.
    #[serde(default)]
    pub told_blocks: u64,
    /// Of these, gone unread: for other blocks, or because they changed.
    pub wasted_blocks: u64,
    /// Used blocks, out of those that were used or wasted; none before there are any.
    #[serde(default)]
    pub precision: Option<f64>,
    /// Guesses that were not worth their price.
    pub refused_guesses: u64,
    /// Guesses that came to nothing because the VM's own reads kept the origin busy.
    pub dropped_guesses: u64,
    /// Main memory of the miners and the price.
    pub memory_bytes: u64,
}

impl Prefetch {
    /// Used blocks, out of those of which is known what became of them.
    pub fn precision_of(used_blocks: u64, wasted_blocks: u64) -> Option<f64> {
        let known = used_blocks.saturating_add(wasted_blocks);
        (known > 0).then(|| real(used_blocks) / real(known))
    }
}

/// What a VM wants of a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Demand {
    /// Over how long it is measured.
    pub window_seconds: f64,
    /// Different blocks that it used in that time.
    pub working_set_blocks: u64,
    /// Those of them that it used again: its demand.
    pub reused_blocks: u64,
    /// Demand that is foreseen for the next window; none before the first has ended.
    pub predicted_blocks: Option<f64>,
    /// Mean error of what was foreseen, as a part of what came.
    pub prediction_error: Option<f64>,
    /// Blocks read a second in the last window.
    pub reads_per_second: f64,
}

/// What may enter the flash of a VM, and what did not.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Admission {
    /// The policy that holds for it.
    pub policy: String,
    /// Main memory that it may use, staged blocks included.
    pub staging_bytes: u64,
    /// Blocks that were let in.
    pub admitted_blocks: u64,
    /// Those of them that came while the flash had never been full.
    pub filled_blocks: u64,
    /// Blocks that were kept in memory until it is known whether they deserve flash.
    pub staged_blocks: u64,
    /// Those of them that left without having been on flash.
    pub dropped_blocks: u64,
    /// Blocks that were let in and found no room in time.
    pub withheld_blocks: u64,
    /// Blocks that were not let in, by reason; all reasons there are.
    pub refused_blocks: BTreeMap<String, u64>,
}

/// What became of the blocks that a VM read and wrote.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BlockCounts {
    /// Read.
    pub reads: u64,
    /// Read, and found on flash.
    pub flash_hits: u64,
    /// Read, and found in memory: staged.
    pub memory_hits: u64,
    /// Written.
    pub writes: u64,
    /// Of a VM: read of base images, which have shares of their own.
    pub image_reads: u64,
    /// Those of them that were found on flash or in memory.
    pub image_hits: u64,
    /// Dropped by reclaim.
    pub evicted: u64,
}

/// Bytes written to flash for a VM, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FlashWritten {
    /// Blocks that were let in, and blocks that were rewritten.
    pub admitted: u64,
    /// Blocks that reclaim wrote again.
    pub reclaim: u64,
    /// What describes blocks.
    pub metadata: u64,
}

impl FlashWritten {
    /// Every cause with its name, in one order for tables and metrics.
    pub fn causes(&self) -> [(&'static str, u64); 3] {
        [
            ("admitted", self.admitted),
            ("reclaim", self.reclaim),
            ("metadata", self.metadata),
        ]
    }

    /// All causes together.
    pub fn total(&self) -> u64 {
        self.causes().iter().map(|(_, bytes)| bytes).sum()
    }
}

/// A write budget, and how much of it is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WriteBudget {
    /// Bytes that may be written a day.
    pub bytes_per_day: u64,
    /// Bytes that may be written at once after a long rest.
    pub burst_bytes: u64,
    /// Bytes that may be written now.
    pub left_bytes: u64,
    /// Bytes that were written beyond it, made up for before anything more is let in.
    pub debt_bytes: u64,
}

/// A live miss-ratio curve: what an LRU cache of each size would hit. From a sample, fading with a
/// half-life of some hours.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Curve {
    /// Part of the blocks that are sampled.
    pub sampled_rate: f64,
    /// Hit ratio of reads at the present share.
    pub present_read_hit_ratio: f64,
    /// Hit ratio of reads at the target.
    pub target_read_hit_ratio: f64,
    /// The size at the knee of the reads' curve, if it has one.
    pub knee_blocks: Option<u64>,
    /// Sizes and their hit ratios, growing.
    pub points: Vec<CurvePoint>,
}

/// A size on a live curve.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CurvePoint {
    /// The size.
    pub size_blocks: u64,
    /// Hit ratio of reads.
    pub read_hit_ratio: f64,
    /// Hit ratio of reads and writes.
    pub hit_ratio: f64,
}

/// Whose the cached blocks of a base image are. Estimated from a sample.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Sharing {
    /// Cached blocks that two VMs or more use.
    pub shared_blocks: u64,
    /// Blocks that would be cached beside these if each VM had copies of its own.
    pub saved_blocks: u64,
    /// The VMs that use cached blocks, by name.
    pub users: Vec<ImageUser>,
}

/// A VM that uses cached blocks of a base image. Estimated from a sample.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ImageUser {
    /// The VM.
    pub vm: String,
    /// Cached blocks that it has read.
    pub used_blocks: u64,
    /// Those of them that another VM has read too.
    pub shared_blocks: u64,
    /// What falls to it if each block is divided among its users.
    pub portion_blocks: f64,
}

/// A cache's policy, and how it does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PolicyStatus {
    /// The settings that hold, as they are written in the configuration.
    pub settings: PolicyChange,
    /// The settings that were changed at run time; the others are the configuration file's.
    pub changed: Vec<String>,
    /// Why nothing enters the flash: settings contradict each other.
    pub error: Option<String>,
    /// The flash that is divided.
    pub capacity_blocks: u64,
    /// What all want by what there is; above 1 the host is overloaded.
    pub load: f64,
    /// Bytes written to the flash in the last 24 hours, or since the daemon's start.
    pub flash_written_day_bytes: u64,
    /// The write budget of the flash, if it has one.
    pub write_budget: Option<WriteBudget>,
    /// Main memory that the policy takes, staged blocks included.
    pub memory_bytes: u64,
    /// Blocks that would be cached twice or more if base images were not shared. Estimated.
    pub saved_blocks: u64,
}

/// What was set for a VM.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct VmSettings {
    /// What is divided by weight is divided in proportion to this.
    pub weight: u32,
    /// Flash of each cache that it keeps.
    pub floor_bytes: u64,
    /// The most flash of each cache that its share may be; none: no limit.
    pub ceiling_bytes: Option<u64>,
    /// What may be written to flash for it, as it was written; none: no limit of its own.
    #[schema(example = "200GiB/day")]
    pub write_budget: Option<String>,
    /// What may enter the flash of it; none: what holds for the cache.
    #[schema(example = "larc")]
    pub admission: Option<String>,
    /// Whether admission by frequency lets its blocks in without regard to the threshold.
    pub high_priority: bool,
}

/// What the disks of a VM were asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct VmCounters {
    /// Read requests.
    pub read_requests: u64,
    /// Write requests.
    pub write_requests: u64,
    /// Blocks, or parts of one, that were read and were in the cache, on flash or in memory.
    pub read_block_hits: u64,
    /// Those of them that were in memory: staged.
    #[serde(default)]
    pub read_block_staged_hits: u64,
    /// Those of them that were read from a copy in memory because they are hot.
    #[serde(default)]
    pub read_block_hot_hits: u64,
    /// Those of them that were in memory because they were prefetched.
    #[serde(default)]
    pub read_block_ahead_hits: u64,
    /// Blocks, or parts of one, that were read and were not.
    pub read_block_misses: u64,
    /// Bytes read from the origin.
    pub origin_read_bytes: u64,
    /// Bytes written to flash for it: fills and updates.
    pub flash_written_bytes: u64,
    /// Blocks on flash now.
    pub cached_blocks: u64,
}

/// A base image that a VM reads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ImageUse {
    /// The shared disk.
    #[schema(value_type = String)]
    pub image: Name,
    /// The export through which the VM reads it.
    #[schema(example = "debian-12@web")]
    pub export: String,
    /// What the VM has read of it since it was attached.
    #[serde(flatten)]
    pub read: ImageRead,
}

/// A base image.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ImageStatus {
    /// The shared disk's name.
    #[schema(value_type = String)]
    pub name: Name,
    /// The cache that keeps it warm.
    #[schema(value_type = String)]
    pub cache: Name,
    /// The VMs that may read it, and what each has read.
    pub readers: Vec<ImageReader>,
    /// Blocks on flash now: each once, however many VMs read it.
    pub cached_blocks: u64,
    /// Blocks that VMs found in the cache when they first read them, because another VM had read them:
    /// origin reads that sharing has saved since the image was attached. Estimated from a sample.
    pub saved_blocks: u64,
    /// What it was asked by all VMs.
    pub counters: VmCounters,
    /// What it has of its cache, and why; none while its cache has no policy.
    pub share: Option<Share>,
}

/// A VM that reads a base image.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ImageReader {
    /// The VM.
    #[schema(value_type = String)]
    pub vm: Name,
    /// What it has read.
    #[serde(flatten)]
    pub read: ImageRead,
}

/// What a VM has read of a base image since the image was attached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ImageRead {
    /// Read requests.
    pub read_requests: u64,
    /// Bytes that it read.
    pub read_bytes: u64,
    /// Blocks, or parts of one, that were in the cache.
    pub read_block_hits: u64,
    /// Blocks, or parts of one, that were not.
    pub read_block_misses: u64,
    /// Different blocks that it has read. Estimated from a sample.
    pub seen_blocks: u64,
    /// Those of them that another VM had brought into the cache before. Estimated from a sample.
    pub saved_blocks: u64,
}
