//! Limits of a connection, each with its reason. What it may have in flight is
//! [`frontend::limits::ConnectionLimits`], as for NBD.

/// Messages that are handled in one turn. Starting a device of many queues takes some hundred, so
/// a few turns; one that never stops talking gets a turn like everybody else.
pub const MESSAGES_PER_TURN: usize = 64;

/// Chains that are taken in one turn. More than a queue has: one turn empties a busy queue, and a
/// guest that keeps refilling it with requests that are answered at once waits for the others.
pub const CHAINS_PER_TURN: usize = 1024;

/// Mappings of guest memory in the whole process that can be watched for files that shrink: a
/// thousand guests with the eight regions that a large one has.
pub const MAPPINGS_MAX: usize = 8192;

/// Longest mapping, in bytes: what the largest hosts have, far below what one process can map.
pub const MAPPING_BYTES_MAX: u64 = 16 << 40;

/// Largest page of a file that is mapped, in bytes: huge pages of the largest kind.
pub const FILE_PAGE_MAX: u64 = 1 << 30;

/// Connections that one VM may have to a disk: one whose queues run, the destination of its
/// migration within the host, and twice as many for those that are still being let go.
pub const CONNECTIONS_MAX: usize = 4;
