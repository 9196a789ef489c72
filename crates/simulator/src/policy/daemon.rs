//! What `hearth serve` does by default: its log, its tenancy, its admission, with the daemon's own settings.

use super::{Policy, PolicyError};
use crate::cache::divided::{Divided, Tenants};
use crate::cache::segments::segment_for;
use crate::cache::{CacheModel, Maker};
use crate::write_policy::{WriteMiss, WritePolicy};
use flash_format::Geometry;
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

/// What holds for all VMs of a cache of that many blocks.
fn settings(blocks: u32, segment: Bytes) -> Result<Settings, PolicyError> {
    let geometry = Geometry::of_slots(blocks, segment)?;
    Ok(daemon::settings(Capacity::of(&geometry).bytes()))
}

pub(super) fn build(maker: &Maker) -> Result<Box<dyn CacheModel>, PolicyError> {
    let segment = segment_for(maker.blocks);
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
