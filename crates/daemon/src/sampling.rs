//! A spatial sample: of all blocks one in so many, and of those every access.
//!
//! Whether a block belongs is decided by a hash of disk and block, so all accesses to a block are kept or
//! none is, and how often and how soon blocks come again stays as it was (as in SHARDS: C. Waldspurger et
//! al., "Efficient MRC construction with SHARDS", FAST 2015). A cache for the sample is smaller by the same
//! factor. What has no block of its own is kept whole: flushes, and discards, which touch only blocks
//! that are there.

use shard::{TapEvent, TapVerb};
use units::{BLOCK_BYTES, Bytes, DiskId, Offset};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Which blocks belong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sampling {
    one_in: u32,
    /// Hashes up to this belong.
    hash_max: u64,
}

impl Sampling {
    /// One block in so many; 1 for all.
    ///
    /// # Panics
    /// For zero.
    pub(super) fn new(one_in: u32) -> Self {
        assert!(one_in > 0, "a sample has a share");
        Self {
            one_in,
            hash_max: u64::MAX / u64::from(one_in),
        }
    }

    fn holds(self, disk: DiskId, block: u64) -> bool {
        let seed = disk.to_u128();
        let fold = u64::try_from(seed >> 64 ^ seed & u128::from(u64::MAX)).expect("a half");
        xxh3_64_with_seed(&block.to_le_bytes(), fold) <= self.hash_max
    }

    /// Calls `keep` with each part of a request that belongs, in order.
    pub(super) fn parts(self, disk: DiskId, event: &TapEvent, mut keep: impl FnMut(Offset, Bytes)) {
        let is_whole = self.one_in == 1 || matches!(event.verb, TapVerb::Flush | TapVerb::Discard);
        if is_whole || event.length.is_zero() {
            return keep(event.offset, event.length);
        }
        let start = event.offset.get();
        let end = start.saturating_add(event.length.get());
        let mut run: Option<u64> = None;
        let mut at = start;
        while at < end {
            let block = at / BLOCK_BYTES;
            match (self.holds(disk, block), run) {
                (true, None) => run = Some(at),
                (false, Some(from)) => {
                    keep(Offset::new(from), Bytes::new(at - from));
                    run = None;
                }
                _ => {}
            }
            at = (block + 1).saturating_mul(BLOCK_BYTES);
        }
        if let Some(from) = run {
            keep(Offset::new(from), Bytes::new(end - from));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Instant;

    fn event(verb: TapVerb, offset: u64, length: u64) -> TapEvent {
        TapEvent {
            time: Instant::ZERO,
            offset: Offset::new(offset),
            length: Bytes::new(length),
            disk: 0,
            vm: units::TenantSlot::new(0),
            verb,
        }
    }

    fn parts(one_in: u32, event: &TapEvent) -> Vec<(u64, u64)> {
        let mut parts = Vec::new();
        let disk = DiskId::from_u128(77);
        Sampling::new(one_in).parts(disk, event, |offset, length| {
            parts.push((offset.get(), length.get()));
        });
        parts
    }

    #[test]
    fn a_block_belongs_whatever_the_request_around_it() {
        let size = 4096_u64 * 20_000;
        let whole = parts(10, &event(TapVerb::Read, 0, size));
        let kept: u64 = whole.iter().map(|(_, length)| length / 4096).sum();
        assert!(kept.abs_diff(2000) < 150, "{kept}");
        let singly: Vec<u64> = (0..20_000)
            .map(|block| block * 4096)
            .filter(|&at| !parts(10, &event(TapVerb::Write, at + 512, 512)).is_empty())
            .collect();
        let covered = |at: u64| whole.iter().any(|(o, l)| (*o..o + l).contains(&at));
        assert!(singly.iter().all(|&at| covered(at)));
        assert_eq!(singly.len() as u64, kept);
    }

    #[test]
    fn parts_do_not_reach_beyond_the_request() {
        for at in 0..200 {
            let (offset, length) = (at * 4096 + 512, 8192);
            for (from, size) in parts(2, &event(TapVerb::Read, offset, length)) {
                assert!(from >= offset && from + size <= offset + length);
            }
        }
    }

    #[test]
    fn flushes_and_discards_are_kept_whole() {
        assert_eq!(parts(1000, &event(TapVerb::Flush, 0, 0)), [(0, 0)]);
        let discard = event(TapVerb::Discard, 4096, 1 << 40);
        assert_eq!(parts(1000, &discard), [(4096, 1 << 40)]);
        assert_eq!(parts(1, &event(TapVerb::Read, 1, 2)), [(1, 2)]);
    }
}
