//! Bounds of the store, each with its reason.

use units::Duration;

/// How long the journal may owe it that a dirty log has become durable: until then only the chunk behind
/// tells a lost chunk from one that was never written. One page a second at most for all disks.
pub(crate) const LOGGED_AFTER: Duration = Duration::from_secs(1);

/// Durable writes of one dirty log on their way: one, and one more so that the flash is never idle.
/// What comes meanwhile shares the next one.
pub(crate) const DURABLE_WRITES_MAX: usize = 2;

/// Flash operations that may fail one after the other before the flash is given up: a medium
/// that fails this often only costs time.
pub(crate) const FLASH_FAILURES_MAX: u32 = 8;

/// Journal entries that make a commit worth its page at once.
pub(crate) const JOURNAL_EAGER_ENTRIES: usize = flash_format::JOURNAL_ENTRIES_PER_PAGE;

/// Pages of one journal write: 256 KiB.
pub(crate) const JOURNAL_BATCH_PAGES_MAX: u64 = 64;

/// Numbers of checkpoints that are left out when the flash is found behind what the host has recorded: more
/// than the lives that it has lost have written, and few enough for 1,024 such losses below 2^30, where generations end.
pub(crate) const CHECKPOINTS_SKIPPED: u64 = 1 << 20;

/// Pages of one checkpoint write: 256 KiB.
pub(crate) const CHECKPOINT_STEP_PAGES: u64 = 64;

/// A rewritten block that cannot be trusted yet is looked at again no sooner than this.
pub(crate) const REST_MORE_MIN: Duration = Duration::from_millis(1);

/// Entries of the journal that writes may have passed before flash that is late for long is given up:
/// 8 MiB of memory, and 16 commits when it is back.
pub(crate) const PASSED_ENTRIES_MAX: usize = 262_144;

/// Blocks of one read of survivors at most: 1 MiB keeps reads large and a buffer modest.
pub(crate) const RECLAIM_RUN_BLOCKS_MAX: usize = 256;

/// Longest pause between two looks at what waits for time.
pub(crate) const TICK_MAX: Duration = Duration::from_secs(60);
