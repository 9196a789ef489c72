//! The papers' memory: one buffer for all VMs under a replacement policy, which does not tell a block that was fetched
//! ahead from one that was read.

use super::ram::{Ahead, OfVm, Ram};
use policy::replacement::{Capacity, Hashed, Replacement, Setup, Spec};
use prefetch::Key;
use units::Map;

/// The blocks in memory.
pub(super) struct Buffer {
    policy: Box<dyn Replacement<Key> + Send>,
    blocks: u64,
    /// Those that were fetched and not yet read.
    ahead: Map<Key, Ahead>,
    evicted: Vec<Key>,
}

impl Buffer {
    pub(super) fn new(policy: &Spec, capacity: Capacity) -> Self {
        Self {
            policy: policy.build(Setup::new(capacity, Hashed::default())),
            blocks: u64::from(capacity.get()),
            ahead: Map::default(),
            evicted: Vec::new(),
        }
    }

    fn count_evicted(&mut self, wasted: &mut Vec<Ahead>) {
        let ahead = &mut self.ahead;
        wasted.extend(self.evicted.drain(..).filter_map(|key| ahead.remove(&key)));
    }
}

impl Ram for Buffer {
    fn of_vm(&self) -> OfVm {
        OfVm {
            seen_by_miners: self.blocks,
            at_a_price: self.blocks,
        }
    }

    fn contains(&self, key: Key) -> bool {
        self.policy.contains(key)
    }

    fn read(&mut self, _: u32, key: Key, wasted: &mut Vec<Ahead>) -> (bool, Option<Ahead>) {
        let hit = self.policy.access(key, &mut self.evicted);
        let first_use = self.ahead.remove(&key);
        self.count_evicted(wasted);
        (hit, first_use)
    }

    fn fetch(&mut self, key: Key, ahead: Ahead, wasted: &mut Vec<Ahead>) {
        let hit = self.policy.access(key, &mut self.evicted);
        assert!(!hit, "only what is lacking is fetched");
        self.ahead.insert(key, ahead);
        self.count_evicted(wasted);
    }

    fn change(&mut self, key: Key, wasted: &mut Vec<Ahead>) {
        self.policy.remove(key);
        wasted.extend(self.ahead.remove(&key));
    }

    fn outstanding(&self) -> u64 {
        self.ahead.len() as u64
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
        assert_eq!(buffer.read(0, key(1), &mut wasted), (true, Some(ahead)));
        assert_eq!(buffer.read(0, key(1), &mut wasted), (true, None));
        assert_eq!(buffer.read(0, key(3), &mut wasted), (false, None));
        assert_eq!(wasted, [], "what left was used");
        assert_eq!(buffer.read(0, key(4), &mut wasted), (false, None));
        assert_eq!(wasted, [ahead]);
        buffer.fetch(key(5), ahead, &mut wasted);
        assert_eq!(buffer.outstanding(), 1);
        buffer.change(key(5), &mut wasted);
        assert_eq!((buffer.outstanding(), wasted.len()), (0, 2));
    }
}
