//! Limits of a shard, each with its reason.

use units::{Bytes, Duration};

/// Submissions that the ring takes in one system call: a deep queue of several VMs. More are
/// queued and go in several calls.
pub(crate) const RING_ENTRIES: u32 = 1024;

/// How long a client may take to receive its last answers after its disk began to detach. A
/// client that does not read must not hold up a detach or a stop.
pub(crate) const FAREWELL_TIME_MAX: Duration = Duration::from_secs(5);

/// Reads of fewer bytes go through a buffer of ours and are copied from there. They cost no more
/// processor time that way (decision 0016), and a buffer can be abandoned when the flash hangs,
/// which a guest's memory cannot.
pub(crate) const LANDING_BYTES_MIN: Bytes = Bytes::kib(256);

/// Bytes read from flash after which a turn answers before it takes on more: each has to be verified
/// first, a MiB takes a tenth of a millisecond, and while that lasts nobody asks the flash for
/// anything.
pub(crate) const TURN_BYTES: Bytes = Bytes::kib(256);

/// How long recording a retirement may take before the writes that wait for it fail: the
/// state directory may lie on the very disk that is failing.
pub(crate) const RETIRE_TIME_MAX: Duration = Duration::from_secs(10);

/// Operations whose time is measured. Their tokens are small numbers that are used again, so
/// this many in flight is more than memory for their buffers allows; beyond it they go
/// unmeasured.
pub(crate) const TIMED_OPERATIONS_MAX: usize = 1 << 16;

/// Failed operations that one poll of a device or an origin keeps to be told of. Only the first of a
/// kind becomes a line of its own, the others are counted.
pub(crate) const FAILURES_KEPT_MAX: usize = 4096;

/// For how long further failures of one kind, of one disk or flash, are counted before they are told
/// in one line.
pub(crate) const FAILURE_PAUSE: Duration = Duration::from_secs(10);

/// How long the flash may give no answer at all while it is being opened. A slow device still
/// answers something in this time; one that does not would hold up every disk.
pub(crate) const OPENING_SILENCE_MAX: Duration = Duration::from_secs(10);

/// Reads of an opening cache that are taken in before the next ones are handed to the flash: so that most reads are
/// under way while the blocks of the others are entered, at one system call for so many.
pub(crate) const READS_TAKEN_IN: usize = 64;

/// A turn that ends later than it asked to by at least this stood still. Less is what a busy host's
/// scheduler does, and no matter beside the time that flash may take.
pub(crate) const STANDSTILL_MIN: Duration = Duration::from_millis(50);

/// A standstill of which the log tells: guests have noticed it.
pub(crate) const STANDSTILL_TOLD: Duration = Duration::from_secs(1);

/// How long a disk that is being detached waits for writes that were given up and may still land at
/// its origin. What is left is recorded, and the next attachment waits for it.
pub(crate) const LATE_TIME_MAX: Duration = Duration::from_secs(5);

/// How far the record in the state directory of how far the flash is may lag behind it. Each writing is a
/// small file replaced and synced, only when the journal or a checkpoint has moved on.
pub(crate) const PROGRESS_PAUSE: Duration = Duration::from_secs(5);

/// Between two looks at who keeps memory for which others wait: far less than a client is given.
pub(crate) const STALL_LOOK: Duration = Duration::from_secs(1);
