//! Everything is admitted: the yardstick for hits, and the most wear.

use units::Bytes;

use super::sequential::CUTOFF;
use super::{Access, Admission, Configured, Fate, Share, Staged, Verdict};
use crate::replacement::{About, Key, Settings};

/// What is to be known of it.
pub const ABOUT: About = About {
    name: "always",
    other_names: &["none"],
    paper: "no admission policy: every miss is written to flash",
    queues: &[],
    parameters: &[CUTOFF],
    knows_future: false,
};

/// It has no parameters of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Config;

impl Settings for Config {}
impl Configured for Config {}

/// Everything is admitted.
#[derive(Debug)]
pub struct Always;

impl Always {
    /// It has no state.
    pub const fn new(_config: &Config, _share: Share) -> Self {
        Self
    }
}

impl<K: Key> Admission<K> for Always {
    fn missed(&mut self, _key: K, _access: Access, _left: &mut Vec<(K, Fate)>) -> Verdict {
        Verdict::Admit
    }

    fn staged_hit(&mut self, _key: K, _access: Access, _left: &mut Vec<(K, Fate)>) -> Staged {
        Staged::Drop
    }

    fn hit(&mut self, _key: K, _access: Access) {}

    fn evicted(&mut self, _key: K) {}

    fn withheld(&mut self, _key: K) {}

    fn remove(&mut self, _key: K) -> bool {
        false
    }

    fn resize(&mut self, _share: Share, _left: &mut Vec<(K, Fate)>) {}

    fn memory(&self) -> Bytes {
        Bytes::ZERO
    }
}
