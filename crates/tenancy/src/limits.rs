//! Bounds of what tenants may cost, each with its reason.

use units::{Bytes, Duration};

/// Blocks in the sample behind a tenant's live miss-ratio curve: 0.7 MiB, with which the curve is within
/// two hundredths (measured by `mrc`).
pub const CURVE_BLOCKS_MAX: usize = 8192;

/// Fewer would draw steps, not a curve.
pub const CURVE_BLOCKS_MIN: usize = 256;

/// Blocks in the samples of all tenants together, about 90 MiB with their curves: what 128 tenants have
/// with [`CURVE_BLOCKS_MAX`] each. Of more tenants each has a smaller one.
pub const CURVE_BLOCKS_TOTAL: usize = 128 * CURVE_BLOCKS_MAX;

/// A tenant's sample begins with one block in so many: a working set that fits in the sample would else have
/// every hit of it sampled, at more than 100 ns each. At one in eight a hit costs 15 ns at worst, and a
/// working set of 32 MiB still has a thousand samples.
pub const CURVE_RATE_FIRST: f64 = 0.125;

/// What a curve has seen counts half after so long: a day's habits are remembered, last week's are not.
pub const CURVE_HALF_LIFE: Duration = Duration::from_secs(6 * 3600);

/// Ends of sequential runs remembered of a tenant: 16 readers at once with 16 random requests between
/// two of one reader's. 4 KiB.
pub const RUNS: usize = 256;

/// Pairs of block and VM in the sample of a base image: 16 VMs with a thousand blocks each. 256 KiB.
pub const SHARING_PAIRS_MAX: usize = 16 * 1024;

/// Windows without a single access after which the time is not walked through window by window any more:
/// the slowest predictor has forgotten everything long before.
pub const IDLE_WINDOWS_MAX: u32 = 4096;

/// The least that may be set as budget a day: two segments of the smallest size. With less the first
/// reclaim would end admission for longer than a day.
pub const BUDGET_BYTES_PER_DAY_MIN: Bytes = Bytes::kib(128);

/// The greatest weight of a tenant: sums of a thousand of them stay far from 32 bits.
pub const WEIGHT_MAX: u32 = 1_000_000;
