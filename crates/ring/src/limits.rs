//! Limits of the ring, each with its reason.

use units::Duration;

/// Slices in one [`crate::Op::Send`]: the kernel's `UIO_MAXIOV`.
pub const SEND_SLICES_MAX: usize = 1024;

/// Pieces of memory in one [`crate::Op::ReadInto`]: the kernel's `UIO_MAXIOV`.
pub const PIECES_MAX: usize = 1024;

/// Completion queue entries for each submission queue entry. Receives and polls stay in
/// flight while reads come and go, so completions may outnumber one batch of submissions;
/// beyond it the kernel keeps an overflow list, which is correct but slower.
pub(crate) const COMPLETIONS_PER_SUBMISSION: u32 = 4;

/// Buffers that one ring registers with the kernel: the reads of a deep queue of several VMs.
pub(crate) const REGISTERED_BUFFERS_MAX: u16 = 1024;

/// Bytes of all of them, which the kernel keeps in memory as long as the ring lives.
pub(crate) const REGISTERED_BYTES_MAX: usize = 32 << 20;

/// Message headers kept for reuse: about the connections that answer in one turn.
pub(crate) const SPARE_MESSAGES_MAX: usize = 64;

/// How long dropping a ring waits for cancelled operations. Sockets and polls end at once and
/// a disk in seconds; what is still stuck then (a dead network mount) is leaked, since the
/// kernel may write into it later.
pub(crate) const DRAIN_TIME_MAX: Duration = Duration::from_secs(10);
