//! Policies with several queues and fixed borders between them.

use super::{Model, take};
use std::collections::BTreeMap;

/// Segments from the lowest up.
pub(crate) struct Slru {
    pub(crate) segments: Vec<Vec<u32>>,
    pub(crate) sizes: Vec<usize>,
    pub(crate) capacity: usize,
}

impl Slru {
    fn blocks(&self) -> usize {
        self.segments.iter().map(Vec::len).sum()
    }

    /// What is too much above the lowest segment falls.
    fn settle(&mut self) {
        for segment in (1..self.segments.len()).rev() {
            if self.segments[segment].len() > self.sizes[segment] {
                let falls = self.segments[segment].remove(0);
                self.segments[segment - 1].push(falls);
            }
        }
    }
}

impl Model for Slru {
    fn access(&mut self, key: u32, evicted: &mut Vec<u32>) -> bool {
        let top = self.segments.len() - 1;
        if let Some(at) = self
            .segments
            .iter()
            .position(|segment| segment.contains(&key))
        {
            take(&mut self.segments[at], key);
            self.segments[top.min(at + 1)].push(key);
            self.settle();
            return true;
        }
        if self.blocks() == self.capacity {
            let lowest = self
                .segments
                .iter_mut()
                .find(|segment| !segment.is_empty())
                .unwrap();
            evicted.push(lowest.remove(0));
        }
        let room = (0..=top).find(|at| self.segments[*at].len() < self.sizes[*at]);
        self.segments[room.unwrap_or(0)].push(key);
        self.settle();
        false
    }

    fn remove(&mut self, key: u32) -> bool {
        self.segments.iter_mut().any(|segment| take(segment, key))
    }
}

pub(crate) struct TwoQ {
    pub(crate) a1in: Vec<u32>,
    pub(crate) a1out: Vec<u32>,
    pub(crate) am: Vec<u32>,
    pub(crate) kin: usize,
    pub(crate) kout: usize,
    pub(crate) capacity: usize,
}

impl TwoQ {
    /// The paper's procedure of that name.
    fn reclaim_for(&mut self, evicted: &mut Vec<u32>) {
        if self.a1in.len() + self.am.len() < self.capacity {
            return;
        }
        if self.a1in.len() > self.kin || self.am.is_empty() {
            let paged_out = self.a1in.remove(0);
            evicted.push(paged_out);
            self.a1out.push(paged_out);
            if self.a1out.len() > self.kout {
                self.a1out.remove(0);
            }
        } else {
            evicted.push(self.am.remove(0));
        }
    }
}

impl Model for TwoQ {
    fn access(&mut self, key: u32, evicted: &mut Vec<u32>) -> bool {
        if take(&mut self.am, key) {
            self.am.push(key);
            return true;
        }
        if self.a1in.contains(&key) {
            return true;
        }
        let remembered = take(&mut self.a1out, key);
        self.reclaim_for(evicted);
        if remembered {
            self.am.push(key);
        } else {
            self.a1in.push(key);
        }
        false
    }

    fn remove(&mut self, key: u32) -> bool {
        take(&mut self.a1out, key);
        take(&mut self.a1in, key) || take(&mut self.am, key)
    }
}

pub(crate) struct S3Fifo {
    pub(crate) small: Vec<u32>,
    pub(crate) main: Vec<u32>,
    pub(crate) ghosts: Vec<u32>,
    pub(crate) counts: BTreeMap<u32, u32>,
    pub(crate) small_max: usize,
    pub(crate) ghosts_max: usize,
    pub(crate) threshold: u32,
    pub(crate) capacity: usize,
    pub(crate) was_full: bool,
}

impl S3Fifo {
    fn evict(&mut self, evicted: &mut Vec<u32>) {
        self.was_full = true;
        let main_is_long = self.main.len() > self.capacity - self.small_max;
        while !main_is_long && !self.small.is_empty() {
            let tail = self.small.remove(0);
            let uses = self.counts.remove(&tail).unwrap_or(0);
            if uses < self.threshold {
                evicted.push(tail);
                self.ghosts.push(tail);
                if self.ghosts.len() > self.ghosts_max {
                    self.ghosts.remove(0);
                }
                return;
            }
            self.main.push(tail);
        }
        loop {
            let tail = self.main.remove(0);
            match self.counts.remove(&tail) {
                None | Some(0) => return evicted.push(tail),
                Some(uses) => {
                    self.counts.insert(tail, uses - 1);
                    self.main.push(tail);
                }
            }
        }
    }
}

impl Model for S3Fifo {
    fn access(&mut self, key: u32, evicted: &mut Vec<u32>) -> bool {
        if self.small.contains(&key) || self.main.contains(&key) {
            let uses = self.counts.entry(key).or_insert(0);
            *uses = 3.min(*uses + 1);
            return true;
        }
        let is_ghost = take(&mut self.ghosts, key);
        if self.small.len() + self.main.len() == self.capacity {
            self.evict(evicted);
        }
        if is_ghost || (!self.was_full && self.small.len() >= self.small_max) {
            self.main.push(key);
        } else {
            self.small.push(key);
        }
        false
    }

    fn remove(&mut self, key: u32) -> bool {
        self.counts.remove(&key);
        take(&mut self.ghosts, key);
        take(&mut self.small, key) || take(&mut self.main, key)
    }
}

pub(crate) struct Clock2QPlus {
    /// Each with the number of its arrival and its mark.
    pub(crate) small: Vec<(u32, u32, bool)>,
    pub(crate) main: Vec<(u32, bool)>,
    pub(crate) ghosts: Vec<u32>,
    pub(crate) arrivals: u32,
    pub(crate) window: u32,
    pub(crate) small_max: usize,
    pub(crate) ghosts_max: usize,
    pub(crate) capacity: usize,
    pub(crate) was_full: bool,
}

impl Clock2QPlus {
    fn evict(&mut self, evicted: &mut Vec<u32>) {
        self.was_full = true;
        let main_is_long = self.main.len() > self.capacity - self.small_max;
        while !main_is_long && !self.small.is_empty() {
            let (tail, _, used) = self.small.remove(0);
            if !used {
                evicted.push(tail);
                self.ghosts.push(tail);
                if self.ghosts.len() > self.ghosts_max {
                    self.ghosts.remove(0);
                }
                return;
            }
            self.main.push((tail, false));
        }
        loop {
            match self.main.remove(0) {
                (tail, false) => return evicted.push(tail),
                (tail, true) => self.main.push((tail, false)),
            }
        }
    }
}

impl Model for Clock2QPlus {
    fn access(&mut self, key: u32, evicted: &mut Vec<u32>) -> bool {
        if let Some((_, arrived, used)) = self.small.iter_mut().find(|(other, ..)| *other == key) {
            *used |= self.arrivals - *arrived >= self.window;
            return true;
        }
        if let Some((_, used)) = self.main.iter_mut().find(|(other, _)| *other == key) {
            *used = true;
            return true;
        }
        let is_ghost = take(&mut self.ghosts, key);
        if self.small.len() + self.main.len() == self.capacity {
            self.evict(evicted);
        }
        if is_ghost || (!self.was_full && self.small.len() >= self.small_max) {
            self.main.push((key, false));
        } else {
            self.arrivals += 1;
            self.small.push((key, self.arrivals, false));
        }
        false
    }

    fn remove(&mut self, key: u32) -> bool {
        take(&mut self.ghosts, key);
        let before = self.small.len() + self.main.len();
        self.small.retain(|(other, ..)| *other != key);
        self.main.retain(|(other, _)| *other != key);
        self.small.len() + self.main.len() < before
    }
}
