//! Policies with one queue.

use super::{Model, take};
use units::Prng;

pub(crate) struct Fifo {
    pub(crate) queue: Vec<u32>,
    pub(crate) capacity: usize,
}

impl Model for Fifo {
    fn access(&mut self, key: u32, evicted: &mut Vec<u32>) -> bool {
        if self.queue.contains(&key) {
            return true;
        }
        if self.queue.len() == self.capacity {
            evicted.push(self.queue.remove(0));
        }
        self.queue.push(key);
        false
    }

    fn remove(&mut self, key: u32) -> bool {
        take(&mut self.queue, key)
    }
}

pub(crate) struct Lru {
    pub(crate) queue: Vec<u32>,
    pub(crate) capacity: usize,
}

impl Model for Lru {
    fn access(&mut self, key: u32, evicted: &mut Vec<u32>) -> bool {
        let hit = take(&mut self.queue, key);
        if self.queue.len() == self.capacity {
            evicted.push(self.queue.remove(0));
        }
        self.queue.push(key);
        hit
    }

    fn remove(&mut self, key: u32) -> bool {
        take(&mut self.queue, key)
    }
}

/// The dice are the product's; what is drawn is a place, and a removed block's place is taken by the last.
pub(crate) struct Random {
    pub(crate) places: Vec<u32>,
    pub(crate) dice: Prng,
    pub(crate) capacity: usize,
}

impl Model for Random {
    fn access(&mut self, key: u32, evicted: &mut Vec<u32>) -> bool {
        if self.places.contains(&key) {
            return true;
        }
        if self.places.len() < self.capacity {
            self.places.push(key);
        } else {
            let drawn = usize::try_from(self.dice.below(self.capacity as u64)).unwrap();
            evicted.push(self.places[drawn]);
            self.places[drawn] = key;
        }
        false
    }

    fn remove(&mut self, key: u32) -> bool {
        let at = self.places.iter().position(|other| *other == key);
        at.map(|at| self.places.swap_remove(at)).is_some()
    }
}

/// Oldest first, each with its counter.
pub(crate) struct Clock {
    pub(crate) ring: Vec<(u32, u32)>,
    pub(crate) counter_max: u32,
    pub(crate) capacity: usize,
}

impl Model for Clock {
    fn access(&mut self, key: u32, evicted: &mut Vec<u32>) -> bool {
        if let Some((_, counter)) = self.ring.iter_mut().find(|(other, _)| *other == key) {
            *counter = self.counter_max.min(*counter + 1);
            return true;
        }
        while self.ring.len() == self.capacity {
            match self.ring.remove(0) {
                (victim, 0) => evicted.push(victim),
                (other, counter) => self.ring.push((other, counter - 1)),
            }
        }
        self.ring.push((key, 0));
        false
    }

    fn remove(&mut self, key: u32) -> bool {
        let before = self.ring.len();
        self.ring.retain(|(other, _)| *other != key);
        self.ring.len() < before
    }
}

/// Oldest first, each with its mark; the hand is a key.
pub(crate) struct Sieve {
    pub(crate) queue: Vec<(u32, bool)>,
    pub(crate) hand: Option<u32>,
    pub(crate) capacity: usize,
}

impl Sieve {
    fn place_of(&self, key: u32) -> Option<usize> {
        self.queue.iter().position(|(other, _)| *other == key)
    }
}

impl Model for Sieve {
    fn access(&mut self, key: u32, evicted: &mut Vec<u32>) -> bool {
        if let Some(at) = self.place_of(key) {
            self.queue[at].1 = true;
            return true;
        }
        if self.queue.len() == self.capacity {
            let mut at = self.hand.and_then(|hand| self.place_of(hand)).unwrap_or(0);
            while self.queue[at].1 {
                self.queue[at].1 = false;
                at = (at + 1) % self.queue.len();
            }
            self.hand = self.queue.get(at + 1).map(|(key, _)| *key);
            evicted.push(self.queue.remove(at).0);
        }
        self.queue.push((key, false));
        false
    }

    fn remove(&mut self, key: u32) -> bool {
        let Some(at) = self.place_of(key) else {
            return false;
        };
        if self.hand == Some(key) {
            self.hand = self.queue.get(at + 1).map(|(key, _)| *key);
        }
        self.queue.remove(at);
        true
    }
}

/// Each block with its uses and the time of the last.
pub(crate) struct Lfu {
    pub(crate) blocks: Vec<(u32, u32, u32)>,
    pub(crate) now: u32,
    pub(crate) capacity: usize,
}

impl Model for Lfu {
    fn access(&mut self, key: u32, evicted: &mut Vec<u32>) -> bool {
        self.now += 1;
        if let Some((_, uses, last)) = self.blocks.iter_mut().find(|(other, ..)| *other == key) {
            *uses += 1;
            *last = self.now;
            return true;
        }
        if self.blocks.len() == self.capacity {
            let (victim, ..) = *self
                .blocks
                .iter()
                .min_by_key(|(_, uses, last)| (*uses, *last))
                .unwrap();
            self.remove(victim);
            evicted.push(victim);
        }
        self.blocks.push((key, 1, self.now));
        false
    }

    fn remove(&mut self, key: u32) -> bool {
        let before = self.blocks.len();
        self.blocks.retain(|(other, ..)| *other != key);
        self.blocks.len() < before
    }
}
