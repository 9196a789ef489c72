//! Limits of admission, each with its reason.

use units::Bytes;

/// Memory of a policy that does not depend on its share: its counters and the least that its tables
/// have, and a sample of written blocks. Hundreds of tenants have hundreds of them.
pub const FIXED_MEMORY: Bytes = Bytes::kib(24);

/// Bits of [`super::hec`]: ten million blocks touched, and cleared in less than a millisecond when a
/// generation ends.
pub const TOUCHED_BYTES_MAX: Bytes = Bytes::mib(8);
