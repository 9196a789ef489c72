//! Bytes of what we answer, and of the one thing that we say unasked.

use super::encode::frame;
use super::{FLAG_NEED_REPLY, FLAG_REPLY, Header, VERSION, code};

/// A number: features, counts, acknowledgements (0 for done).
pub fn number(to: &Header, number: u64) -> Vec<u8> {
    frame(to.code, VERSION | FLAG_REPLY, &number.to_le_bytes())
}

/// How far a ring was read.
pub fn ring_base(to: &Header, ring: u32, base: u16) -> Vec<u8> {
    let payload = [ring, u32::from(base)].map(u32::to_le_bytes).concat();
    frame(to.code, VERSION | FLAG_REPLY, &payload)
}

/// Part of the configuration space.
///
/// # Panics
/// If it has 4 GiB.
pub fn config(to: &Header, offset: u32, flags: u32, bytes: &[u8]) -> Vec<u8> {
    let size = u32::try_from(bytes.len()).expect("a configuration space is short");
    let mut payload = [offset, size, flags].map(u32::to_le_bytes).concat();
    payload.extend_from_slice(bytes);
    frame(to.code, VERSION | FLAG_REPLY, &payload)
}

/// Shared memory for what is in flight; its descriptor travels beside.
pub fn inflight(to: &Header, bytes: u64, queues: u16, size: u16) -> Vec<u8> {
    let mut payload = [bytes, 0].map(u64::to_le_bytes).concat();
    payload.extend([queues, size, 0, 0].map(u16::to_le_bytes).concat());
    frame(to.code, VERSION | FLAG_REPLY, &payload)
}

/// The configuration space has changed, for the channel of our own.
pub fn config_changed() -> Vec<u8> {
    // No acknowledgement is asked for: nothing would be done with it.
    frame(code::CONFIG_CHANGE, VERSION & !FLAG_NEED_REPLY, &[])
}
