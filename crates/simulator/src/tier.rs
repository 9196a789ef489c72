//! Memory in front of a simulated cache: how much, and which blocks are worth it.

use crate::size::CacheSize;
use frames::{Frames, Settings};
use policy::memory::Spec;
use policy::replacement::Key;

/// Memory in front of a cache.
#[derive(Clone, Debug, PartialEq)]
pub struct Tier {
    /// How many blocks it has room for.
    pub size: CacheSize,
    /// Which blocks that are read are worth a frame.
    pub policy: Spec,
}

/// The daemon's pool with frames for so many hot blocks; its tables are beside them.
pub(crate) fn pool<K: Key, B>(blocks: u64, policy: &Spec) -> Frames<K, B> {
    let hot = blocks + u64::from(Frames::<K, B>::HOT_FIXED);
    Frames::new(&Settings {
        size: Frames::<K, B>::size_with_hot(0, hot),
        staged: 0,
        hot: policy.clone(),
    })
}
