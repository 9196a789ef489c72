//! Bounds of the cache, each with its reason.

use units::{Bytes, Duration};

/// Blocks that one flash or origin read covers at most: 1 MiB keeps large requests large and
/// a single buffer modest.
pub(crate) const RUN_BLOCKS_MAX: u64 = 256;

/// Records that are shipped at a time: a frame of the link has 1 MiB of them, with what is said of each.
pub(crate) const SHIPMENT_RECORDS_MAX: u64 = 240;

/// Bytes that the prefetches of one disk have on their way from its origin: enough to keep a network
/// volume busy, little beside what guests wait for.
pub(crate) const PREFETCH_DISK_BYTES_MAX: Bytes = Bytes::mib(4);

/// The same for all disks of a cache, so that memory for prefetches is bounded whatever clients ask:
/// four disks whose origins hang leave nothing for others, which lose a prefetch and no more.
pub(crate) const PREFETCH_BYTES_MAX: Bytes = Bytes::mib(16);

/// Runs of blocks that prefetches look at before other requests have their turn: 4,096 index probes
/// take a quarter of a millisecond.
pub(crate) const PREFETCH_STEP_RUNS: usize = 16;

/// Memory in which a VM's view of an image remembers what it has read: exact up to images of
/// 2 GiB, a sample of larger ones, and 64 MiB if 1024 VMs read one.
pub(crate) const SEEN_BYTES_MAX: Bytes = Bytes::kib(64);

/// How long a guest's request waits at most for who follows its disk's log, and a question of that one for records: a
/// guest does not notice more than that beside a live migration.
pub(crate) const FOLLOW_TIME_MAX: Duration = Duration::from_millis(200);

/// How long somebody follows a log without being named again: who names him may have ended.
pub(crate) const FOLLOWER_NAMED_MAX: Duration = Duration::from_secs(1);

/// Bytes of a log which who follows it may lack at most before writes wait for that one: 16 ms at 64 MB a second.
pub(crate) const FOLLOW_BYTES_MAX: Bytes = Bytes::mib(1);

/// The same for who has been too slow: what an origin of 50 ms takes in 200 ms, a few writes at a time.
pub(crate) const FOLLOW_BYTES_MIN: Bytes = Bytes::kib(64);

/// The pause before a flush of an origin, or a record of its owner, that failed is tried again.
pub(crate) const RETRY_PAUSE_MIN: Duration = Duration::from_secs(1);

/// Bytes of a log that is to be emptied for good for which writes are held: so it ends.
pub(crate) const LAST_BYTES: Bytes = Bytes::mib(4);

/// Flash operations that no guest waits for may take so many times the timeout before the
/// flash is given up.
pub(crate) const PATIENCE_TIMEOUTS: u64 = 4;

/// For how long no write of the flash may be late until it is waited for again, in timeouts: each way
/// there and back costs the host a record or two.
pub(crate) const CALM_TIMEOUTS: u64 = 2;

/// Pause between two probes of flash whose reads are late.
pub(crate) const PROBE_PAUSE: Duration = Duration::from_secs(1);

/// Probes in time, one after the other, after which the flash is read from again: a device that answers
/// now and then would go back and forth, and its guests wait for the timeout each time.
pub(crate) const PROBES_IN_TIME: u32 = 5;

/// How often operations in flight are looked at for their deadlines, as a part of the
/// deadline.
pub(crate) const WATCH_PARTS: u64 = 4;

/// Longest pause between two looks at what waits for time.
pub(crate) const TICK_MAX: Duration = Duration::from_secs(60);

/// Largest guest request: what NBD clients send at most.
pub(crate) const REQUEST_BYTES_MAX: Bytes = Bytes::mib(32);

/// Blocks that one read of the scrub covers: 256 KiB keep a flash device busy for less than a millisecond, which is
/// what a guest's read waits for behind it.
pub(crate) const SCRUB_RUN_BLOCKS: usize = 64;

/// How often the scrub looks whether guests wait for the flash still.
pub(crate) const SCRUB_LOOK_PAUSE: Duration = Duration::from_millis(10);

/// How long the scrub lets guests go first: then it reads once, so that a pass ends under guests who never pause.
pub(crate) const SCRUB_YIELD_MAX: Duration = Duration::from_secs(1);

/// Bytes a second that the scrub reads at least: a rate of nothing is no pass.
pub(crate) const SCRUB_RATE_MIN: Bytes = Bytes::kib(64);
