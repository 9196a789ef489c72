//! How large the segments of a cache are, unless the operator says otherwise.

use crate::geometry::{SEGMENT_BYTES_DEFAULT, SEGMENT_BYTES_MIN};
use crate::page::PAGE_BYTES;
use units::Bytes;

/// What a segment costs beside its blocks, in pages, about: a header, a footer, and with its reclaim another
/// header and a page of the journal.
const OWN_PAGES: u64 = 4;
/// Half segments that a log has free or half full at a time: two free, one of each stream open.
const IDLE_HALVES: u64 = 7;

/// The segment with which a flash of this size wastes least, from [`SEGMENT_BYTES_MIN`] to
/// [`SEGMENT_BYTES_DEFAULT`].
///
/// Of `p` pages each, segments lose `4 / p` of the flash to their own pages and `3.5 * p / pages` to
/// segments that are free or open. The sum is least where both are equal, and of two powers of two the one is taken
/// that is nearer by ratio. So a flash of 1.75 GiB and more has segments of 4 MiB, and one of 64 MiB has 512 KiB.
pub fn segment_bytes_for(capacity: Bytes) -> Bytes {
    let page = PAGE_BYTES as u64;
    let least_squared = capacity.get() / page * OWN_PAGES * 2 / IDLE_HALVES;
    let mut segment = SEGMENT_BYTES_MIN.get();
    let pages_squared = |segment: u64| (segment / page).pow(2);
    while segment < SEGMENT_BYTES_DEFAULT.get() && pages_squared(segment) * 2 < least_squared {
        segment *= 2;
    }
    Bytes::new(segment)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Geometry;

    #[test]
    fn small_flash_has_small_segments() {
        let of = |capacity| segment_bytes_for(capacity);
        assert_eq!(of(Bytes::new(0)), SEGMENT_BYTES_MIN);
        assert_eq!(of(Bytes::mib(1)), SEGMENT_BYTES_MIN);
        assert_eq!(of(Bytes::mib(16)), Bytes::kib(256));
        assert_eq!(of(Bytes::mib(64)), Bytes::kib(512));
        assert_eq!(of(Bytes::mib(255)), Bytes::mib(1));
        assert_eq!(of(Bytes::mib(1_792)), Bytes::mib(2));
        assert_eq!(of(Bytes::mib(1_793)), SEGMENT_BYTES_DEFAULT);
        assert_eq!(of(Bytes::gib(16 << 10)), SEGMENT_BYTES_DEFAULT);
    }

    /// What can be a cache at all can be one with these segments.
    #[test]
    fn whatever_has_room_for_the_least_segments_has_room_for_these() {
        for mib in 1..2_100 {
            let capacity = Bytes::mib(mib);
            let least = Geometry::new(capacity, SEGMENT_BYTES_MIN);
            let chosen = Geometry::new(capacity, segment_bytes_for(capacity));
            assert_eq!(least.is_ok(), chosen.is_ok(), "{capacity}");
        }
    }
}
