//! Policies that move the borders between their queues.

use super::{Model, take};
use std::collections::BTreeMap;
use std::hash::BuildHasher;

/// The paper's figure 4, with its names. Where a discard left room, nothing is replaced.
pub(crate) struct Arc {
    pub(crate) t1: Vec<u32>,
    pub(crate) t2: Vec<u32>,
    pub(crate) b1: Vec<u32>,
    pub(crate) b2: Vec<u32>,
    pub(crate) p: f64,
    pub(crate) c: usize,
}

fn real(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap())
}

impl Arc {
    fn replace(&mut self, x_in_b2: bool, evicted: &mut Vec<u32>) {
        if self.t1.len() + self.t2.len() < self.c {
            return;
        }
        let t1 = real(self.t1.len());
        let demote_t1 = !self.t1.is_empty() && ((x_in_b2 && t1 >= self.p) || t1 > self.p);
        if demote_t1 || self.t2.is_empty() {
            self.b1.push(self.t1.remove(0));
            evicted.extend(self.b1.last());
        } else {
            self.b2.push(self.t2.remove(0));
            evicted.extend(self.b2.last());
        }
    }
}

impl Model for Arc {
    fn access(&mut self, x: u32, evicted: &mut Vec<u32>) -> bool {
        if take(&mut self.t1, x) || take(&mut self.t2, x) {
            self.t2.push(x);
            return true;
        }
        let (b1, b2) = (real(self.b1.len()), real(self.b2.len()));
        if take(&mut self.b1, x) {
            self.p = real(self.c).min(self.p + if b1 >= b2 { 1.0 } else { b2 / b1 });
            self.replace(false, evicted);
            self.t2.push(x);
        } else if take(&mut self.b2, x) {
            self.p = 0f64.max(self.p - if b2 >= b1 { 1.0 } else { b1 / b2 });
            self.replace(true, evicted);
            self.t2.push(x);
        } else {
            if self.t1.len() + self.b1.len() == self.c {
                if self.t1.len() < self.c {
                    self.b1.remove(0);
                    self.replace(false, evicted);
                } else {
                    evicted.push(self.t1.remove(0));
                }
            } else {
                let known = self.t1.len() + self.t2.len() + self.b1.len() + self.b2.len();
                if known == 2 * self.c {
                    self.b2.remove(0);
                }
                self.replace(false, evicted);
            }
            self.t1.push(x);
        }
        false
    }

    fn remove(&mut self, x: u32) -> bool {
        take(&mut self.b1, x);
        take(&mut self.b2, x);
        take(&mut self.t1, x) || take(&mut self.t2, x)
    }
}

/// S and Q oldest first. A ghost is in S, but neither LIR nor in Q.
pub(crate) struct Lirs {
    pub(crate) s: Vec<u32>,
    pub(crate) q: Vec<u32>,
    pub(crate) lir: Vec<u32>,
    /// Ghosts in the order of their eviction.
    pub(crate) ghosts: Vec<u32>,
    pub(crate) lir_max: usize,
    pub(crate) s_max: usize,
    pub(crate) capacity: usize,
}

impl Lirs {
    /// S has a LIR block at its bottom, or nothing at all.
    fn prune(&mut self) {
        while self
            .s
            .first()
            .is_some_and(|bottom| !self.lir.contains(bottom))
        {
            let bottom = self.s.remove(0);
            take(&mut self.ghosts, bottom);
        }
    }

    fn make_lir(&mut self, x: u32) {
        self.lir.push(x);
        if self.lir.len() > self.lir_max {
            let bottom = self.s.remove(0);
            take(&mut self.lir, bottom);
            self.q.push(bottom);
        }
    }

    fn make_room(&mut self, evicted: &mut Vec<u32>) {
        if self.lir.len() + self.q.len() == self.capacity {
            let front = self.q.remove(0);
            evicted.push(front);
            if self.s.contains(&front) {
                self.ghosts.push(front);
            }
        }
    }
}

impl Model for Lirs {
    fn access(&mut self, x: u32, evicted: &mut Vec<u32>) -> bool {
        let is_lir = self.lir.contains(&x);
        let was_in_s = take(&mut self.s, x);
        let was_in_q = take(&mut self.q, x);
        if !is_lir && !was_in_q {
            take(&mut self.ghosts, x);
            self.make_room(evicted);
        }
        self.s.push(x);
        if !is_lir {
            if was_in_s || self.lir.len() < self.lir_max {
                self.make_lir(x);
            } else {
                self.q.push(x);
            }
        }
        self.prune();
        while self.s.len() > self.s_max && !self.ghosts.is_empty() {
            let oldest = self.ghosts.remove(0);
            take(&mut self.s, oldest);
        }
        is_lir || was_in_q
    }

    fn remove(&mut self, x: u32) -> bool {
        take(&mut self.s, x);
        take(&mut self.ghosts, x);
        let was_in = take(&mut self.lir, x) | take(&mut self.q, x);
        self.prune();
        was_in
    }
}

/// The sketch's counters by row, line and number in the line, each a number of its own.
#[derive(Default)]
pub(crate) struct Counters {
    by_place: BTreeMap<(u64, u64, u64), u64>,
    lines: u64,
    uses: u64,
    period: u64,
}

impl Counters {
    fn new(capacity: u64) -> Self {
        Self {
            lines: capacity.next_power_of_two().max(8) / 8,
            period: 10 * capacity,
            ..Self::default()
        }
    }

    fn places(&self, key: u32) -> [(u64, u64, u64); 4] {
        let hash = foldhash::fast::FixedState::with_seed(0).hash_one(key);
        let line = hash % (1 << 32) % self.lines;
        [0, 1, 2, 3].map(|row| (row, line, (hash >> (32 + 8 * row)) % 32))
    }

    fn add(&mut self, key: u32) {
        let mut added = 0;
        for place in self.places(key) {
            let counter = self.by_place.entry(place).or_insert(0);
            if *counter < 15 {
                *counter += 1;
                added = 1;
            }
        }
        self.uses += added;
        if added == 1 && self.uses == self.period {
            let odd = self
                .by_place
                .values()
                .filter(|counter| **counter % 2 == 1)
                .count();
            for counter in self.by_place.values_mut() {
                *counter /= 2;
            }
            self.uses = (self.uses - odd as u64 / 4) / 2;
        }
    }

    fn estimate(&self, key: u32) -> u64 {
        let counter = |place| self.by_place.get(&place).copied().unwrap_or(0);
        self.places(key).map(counter).into_iter().min().unwrap()
    }
}

pub(crate) struct WTinyLfu {
    window: Vec<u32>,
    probation: Vec<u32>,
    protected: Vec<u32>,
    window_max: usize,
    protected_max: usize,
    capacity: usize,
    counters: Counters,
    hits: Vec<bool>,
    hits_before: i64,
    step: i64,
    first_step: i64,
}

impl WTinyLfu {
    /// Window, protected part of the rest, and step in percent.
    pub(crate) fn new(capacity: usize, window: usize, protected: usize, step: usize) -> Self {
        let window_max = (capacity * window / 100).max(1);
        let first_step = i64::try_from(capacity * step / 100).unwrap() * 65_536;
        Self {
            window: Vec::new(),
            probation: Vec::new(),
            protected: Vec::new(),
            window_max,
            protected_max: (capacity - window_max) * protected / 100,
            capacity,
            counters: Counters::new(capacity as u64),
            hits: Vec::new(),
            hits_before: 0,
            step: first_step,
            first_step,
        }
    }

    fn limit_protected(&mut self) {
        while self.protected.len() > self.protected_max {
            self.probation.push(self.protected.remove(0));
        }
    }

    fn hit(&mut self, key: u32) -> bool {
        if take(&mut self.window, key) {
            self.window.push(key);
        } else if take(&mut self.probation, key) || take(&mut self.protected, key) {
            self.protected.push(key);
            self.limit_protected();
        } else {
            return false;
        }
        true
    }

    fn admit(&mut self, key: u32, evicted: &mut Vec<u32>) {
        self.window.push(key);
        let mut candidate = None;
        if self.window.len() > self.window_max {
            candidate = Some(self.window.remove(0));
            self.probation.extend(candidate);
        }
        if self.window.len() + self.probation.len() + self.protected.len() <= self.capacity {
            return;
        }
        let queues = [&self.probation, &self.protected, &self.window];
        let victim = *queues.into_iter().flatten().next().unwrap();
        let loser = match candidate {
            Some(candidate)
                if self.counters.estimate(candidate) <= self.counters.estimate(victim) =>
            {
                candidate
            }
            _ => victim,
        };
        self.remove(loser);
        evicted.push(loser);
    }

    fn climb(&mut self) {
        if self.hits.len() < 10 * self.capacity {
            return;
        }
        let hits = i64::try_from(self.hits.iter().filter(|hit| **hit).count()).unwrap();
        let period = i64::try_from(self.hits.len()).unwrap();
        let gained = hits - self.hits_before;
        self.hits_before = hits;
        self.hits.clear();
        if gained.abs() * 100 < period {
            return;
        }
        let step = self.step * gained.signum();
        let restarts = gained.abs() * 20 >= period;
        self.step = if restarts {
            self.first_step * step.signum()
        } else {
            step * 98 / 100
        };
        for _ in 0..(step / 65_536).abs() {
            if step > 0 && self.protected_max > 0 {
                self.protected_max -= 1;
                self.window_max += 1;
            } else if step < 0 && self.window_max > 1 {
                self.protected_max += 1;
                self.window_max -= 1;
            }
        }
        if step / 65_536 > 0 {
            self.limit_protected();
            while self.window.len() < self.window_max {
                if !self.probation.is_empty() {
                    self.window.push(self.probation.remove(0));
                } else if !self.protected.is_empty() {
                    self.window.push(self.protected.remove(0));
                } else {
                    break;
                }
            }
        }
        while self.window.len() > self.window_max {
            self.probation.push(self.window.remove(0));
        }
    }
}

impl Model for WTinyLfu {
    fn access(&mut self, key: u32, evicted: &mut Vec<u32>) -> bool {
        self.counters.add(key);
        let hit = self.hit(key);
        if !hit {
            self.admit(key, evicted);
        }
        self.hits.push(hit);
        self.climb();
        hit
    }

    fn remove(&mut self, key: u32) -> bool {
        take(&mut self.window, key)
            || take(&mut self.probation, key)
            || take(&mut self.protected, key)
    }
}
