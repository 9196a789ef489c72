//! What the admin API tells of VMs and base images: who has which part of the flash, and why.
//!
//! Units are the last word of a name. Blocks have 4096 bytes.

use crate::config::Name;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// VMs and base images.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Vms {
    /// Each VM, by name.
    pub vms: Vec<VmStatus>,
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
    /// Blocks, or parts of one, that were read and were in the cache.
    pub read_block_hits: u64,
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
