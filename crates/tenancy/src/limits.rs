//! Bounds of what tenants may cost, each with its reason.

use units::{Bytes, Duration};

/// Blocks in the sample behind a tenant's live miss-ratio curve: 0.7 MiB, with which the curve is within
/// two hundredths (measured by `mrc`).
pub const CURVE_BLOCKS_DEFAULT: u32 = 8192;

/// Fewer would draw steps, not a curve.
pub const CURVE_BLOCKS_MIN: u32 = 256;

/// More would be within a hundredth, at 6 MiB a tenant.
pub const CURVE_BLOCKS_MAX: u32 = 1 << 16;

/// What a block of that sample takes, its part of tables and stack included, and what a curve takes
/// beside: measured, and asserted by a test.
pub(crate) const CURVE_BYTES_A_BLOCK: u64 = 128;
/// Buckets of a curve: 64 an octave of depths.
pub(crate) const CURVE_BYTES_FIXED: u64 = 96 << 10;

/// What a curve has seen counts half after so long: a day's habits are remembered, last week's are not.
pub const CURVE_HALF_LIFE: Duration = Duration::from_secs(6 * 3600);

/// Pairs of block and VM in the sample of who uses a tenant's cached blocks: 16 VMs with a thousand
/// blocks each.
pub const TAG_PAIRS_MAX: usize = 16 * 1024;

/// What such a sample can take: a list of its own for each block.
pub(crate) const TAG_BYTES_MAX: u64 = 2 << 20;

/// Windows without a single access after which time is not walked through window by window any more:
/// the slowest predictor has forgotten everything long before.
pub const IDLE_WINDOWS_MAX: u32 = 4096;

/// The least that may be set as budget a day. With less the first reclaim of a segment would end
/// admission for longer than an hour.
pub const BUDGET_A_DAY_MIN: Bytes = Bytes::mib(64);

/// The least staging memory, if there is any: sixteen blocks.
pub const STAGING_MIN: Bytes = Bytes::kib(64);
