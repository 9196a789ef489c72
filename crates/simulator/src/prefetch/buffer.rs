//! A buffer of blocks under a replacement policy, some of them fetched ahead and not yet read.

use policy::replacement::{Capacity, Hashed, Replacement, Setup, Spec};
use prefetch::{Key, Label};
use units::Map;

/// Whose a block is that was fetched ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ahead {
    pub(super) vm: u32,
    /// Without one nobody counts what becomes of it but the tally.
    pub(super) label: Option<Label>,
}

/// The blocks in memory.
pub(super) struct Buffer {
    policy: Box<dyn Replacement<Key> + Send>,
    /// Those that were fetched and not yet read.
    ahead: Map<Key, Ahead>,
    evicted: Vec<Key>,
}

impl Buffer {
    pub(super) fn new(policy: &Spec, capacity: Capacity) -> Self {
        Self {
            policy: policy.build(Setup::new(capacity, Hashed::default())),
            ahead: Map::default(),
            evicted: Vec::new(),
        }
    }

    pub(super) fn contains(&self, key: Key) -> bool {
        self.policy.contains(key)
    }

    /// A guest reads the block, which is in the buffer afterwards: whether it was, and whose guess it was if
    /// this is its first use. What left unused is appended to `wasted`.
    pub(super) fn read(&mut self, key: Key, wasted: &mut Vec<Ahead>) -> (bool, Option<Ahead>) {
        let hit = self.policy.access(key, &mut self.evicted);
        let first_use = self.ahead.remove(&key);
        self.count_evicted(wasted);
        (hit, first_use)
    }

    /// A block that it lacks is fetched ahead.
    pub(super) fn fetch(&mut self, key: Key, ahead: Ahead, wasted: &mut Vec<Ahead>) {
        let hit = self.policy.access(key, &mut self.evicted);
        assert!(!hit, "only what is lacking is fetched");
        self.ahead.insert(key, ahead);
        self.count_evicted(wasted);
    }

    /// The block changes at the origin: whose guess leaves unused, if it was one.
    pub(super) fn remove(&mut self, key: Key) -> Option<Ahead> {
        self.policy.remove(key);
        self.ahead.remove(&key)
    }

    /// Fetched and not yet read.
    pub(super) fn outstanding(&self) -> u64 {
        self.ahead.len() as u64
    }

    fn count_evicted(&mut self, wasted: &mut Vec<Ahead>) {
        let ahead = &mut self.ahead;
        wasted.extend(self.evicted.drain(..).filter_map(|key| ahead.remove(&key)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::BlockIndex;

    #[test]
    fn a_block_is_used_once_or_wasted_once() {
        let mut buffer = Buffer::new(&"fifo".parse().unwrap(), Capacity::new(2).unwrap());
        let key = |block| Key::new(0, BlockIndex::new(block));
        let ahead = Ahead { vm: 0, label: None };
        let mut wasted = Vec::new();
        buffer.fetch(key(1), ahead, &mut wasted);
        buffer.fetch(key(2), ahead, &mut wasted);
        assert_eq!(buffer.read(key(1), &mut wasted), (true, Some(ahead)));
        assert_eq!(buffer.read(key(1), &mut wasted), (true, None));
        assert_eq!(buffer.read(key(3), &mut wasted), (false, None));
        assert_eq!(wasted, [], "what left was used");
        assert_eq!(buffer.read(key(4), &mut wasted), (false, None));
        assert_eq!(wasted, [ahead]);
        buffer.fetch(key(5), ahead, &mut wasted);
        assert_eq!(buffer.outstanding(), 1);
        assert_eq!(buffer.remove(key(5)), Some(ahead));
        assert_eq!((buffer.outstanding(), wasted.len()), (0, 1));
    }
}
