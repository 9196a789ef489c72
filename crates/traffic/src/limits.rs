//! Limits, each with its reason.

/// Bytes of a datagram: the most that UDP carries.
pub const DATAGRAM_BYTES_MAX: usize = 65_536;

/// Addresses of VMs: each VM of the largest group has some.
pub const ADDRESSES_MAX: usize = 16_384;

/// Connections of which counts are kept: what Linux tracks by default on a large host.
pub const CONNECTIONS_MAX: usize = 1 << 20;

/// Bytes of the table of connections that are read: half a KiB for each.
pub const TABLE_BYTES_MAX: u64 = 512 << 20;
