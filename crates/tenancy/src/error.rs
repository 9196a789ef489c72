//! Settings that cannot be had, each with the arithmetic.

use policy::allocation::BadLimits;
use policy::demand::{WindowSettingsError, WindowsError};
use units::{Bytes, TenantSlot};

/// Why settings are refused; nothing was changed.
#[derive(Debug, PartialEq, thiserror::Error)]
pub enum SettingsError {
    /// Floors, ceilings and weights that cannot all hold.
    #[error("a segment holds {segment}: {limits}")]
    Limits {
        /// Which ones.
        limits: BadLimits,
        /// Bytes of blocks in a segment.
        segment: Bytes,
    },
    /// A tenant could never have what it is promised.
    #[error(
        "a ceiling of {ceiling} is below the floor of {floor}: raise the one or lower the other by {}",
        floor.saturating_sub(*ceiling)
    )]
    CeilingBelowFloor {
        /// The floor.
        floor: Bytes,
        /// The ceiling.
        ceiling: Bytes,
    },
    /// Less than one segment could ever be held.
    #[error(
        "a ceiling of {ceiling} is less than the {least} of two segments, without which nothing is cached: give {least} or more"
    )]
    CeilingTooLow {
        /// The ceiling.
        ceiling: Bytes,
        /// The least.
        least: Bytes,
    },
    /// Nothing would ever be written.
    #[error(
        "a budget of {a_day} a day is less than {least}: admission would stand still; give more, or leave the budget out"
    )]
    BudgetTooSmall {
        /// The budget.
        a_day: Bytes,
        /// The least.
        least: Bytes,
    },
    /// The burst would not cover one reclaim.
    #[error(
        "a burst of {burst} is less than the {least} that letting one segment in can cost, with the reclaim and the checkpoint that it may cause: give {least} or more"
    )]
    BurstTooSmall {
        /// The burst.
        burst: Bytes,
        /// The least.
        least: Bytes,
    },
    /// Too little to be divided.
    #[error(
        "staging of {staging} is less than {least}: give {least} or more, or 0B to stage nothing"
    )]
    Staging {
        /// How much it was to be.
        staging: Bytes,
        /// The least.
        least: Bytes,
    },
    /// Nothing would ever be let in.
    #[error(
        "admission {admission} tells blocks apart by what it remembers of them, and has 0B of staging to do so: give {usual} or more (1% of {capacity}), or admit always"
    )]
    NoStaging {
        /// The policy.
        admission: String,
        /// What is usual.
        usual: Bytes,
        /// What is divided.
        capacity: Bytes,
    },
    /// What is staged would not fit.
    #[error(
        "{frames} for blocks in memory is less than the {staging} of staging that it holds: give more, or lower staging"
    )]
    Frames {
        /// How much it was to be.
        frames: Bytes,
        /// What may be staged.
        staging: Bytes,
    },
    /// The tenants would need more memory than they may have.
    #[error(
        "{frames} for staging and blocks in memory and {needs} for what is measured of {tenants} tenants come to {sum}, above the memory limit of {limit}: raise it, or lower staging, the memory for blocks or the samples"
    )]
    Memory {
        /// For staging, and what else has frames in memory.
        frames: Bytes,
        /// How many there would be.
        tenants: usize,
        /// What their measures can come to need.
        needs: Bytes,
        /// All together.
        sum: Bytes,
        /// What there may be.
        limit: Bytes,
    },
    /// A sample is too small to say anything, or too large.
    #[error("a sample of {blocks} blocks for {what}: give from {least} to {most}")]
    Sample {
        /// What it is for.
        what: &'static str,
        /// How large it was to be.
        blocks: u64,
        /// The least.
        least: u64,
        /// The most.
        most: u64,
    },
    /// Windows that nothing can be measured over.
    #[error(transparent)]
    Windows(#[from] WindowsError),
    /// Windows that nothing can be chosen by.
    #[error(transparent)]
    Window(#[from] WindowSettingsError),
    /// Nobody is there.
    #[error("no tenant has the slot {0:?}")]
    UnknownTenant(TenantSlot),
    /// Somebody is there already.
    #[error("a tenant has the slot {0:?} already: detach it first, or set what is to change")]
    TenantExists(TenantSlot),
}
