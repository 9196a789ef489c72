//! How a guest is told what it will read.

use units::{Bytes, Offset};

/// Tells a guest what is in memory because it will be read: the first byte and the number of bytes. Called on the shard's
/// thread, so it should do no more than pass that on.
pub type GuestTell = Box<dyn Fn(Offset, Bytes) + Send>;
