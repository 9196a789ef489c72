//! Limits of what is asked of drives, each with its reason.

use units::Duration;

/// How long `smartctl` may take. A drive that sleeps needs seconds to answer; a drive that fails may never.
pub const ANSWER_TIME_MAX: Duration = Duration::from_secs(20);

/// Bytes of an answer that are read: real ones have some KiB, with long tables of attributes some tens.
pub const ANSWER_BYTES_MAX: u64 = 1 << 20;

/// How deep layers of LVM, dm-crypt and MD are followed: hosts have three or four.
pub const LAYERS_MAX: usize = 16;

/// Drives under one file: an array of more is described by its first ones.
pub const DRIVES_MAX: usize = 64;

/// From this part of its endurance on a drive is to be replaced soon, in percent.
pub const USED_PERCENT_WARNED: u64 = 90;
