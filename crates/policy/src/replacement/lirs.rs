//! LIRS: ranks blocks by the distance between their last two uses, not by the age of the last.
//!
//! ```text
//!   S, by last use      ─► L  h  g  L  L  g  h  L        the bottom is always an L
//!   Q, resident HIR     ─► h  h  ─► evicted; stays in S as a ghost g
//! ```
//!
//! L: LIR, small distance, always resident, 99 % of the cache. h: HIR, resident. g: HIR, a ghost. A HIR
//! block that is used while in S was used again sooner than the LIR block at the bottom of S: the two
//! swap their status. While LIR blocks are fewer than they may be, whatever comes is LIR.
//!
//! The paper leaves S unlimited; here ghosts are forgotten, those that were evicted first, when S is
//! longer than `stack` times the cache.

use super::list::{List, SideLinks};
use super::table::Table;
use super::{
    About, BadValue, Evicted, Fraction, Index, Key, Parameter, Place, Policy, Settings, Setup,
};

/// What is to be known of it.
pub const ABOUT: About = About {
    name: "lirs",
    other_names: &[],
    paper: "S. Jiang, X. Zhang, \"LIRS: an efficient low inter-reference recency set replacement policy to improve buffer cache performance\", SIGMETRICS 2002",
    queues: &[
        (
            "S",
            "LIR blocks, and HIR blocks and ghosts used since the oldest of them, by last use",
        ),
        (
            "Q",
            "resident HIR blocks, by last use or loss of LIR status",
        ),
        ("ghosts", "the ghosts in S, by departure"),
    ],
    parameters: &[
        Parameter {
            name: "hir",
            meaning: "resident HIR blocks, as a part of the cache; at least one",
            takes: "0 to 1",
        },
        Parameter {
            name: "stack",
            meaning: "the longest S, as a multiple of the cache",
            takes: "1 to 4",
        },
    ],
    knows_future: false,
};

/// Its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Resident HIR blocks, as a part of the cache; at least one.
    pub hir: Fraction,
    /// The longest S, as a multiple of the cache.
    pub stack: Fraction,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            hir: Fraction::millionths(10_000),
            stack: Fraction::millionths(2_000_000),
        }
    }
}

impl Settings for Config {
    fn set(&mut self, name: &str, value: &str) -> Result<(), BadValue> {
        match name {
            "hir" => self.hir = Fraction::parse(value, Fraction::ZERO, Fraction::ONE)?,
            _ => {
                self.stack =
                    Fraction::parse(value, Fraction::ONE, Fraction::millionths(4_000_000))?;
            }
        }
        Ok(())
    }

    fn get(&self, name: &str) -> String {
        match name {
            "hir" => self.hir.to_string(),
            _ => self.stack.to_string(),
        }
    }
}

/// A node's tag: its status, and whether it is in S. LIR blocks and ghosts always are.
const STATUS: u32 = 3;
const LIR: u32 = 0;
const HIR: u32 = 1;
const GHOST: u32 = 2;
const IN_S: u32 = 4;

/// LIRS. A node's own links are those of S; the links at its side those of Q or of the ghosts.
#[derive(Debug)]
pub struct Lirs<K, I> {
    table: Table<K, I>,
    side: SideLinks,
    s: List,
    q: List,
    ghosts: List,
    lir: u32,
    lir_max: u32,
    s_max: u32,
    capacity: u32,
}

impl<K: Key, I: Index<K>> Lirs<K, I> {
    /// An empty cache.
    pub fn new(config: &Config, setup: Setup<I>) -> Self {
        let capacity = setup.capacity.get();
        Self {
            table: Table::new(setup.index),
            side: SideLinks::default(),
            s: List::new(),
            q: List::new(),
            ghosts: List::new(),
            lir: 0,
            lir_max: capacity - setup.capacity.part(config.hir).max(1),
            s_max: setup.capacity.part(config.stack),
            capacity,
        }
    }

    #[inline]
    fn status(&self, place: Place) -> u32 {
        self.table.nodes[place].tag & STATUS
    }

    fn is_in_s(&self, place: Place) -> bool {
        self.table.nodes[place].tag & IN_S != 0
    }

    /// To the top of S, from wherever it is.
    #[inline]
    fn raise(&mut self, place: Place) {
        if self.is_in_s(place) {
            self.s.move_to_front(place, &mut self.table.nodes);
        } else {
            self.table.nodes[place].tag |= IN_S;
            self.s.push_front(place, &mut self.table.nodes);
        }
    }

    /// Removes what is below the last LIR block from S.
    #[inline]
    fn prune(&mut self) {
        while let Some(bottom) = self.s.back(&self.table.nodes) {
            let status = self.status(bottom);
            if status == LIR {
                return;
            }
            self.s.remove(bottom, &mut self.table.nodes);
            if status == GHOST {
                self.ghosts.remove(bottom, &mut self.side);
                self.table.release(bottom);
            } else {
                self.table.nodes[bottom].tag &= !IN_S;
            }
        }
    }

    /// A block in S, already raised, becomes LIR; if that makes too many of them, the one at the bottom
    /// becomes HIR.
    fn promote(&mut self, place: Place) {
        self.table.nodes[place].tag = LIR | IN_S;
        self.lir += 1;
        if self.lir > self.lir_max {
            let bottom = self
                .s
                .pop_back(&mut self.table.nodes)
                .expect("LIR blocks are in S");
            self.table.nodes[bottom].tag = HIR;
            self.q.push_front(bottom, &mut self.side);
            self.lir -= 1;
        }
        self.prune();
    }

    /// Evicts the oldest block of Q, if the cache is full.
    #[inline]
    fn make_room(&mut self, evicted: &mut impl Evicted<K>) {
        if self.blocks() < self.capacity {
            return;
        }
        let oldest = self
            .q
            .pop_back(&mut self.side)
            .expect("a full cache has a HIR block");
        evicted.push(self.table.nodes[oldest].key);
        if self.is_in_s(oldest) {
            self.table.nodes[oldest].tag = GHOST | IN_S;
            self.ghosts.push_front(oldest, &mut self.side);
        } else {
            self.table.release(oldest);
        }
    }

    fn admit(&mut self, key: K) {
        let place = self.table.insert(key, HIR);
        self.side.cover(place);
        if self.lir < self.lir_max {
            self.raise(place);
            self.promote(place);
            return;
        }
        self.q.push_front(place, &mut self.side);
        // Where no block may be LIR, S has no bottom.
        if self.lir_max > 0 {
            self.raise(place);
        }
    }

    fn limit_s(&mut self) {
        while self.s.len() > self.s_max {
            let Some(oldest) = self.ghosts.pop_back(&mut self.side) else {
                return;
            };
            self.s.remove(oldest, &mut self.table.nodes);
            self.table.release(oldest);
        }
    }

    fn use_hir(&mut self, place: Place) {
        if self.is_in_s(place) || self.lir < self.lir_max {
            self.raise(place);
            self.q.remove(place, &mut self.side);
            self.promote(place);
        } else {
            self.q.move_to_front(place, &mut self.side);
            if self.lir_max > 0 {
                self.raise(place);
            }
        }
    }
}

impl<K: Key, I: Index<K>> Policy<K> for Lirs<K, I> {
    #[inline]
    fn access(&mut self, key: K, evicted: &mut impl Evicted<K>) -> bool {
        let Some(place) = self.table.find(key) else {
            self.make_room(evicted);
            self.admit(key);
            self.limit_s();
            return false;
        };
        match self.status(place) {
            LIR => {
                self.s.move_to_front(place, &mut self.table.nodes);
                self.prune();
                true
            }
            HIR => {
                self.use_hir(place);
                self.limit_s();
                true
            }
            _ => {
                self.raise(place);
                self.ghosts.remove(place, &mut self.side);
                self.make_room(evicted);
                self.promote(place);
                false
            }
        }
    }

    fn remove(&mut self, key: K) -> bool {
        let Some(place) = self.table.find(key) else {
            return false;
        };
        let status = self.status(place);
        match status {
            LIR => self.lir -= 1,
            HIR => self.q.remove(place, &mut self.side),
            _ => self.ghosts.remove(place, &mut self.side),
        }
        if self.is_in_s(place) {
            self.s.remove(place, &mut self.table.nodes);
        }
        self.table.release(place);
        self.prune();
        status != GHOST
    }

    fn contains(&self, key: K) -> bool {
        self.table
            .find(key)
            .is_some_and(|place| self.status(place) != GHOST)
    }

    fn blocks(&self) -> u32 {
        self.lir + self.q.len()
    }

    fn capacity(&self) -> u32 {
        self.capacity
    }
}
