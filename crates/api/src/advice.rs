//! Advice on a running host, as it travels.
//!
//! Units: blocks of 4 KiB, hits a second.

use configuration::Name;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Advice on a host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct HostAdvice {
    /// Each cache, by name.
    pub caches: Vec<CacheAdvice>,
}

/// Advice on a cache.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CacheAdvice {
    /// The cache.
    #[schema(value_type = String)]
    pub cache: Name,
    /// The flash that is divided.
    pub capacity_blocks: u64,
    /// What all want by what there is.
    pub load: f64,
    /// Blocks read a second in the last window.
    pub reads_per_second: f64,
    /// Hits of reads a second at the present shares, by the curves.
    pub hits_per_second: f64,
    /// Hits of reads a second if the flash were divided best, by the curves.
    pub best_hits_per_second: f64,
    /// What more flash would do, divided best.
    pub more_flash: Vec<MoreFlash>,
    /// What is worth saying, the most important first.
    pub findings: Vec<Finding>,
}

/// What more flash would do.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MoreFlash {
    /// So many blocks more.
    pub more_blocks: u64,
    /// Hits of reads a second, by the curves.
    pub hits_per_second: f64,
}

/// Something worth saying about a cache.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Finding {
    /// Too little was read to say anything.
    TooEarly {
        /// Blocks read so far.
        read_blocks: u64,
        /// Blocks after which curves mean something.
        needed_blocks: u64,
    },
    /// No window has ended since the start, so nothing is known of what hits are worth.
    FirstWindow {
        /// How long it is.
        window_seconds: f64,
    },
    /// Nothing was read in the last window, so nothing is known of what hits are worth.
    Idle,
    /// The VMs want more than there is.
    Overloaded {
        /// Flash that is missing.
        missing_blocks: u64,
    },
    /// The write budget keeps blocks out.
    BudgetLimits {
        /// Whose budget: a VM's or image's name; none for that of the cache.
        vm: Option<String>,
        /// Blocks that were refused for it.
        refused_blocks: u64,
        /// As a part of all that asked to be let in.
        part: f64,
    },
    /// A VM or image would gain from more of the flash there is.
    Gains {
        /// Which.
        vm: String,
        /// What it would have in the best division, beyond its share.
        more_blocks: u64,
        /// Hits a second more.
        hits_per_second: f64,
    },
    /// A VM or image has flash that others could use better.
    CouldGive {
        /// Which.
        vm: String,
        /// What it has beyond its part in the best division.
        less_blocks: u64,
        /// Hits a second less.
        hits_per_second: f64,
    },
    /// More flash would pay.
    MoreFlashPays {
        /// So much more.
        more_blocks: u64,
        /// Hits a second more than the same division of what there is.
        hits_per_second: f64,
    },
    /// More flash would hardly add hits.
    FlashIsEnough,
    /// Memory in front of the flash would answer a good part of what a VM or image reads.
    MemoryAnswers {
        /// Which.
        vm: String,
        /// Memory of a hundredth of its share of the flash.
        memory_blocks: u64,
        /// Hits a second that need no flash.
        hits_per_second: f64,
    },
    /// Memory in front of the flash would answer little of what anybody reads.
    MemoryDoesNotPay {
        /// Memory of a hundredth of the flash, divided like the flash.
        memory_blocks: u64,
    },
}
