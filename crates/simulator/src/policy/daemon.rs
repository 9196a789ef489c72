//! What `hearth serve` does by default: its log, its tenancy, its admission, with the daemon's own settings.

use super::{Policy, PolicyError};
use crate::cache::divided::{Divided, Tenants};
use crate::cache::segments::segment_for;
use crate::cache::{CacheModel, Maker};
use crate::write_policy::{WriteMiss, WritePolicy};
use flash_format::{Geometry, SEGMENT_BYTES_DEFAULT};
use policy::reclaim::Kind;
use policy::replacement::About;
use tenancy::{Capacity, Settings, daemon};
use units::{BLOCK_BYTES, Bytes};

pub(super) const ABOUT: About = About {
    name: "daemon",
    other_names: &[],
    paper: "what hearth serve does by default: segment-twin-clock behind reuse-age, divided among VMs by utility",
    queues: &[
        (
            "new",
            "segments of blocks that came in, by the time of opening",
        ),
        ("survivors", "segments of blocks that reclaim kept"),
    ],
    parameters: &[],
    knows_future: false,
};

/// The daemon's segments, or smaller ones in a cache that could not have eight of those: the daemon
/// refuses such a cache.
fn segment(blocks: u32) -> Bytes {
    match Geometry::of_slots(blocks, SEGMENT_BYTES_DEFAULT) {
        Ok(_) => SEGMENT_BYTES_DEFAULT,
        Err(_) => segment_for(blocks),
    }
}

/// What holds for all VMs of a cache of that many blocks.
fn settings(blocks: u32, segment: Bytes) -> Result<Settings, PolicyError> {
    let geometry = Geometry::of_slots(blocks, segment)?;
    Ok(daemon::settings(Capacity::of(&geometry).bytes()))
}

pub(super) fn build(maker: &Maker) -> Result<Box<dyn CacheModel>, PolicyError> {
    let segment = segment(maker.blocks);
    let tenants = Tenants {
        settings: settings(maker.blocks, segment)?,
        ..Tenants::default()
    };
    let divided = Divided::new(Kind::default(), Some(segment), maker, &tenants)?;
    Ok(Box::new(divided))
}

impl Policy {
    /// What writes do to blocks that are not in the cache, unless the caller says so. A dirty log takes all.
    pub(crate) fn write_miss(&self, write_policy: WritePolicy) -> WriteMiss {
        let is_logged = write_policy == WritePolicy::Back;
        match self {
            Self::Daemon if !daemon::ALLOCATE_WRITES && !is_logged => WriteMiss::Bypass,
            _ => WriteMiss::Allocate,
        }
    }
}

/// The admission and the allocation of the daemon, as it writes them.
pub(super) fn words() -> (String, String) {
    let settings = daemon::settings(Bytes::new(BLOCK_BYTES));
    (
        settings.admission.to_string(),
        settings.allocation.to_string(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_that_the_daemon_would_take_has_its_segments() {
        let blocks = |mib: u32| mib * 256;
        assert_eq!(segment(blocks(32)), SEGMENT_BYTES_DEFAULT);
        assert_eq!(segment(blocks(31)), segment_for(blocks(31)));
        assert!(segment_for(blocks(31)) < SEGMENT_BYTES_DEFAULT);
    }
}
