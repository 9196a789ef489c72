//! Limits of the load generator, each with its reason.

use units::Duration;

/// Requests of a job in flight. Four times what a queue of QEMU holds; beyond it only waiting
/// is measured.
pub(crate) const DEPTH_MAX: usize = 4096;

/// Jobs: the protocols' queues and servers' connections are dozens at most.
pub(crate) const JOBS_MAX: usize = 64;

/// Submissions that a job's ring takes in one system call.
pub(crate) const RING_ENTRIES_MAX: usize = 1024;

/// Buffer of one receive: what a stream socket holds, so that many replies share a system call.
pub(crate) const RECEIVE_BYTES: usize = 256 << 10;

/// Connecting to a server and its handshake, together. Whoever waits for a server to come up asks
/// again.
pub(crate) const CONNECT_TIME_MAX: Duration = Duration::from_secs(10);

/// Longest wait for completions before a job looks whether it is to end.
pub(crate) const LOOK_UP_TIME: Duration = Duration::from_millis(250);

/// How long nothing may come over vhost-user until the server is asked whether it is there: its
/// rings would stay silent for ever.
pub(crate) const SILENCE_MAX: Duration = Duration::from_secs(2);

/// Descriptors of a virtqueue that every server takes, QEMU's own limit.
pub(crate) const QUEUE_SIZE_MAX: usize = 1024;

/// Descriptors of a request: header, data, status.
pub(crate) const DESCRIPTORS_A_REQUEST: usize = 3;

/// Wrong blocks that are described; more are counted.
pub(crate) const FINDINGS_MAX: usize = 16;

/// Memory of all jobs' buffers together, all of it touched: a host that is measured has that to
/// spare, and more in flight measures only waiting.
pub(crate) const BUFFER_BYTES_MAX: u64 = 4 << 30;

/// The largest unit that a target may ask for: NBD's largest minimum block. Room for widening requests to it.
pub(crate) const UNIT_BYTES_MAX: u64 = 64 << 10;

/// The longest read or write of a replay; longer ones go in parts. NBD's limit of a payload: no guest sends more.
pub(crate) const PART_BYTES_MAX: u64 = 32 << 20;

/// The longest discard or write-zeroes of a replay over protocols without a limit of their own.
pub(crate) const ERASE_BYTES_MAX: u32 = 1 << 30;

/// What a replay that goes on from the target's beginning keeps together: a block of the cache.
pub(crate) const WRAP_BYTES: u64 = 4096;

/// Requests of a trace that are handed over at a time.
pub(crate) const REPLAY_BATCH: usize = 1024;

/// Batches that are read ahead: 640 KiB, a tenth of a second at 160 000 requests a second.
pub(crate) const REPLAY_BATCHES: usize = 16;

/// How much later than its time a request may begin without being called late. Timers and threads wake up within
/// some 100 us on a host that is not overloaded.
pub(crate) const LATE_TIME: Duration = Duration::from_millis(1);

/// How long a replay waits for answers while the trace's next request is being read.
pub(crate) const READ_PAUSE: Duration = Duration::from_millis(1);

/// How often progress is told.
pub(crate) const PROGRESS_PAUSE: Duration = Duration::from_millis(250);
