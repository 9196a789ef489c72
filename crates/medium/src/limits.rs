//! Bounds of the model, and why.

/// Unflushed writes that an image remembers one by one. A device's write cache is bounded
/// too: beyond this the oldest write becomes durable on its own, as a real device destages.
pub(crate) const UNFLUSHED_WRITES_MAX: usize = 4096;

/// A misdirected access lands at most this many times its own length away, so that it most
/// often hits something else that is in use.
pub(crate) const MISDIRECTION_LENGTHS_MAX: u64 = 64;
