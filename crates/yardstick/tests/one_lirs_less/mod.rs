//! LIRS as libCacheSim 0.3.5 defines it, slow and obvious, written apart from `policy`.
//!
//! The one difference from the paper: when a resident HIR block that is not in S is used, the paper puts
//! it on top of S and at the end of Q, and that is all. libCacheSim also takes its status from the LIR
//! block at the bottom of S when the LIR blocks are as many as they may be, so that one LIR block fewer
//! remains; that one goes to Q, from which the oldest is evicted although nothing came in. The cache is
//! one block short until the next newcomer, which becomes LIR at once.

use std::collections::{BTreeMap, HashMap};

/// A queue by last use: order of entry to block, and back.
#[derive(Default)]
struct Queue {
    blocks: BTreeMap<u64, u32>,
    places: HashMap<u32, u64>,
    entered: u64,
}

impl Queue {
    /// To the newest end, from wherever it is.
    fn enter(&mut self, key: u32) {
        self.leave(key);
        self.entered += 1;
        self.blocks.insert(self.entered, key);
        self.places.insert(key, self.entered);
    }

    fn leave(&mut self, key: u32) -> bool {
        self.places
            .remove(&key)
            .is_some_and(|place| self.blocks.remove(&place).is_some())
    }

    fn oldest(&self) -> Option<u32> {
        self.blocks.first_key_value().map(|(_, key)| *key)
    }

    fn contains(&self, key: u32) -> bool {
        self.places.contains_key(&key)
    }

    fn len(&self) -> u64 {
        self.places.len() as u64
    }
}

#[derive(Default)]
struct Lirs {
    s: Queue,
    q: Queue,
    ghosts: Queue,
    /// Whether a block is LIR, for blocks in S.
    lir: HashMap<u32, bool>,
    lir_count: u64,
    lir_max: u64,
    hir_max: u64,
    capacity: u64,
}

impl Lirs {
    fn new(capacity: u64) -> Self {
        let hir_max = (capacity / 100).max(1);
        Self {
            capacity,
            hir_max,
            lir_max: capacity - hir_max,
            ..Self::default()
        }
    }

    fn access(&mut self, key: u32) -> bool {
        let hit = self.touch(key);
        while self.s.len() > 2 * self.capacity {
            let Some(oldest) = self.ghosts.oldest() else {
                break;
            };
            self.ghosts.leave(oldest);
            self.s.leave(oldest);
        }
        hit
    }

    fn touch(&mut self, key: u32) -> bool {
        let in_q = self.q.contains(key);
        if self.s.contains(key) {
            self.s.enter(key);
            if self.lir[&key] {
                self.prune();
                return true;
            }
            if in_q {
                self.q.leave(key);
            }
            while self.lir_count >= self.lir_max {
                self.demote();
            }
            self.ghosts.leave(key);
            self.become_lir(key);
            return in_q;
        }
        if in_q {
            self.q.enter(key);
            // Here is the difference.
            while self.lir_count >= self.lir_max {
                self.demote();
            }
            self.s.enter(key);
            self.lir.insert(key, false);
            return true;
        }
        self.s.enter(key);
        if self.lir_count < self.lir_max {
            self.become_lir(key);
        } else {
            while self.q.len() >= self.hir_max {
                self.evict();
            }
            self.lir.insert(key, false);
            self.q.enter(key);
        }
        false
    }

    fn become_lir(&mut self, key: u32) {
        self.lir.insert(key, true);
        self.lir_count += 1;
    }

    fn demote(&mut self) {
        let bottom = self.s.oldest().unwrap();
        self.s.leave(bottom);
        self.lir_count -= 1;
        while self.q.len() >= self.hir_max {
            self.evict();
        }
        self.q.enter(bottom);
        self.prune();
    }

    fn evict(&mut self) {
        let oldest = self.q.oldest().unwrap();
        self.q.leave(oldest);
        if self.s.contains(oldest) {
            self.ghosts.enter(oldest);
        }
    }

    fn prune(&mut self) {
        while let Some(bottom) = self.s.oldest() {
            if self.lir[&bottom] || self.s.len() == 1 {
                return;
            }
            self.s.leave(bottom);
            self.ghosts.leave(bottom);
        }
    }
}

/// Misses of it.
pub(crate) fn misses(keys: &[u32], capacity: u64) -> u64 {
    let mut lirs = Lirs::new(capacity);
    keys.iter().filter(|key| !lirs.access(**key)).count() as u64
}
