//! The metrics of the scrub of a cache's flash.

use super::encode::Number;
use super::family::{Family, Read, caches};
use api::scrub::ScrubFound;
use api::types::CacheStatus;
use units::BLOCK_BYTES;

const CACHE: &[&str] = &["cache"];

/// Every metric of a scrub.
pub(super) const FAMILIES: &[Family] = &[
    Family {
        name: "cache_scrub_running",
        unit: None,
        help: "1 while a pass of the scrub is under way",
        labels: CACHE,
        read: Read::Gauge(|snapshot, out| {
            let is_on = |cache: &CacheStatus| u64::from(cache.scrub.pass.is_some());
            caches(snapshot, out, None, |cache| Number::Whole(is_on(cache)));
        }),
    },
    Family {
        name: "cache_scrub_blocks",
        unit: None,
        help: "Blocks that the scrub has examined",
        labels: CACHE,
        read: Read::Counter(|snapshot, out| {
            caches(snapshot, out, None, |cache| {
                Number::Whole(cache.scrub.total.blocks)
            });
        }),
    },
    Family {
        name: "cache_scrub",
        unit: Some("bytes"),
        help: "Bytes of blocks that the scrub has examined",
        labels: CACHE,
        read: Read::Counter(|snapshot, out| {
            let bytes = |cache: &CacheStatus| cache.scrub.total.blocks * BLOCK_BYTES;
            caches(snapshot, out, None, |cache| Number::Whole(bytes(cache)));
        }),
    },
    Family {
        name: "cache_scrub_damaged",
        unit: None,
        help: "What the scrub has found damaged, by kind: clean blocks, which are given up; dirty blocks, which no origin has; lists of the blocks of a segment (list)",
        labels: &["cache", "kind"],
        read: Read::Counter(|snapshot, out| {
            for (number, (kind, _)) in ScrubFound::default().kinds().into_iter().enumerate() {
                caches(snapshot, out, Some(("kind", kind)), |cache| {
                    Number::Whole(cache.scrub.total.kinds()[number].1)
                });
            }
        }),
    },
    Family {
        name: "cache_scrub_last_whole_pass_timestamp",
        unit: Some("seconds"),
        help: "When the last pass of the scrub ended that went through the whole flash, since 1970; 0 if none did",
        labels: CACHE,
        read: Read::Gauge(|snapshot, out| {
            caches(snapshot, out, None, |cache| {
                Number::Whole(cache.scrub.last_whole_pass.unwrap_or_default())
            });
        }),
    },
];
