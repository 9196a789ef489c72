//! What the bytes of each block of a VM's disk are: a number that each write raises.
//!
//! A read that is answered with a lower number than that of the last write which had been acknowledged when the read
//! began has got stale bytes. Nothing in a run may do that: [`Versions::check`] counts it.

use block_io::{BufPool, PAGE_BYTES, Slice};

/// The versions of the blocks of one disk.
pub(crate) struct Versions {
    /// Of the last write that has begun.
    begun: Vec<u32>,
    /// Of the last write that was acknowledged.
    acknowledged: Vec<u32>,
    /// Of what the origin has.
    origin: Vec<u32>,
    stale: u64,
}

impl Versions {
    /// Every block has been written once.
    pub(crate) fn new(blocks: u32) -> Self {
        let first = || vec![1; blocks as usize];
        Self {
            begun: first(),
            acknowledged: first(),
            origin: first(),
            stale: 0,
        }
    }

    /// A write begins: its version.
    pub(crate) fn begin(&mut self, block: u32) -> u32 {
        self.begun[block as usize] += 1;
        self.begun[block as usize]
    }

    /// The last write that has begun.
    pub(crate) fn begun(&self, block: u32) -> u32 {
        self.begun[block as usize]
    }

    /// A write is acknowledged.
    pub(crate) fn acknowledge(&mut self, block: u32, version: u32) {
        raise(&mut self.acknowledged[block as usize], version);
    }

    /// What a read that begins now has to get, at least.
    pub(crate) fn floor(&self, block: u32) -> u32 {
        self.acknowledged[block as usize]
    }

    /// The origin is written.
    pub(crate) fn write_origin(&mut self, block: u32, version: u32) {
        raise(&mut self.origin[block as usize], version);
    }

    /// What the origin has.
    pub(crate) fn origin(&self, block: u32) -> u32 {
        self.origin[block as usize]
    }

    /// A read is answered.
    pub(crate) fn check(&mut self, floor: u32, version: u32) {
        self.stale += u64::from(version < floor);
    }

    /// Blocks that were answered with stale bytes.
    pub(crate) fn stale(&self) -> u64 {
        self.stale
    }
}

fn raise(to: &mut u32, version: u32) {
    *to = version.max(*to);
}

/// Bytes that say which version a block is: what a host sends of it.
pub(crate) fn page(pool: &BufPool, versions: &[u32]) -> Slice {
    let mut bytes = vec![0; versions.len() * PAGE_BYTES];
    for (page, version) in bytes.chunks_mut(PAGE_BYTES).zip(versions) {
        page[..4].copy_from_slice(&version.to_le_bytes());
    }
    pool.copy_of(&bytes)
}

/// The version that the bytes of a block say.
pub(crate) fn version_of(page: &[u8]) -> u32 {
    let mut bytes = [0; 4];
    bytes.copy_from_slice(&page[..4]);
    u32::from_le_bytes(bytes)
}
