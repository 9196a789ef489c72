//! What tests do with a policy.

use policy::admission::{Access, Share};
use proptest::prelude::*;
use units::{Bytes, Instant, TenantSlot};

#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// A read or a write: hit, staged hit or miss as the cache's state has it.
    Access {
        key: u64,
        write: bool,
    },
    /// The block leaves flash.
    Evict(u64),
    Remove(u64),
    /// What was admitted last is not written.
    Withhold,
    /// Blocks of flash, and KiB of RAM.
    Resize(u64, u64),
}

pub(crate) fn access(key: u64, write: bool) -> Access {
    Access {
        tenant: TenantSlot::new(0),
        write,
        region: key / 1024,
        run: Bytes::kib(4),
        now: Instant::ZERO,
    }
}

pub(crate) fn share(blocks: u64, kib: u64) -> Share {
    Share::new(blocks, Bytes::kib(kib))
}

/// Few hot keys, more cold ones, scans, now and then something else.
pub(crate) fn steps() -> impl Strategy<Value = Vec<Step>> {
    let key = prop_oneof![4 => 0u64..6, 4 => 0u64..40, 1 => 40u64..200];
    let step = prop_oneof![
        24 => (key.clone(), any::<bool>()).prop_map(|(key, write)| Step::Access { key, write }),
        4 => key.clone().prop_map(Step::Evict),
        1 => key.prop_map(Step::Remove),
        1 => Just(Step::Withhold),
        1 => (0u64..60, 0u64..90).prop_map(|(blocks, kib)| Step::Resize(blocks, kib)),
    ];
    let scan = (0u64..200, 3u64..60).prop_map(|(from, length)| {
        (from..from + length)
            .map(|key| Step::Access { key, write: false })
            .collect::<Vec<_>>()
    });
    let few = prop::collection::vec(step, 1..40);
    prop::collection::vec(prop_oneof![3 => few, 1 => scan], 1..16).prop_map(|parts| parts.concat())
}
