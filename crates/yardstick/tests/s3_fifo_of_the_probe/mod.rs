//! S3-FIFO as the probe must have had it, slow and plain: small and main queue share one capacity, so that the
//! small one fills the whole cache until it is full for the first time, and only what enters the main one
//! is counted as written to flash. As a rule for RAM in front of flash it is not feasible: the RAM would have
//! to be as large as the flash.

use std::collections::{HashMap, VecDeque};

#[derive(Clone, Copy, PartialEq)]
enum At {
    Small,
    Main,
    Ghosts,
}

struct Model {
    /// Where a block is, its count, and which of its entries in the queues is the valid one.
    blocks: HashMap<u32, (At, u32, u64)>,
    queues: [VecDeque<(u32, u64)>; 3],
    lengths: [usize; 3],
    entries: u64,
    writes: u64,
}

impl Model {
    fn put(&mut self, key: u32, at: At, count: u32) {
        if let Some((before, ..)) = self.blocks.get(&key) {
            self.lengths[*before as usize] -= 1;
        }
        self.entries += 1;
        self.blocks.insert(key, (at, count, self.entries));
        self.queues[at as usize].push_back((key, self.entries));
        self.lengths[at as usize] += 1;
    }

    /// The oldest block of a queue; it is still said to be there.
    fn oldest(&mut self, at: At) -> (u32, u32) {
        loop {
            let (key, entry) = self.queues[at as usize].pop_front().unwrap();
            if let Some((there, count, valid)) = self.blocks.get(&key)
                && *there == at
                && *valid == entry
            {
                return (key, *count);
            }
        }
    }

    fn forget(&mut self, key: u32) {
        let (at, ..) = self.blocks.remove(&key).unwrap();
        self.lengths[at as usize] -= 1;
    }

    fn make_room(&mut self, small_max: usize, ghosts_max: usize) {
        if self.lengths[At::Small as usize] >= small_max || self.lengths[At::Main as usize] == 0 {
            let (key, count) = self.oldest(At::Small);
            if count >= 2 {
                self.put(key, At::Main, 0);
                self.writes += 1;
                return;
            }
            self.put(key, At::Ghosts, 0);
            if self.lengths[At::Ghosts as usize] > ghosts_max {
                let (key, _) = self.oldest(At::Ghosts);
                self.forget(key);
            }
        } else {
            match self.oldest(At::Main) {
                (key, 0) => self.forget(key),
                (key, count) => self.put(key, At::Main, count - 1),
            }
        }
    }
}

/// Hits and writes.
pub(super) fn run(keys: &[u32], blocks: usize) -> (u64, u64) {
    let mut model = Model {
        blocks: HashMap::new(),
        queues: [const { VecDeque::new() }; 3],
        lengths: [0; 3],
        entries: 0,
        writes: 0,
    };
    let mut hits = 0;
    for key in keys {
        let known = model.blocks.get_mut(key);
        let was_ghost = match known {
            Some((At::Ghosts, ..)) => true,
            Some((_, count, _)) => {
                hits += 1;
                *count = (*count + 1).min(3);
                continue;
            }
            None => false,
        };
        if was_ghost {
            model.forget(*key);
        }
        while model.lengths[At::Small as usize] + model.lengths[At::Main as usize] >= blocks {
            model.make_room(blocks / 10, blocks * 9 / 10);
        }
        if was_ghost {
            model.put(*key, At::Main, 0);
            model.writes += 1;
        } else {
            model.put(*key, At::Small, 0);
        }
    }
    (hits, model.writes)
}
