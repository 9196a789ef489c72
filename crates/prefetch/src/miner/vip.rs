//! VIP: what followed a request last time follows again. Markov chains of several orders over the places
//! where requests begin.
//!
//! ```text
//!   requests       A B C A B A B C             rows, by the n-gram:   A: B 3      AB: C 2, A 1
//!                                                                     B: C 2, A 1 BC: A 1      ...
//!   a read of A ─► row A ─► B ─► row AB ─► C   walk: the likeliest successor, as long as support and
//!                                              confidence allow and the sequence is shorter than `length`
//!
//!   an n-gram with its successor, seen once ─► a tag in the sketch;  seen twice ─► a row
//! ```
//!
//! Source: the dissertation's chapter on virtual I/O front-end prefetching, section 4.3 (algorithm
//! `VIPCandidate`). Three things are ours. The chains are mined as requests arrive, where the paper mines half of a
//! trace and replays the other. Memory has a bound: a quarter of it is the sketch, the paper's pruning of what was
//! seen once, and the rest rows of four successors, of which the one that was of use longest ago leaves. And with
//! a successor the row keeps how long that request was, so that all of it is guessed.
//!
//! A sequence has `length` requests with the one that was read, so the orders from 1 to `length - 1` are kept.
//! What followed an n-gram before it had a row does not count for its confidence.

use super::settings::{CONFIDENCE, MEMORY, parse_confidence, parse_memory, write_memory};
use super::{GUESS_BLOCKS_MAX, Guess, Miner, Setup, both, part};
use crate::rows::Rows;
use crate::run::Run;
use policy::replacement::{About, BadValue, Fraction, Parameter, Settings, parse_count};
use units::{Bytes, hash_of};

/// What is to be known of it.
pub const ABOUT: About = About {
    name: "vip",
    other_names: &["markov"],
    paper: "VIP, a virtual I/O front-end prefetcher (dissertation, chapter 4)",
    queues: &[],
    parameters: &[
        Parameter {
            name: "length",
            meaning: "requests of a sequence, with the one that was read",
            takes: "a number from 2 to 8",
        },
        Parameter {
            name: "sup",
            meaning: "times that a successor must have followed",
            takes: "a number from 2 to 1000",
        },
        CONFIDENCE,
        MEMORY,
    ],
    knows_future: false,
};

/// The longest sequence.
const LENGTH_MAX: usize = 8;

/// Its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Requests of a sequence.
    pub length: u32,
    /// The least support.
    pub support: u32,
    /// The least confidence.
    pub confidence: Fraction,
    /// Memory of a disk's chains.
    pub memory: Bytes,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            length: 4,
            support: 2,
            confidence: Fraction::millionths(500_000),
            memory: Bytes::mib(4),
        }
    }
}

impl Settings for Config {
    fn set(&mut self, name: &str, value: &str) -> Result<(), BadValue> {
        match name {
            "length" => self.length = parse_count(value, 2, 8)?,
            "sup" => self.support = parse_count(value, 2, 1000)?,
            "conf" => self.confidence = parse_confidence(value)?,
            _ => self.memory = parse_memory(value)?,
        }
        Ok(())
    }

    fn get(&self, name: &str) -> String {
        match name {
            "length" => self.length.to_string(),
            "sup" => self.support.to_string(),
            "conf" => self.confidence.to_string(),
            _ => write_memory(self.memory),
        }
    }
}

/// A request that followed: where it begins, its blocks, and how often, in eight bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Successor(u64);

impl Successor {
    const BLOCKS_SHIFT: u32 = 36;
    const COUNT_SHIFT: u32 = 48;
    const COUNT_MAX: u64 = (1 << 16) - 1;

    fn new(run: Run, count: u64) -> Self {
        let blocks = u64::from(run.blocks()).min(GUESS_BLOCKS_MAX);
        Self(run.first().get() | blocks << Self::BLOCKS_SHIFT | count << Self::COUNT_SHIFT)
    }

    const fn first(self) -> u64 {
        self.0 & ((1 << Self::BLOCKS_SHIFT) - 1)
    }

    const fn blocks(self) -> u64 {
        self.0 >> Self::BLOCKS_SHIFT & ((1 << (Self::COUNT_SHIFT - Self::BLOCKS_SHIFT)) - 1)
    }

    /// Zero for one that is not there.
    const fn count(self) -> u64 {
        self.0 >> Self::COUNT_SHIFT
    }

    fn set_count(&mut self, count: u64) {
        self.0 = self.0 & ((1 << Self::COUNT_SHIFT) - 1) | count << Self::COUNT_SHIFT;
    }
}

/// What followed an n-gram.
#[derive(Clone, Copy, Debug, Default)]
struct Followed {
    successors: [Successor; 4],
    /// Times that anything followed.
    total: u64,
}

impl Followed {
    /// The one that followed most often.
    fn likeliest(&self) -> Successor {
        let most = self.successors.iter().max_by_key(|one| one.count());
        *most.expect("there are four")
    }

    /// Counts one that is known; false if it is not.
    fn count(&mut self, run: Run) -> bool {
        self.total += 1;
        let known = |one: &&mut Successor| one.count() > 0 && one.first() == run.first().get();
        let Some(known) = self.successors.iter_mut().find(known) else {
            return false;
        };
        *known = Successor::new(run, known.count() + 1);
        if known.count() == Successor::COUNT_MAX {
            self.halve();
        }
        true
    }

    /// Adds one that was seen twice. If there is no room the rarest loses a count, and its place once it has
    /// no more than the new one.
    fn add(&mut self, run: Run) {
        let rarest = self.successors.iter_mut().min_by_key(|one| one.count());
        let rarest = rarest.expect("there are four");
        if rarest.count() <= 2 {
            *rarest = Successor::new(run, 2);
        } else {
            rarest.set_count(rarest.count() - 1);
        }
    }

    fn halve(&mut self) {
        self.total /= 2;
        for one in &mut self.successors {
            one.set_count(one.count() / 2);
        }
    }
}

/// What was seen once: a tag for each n-gram with its successor; a later one takes its place.
#[derive(Clone, Debug)]
struct Sketch {
    tags: Vec<u16>,
}

impl Sketch {
    fn within(memory: Bytes) -> Self {
        let tags = (memory.get() / 2).max(2);
        Self {
            tags: vec![0; usize::try_from(tags).expect("it fits in memory")],
        }
    }

    /// Whether it was seen before; from now on it was.
    fn seen(&mut self, gram: u64, first: u64) -> bool {
        let hash = hash_of((gram, first));
        let at = (u128::from(hash) * self.tags.len() as u128) >> 64;
        let at = usize::try_from(at).expect("it is below the number of tags");
        // Zero is a place that nothing took yet.
        let tag = u16::try_from(hash & 0xffff).expect("16 bits").max(1);
        std::mem::replace(&mut self.tags[at], tag) == tag
    }
}

/// The chains of a disk.
#[derive(Clone, Debug)]
pub struct Vip {
    rows: Rows<Followed>,
    sketch: Sketch,
    /// Where the last requests began, the latest last.
    recent: Vec<u64>,
    length: usize,
    support: u64,
    confidence: Fraction,
    setup: Setup,
}

impl Vip {
    /// Nothing was seen yet.
    pub fn new(config: &Config, setup: Setup) -> Self {
        let sketch = Bytes::new(config.memory.get() / 4);
        Self {
            rows: Rows::within(config.memory - sketch),
            sketch: Sketch::within(sketch),
            recent: Vec::with_capacity(LENGTH_MAX),
            length: config.length as usize,
            support: u64::from(config.support),
            confidence: config.confidence,
            setup,
        }
    }

    /// Counts the request as what followed those before it, by every order.
    fn mine(&mut self, run: Run) {
        for order in 1..=self.recent.len() {
            let gram = key(&self.recent[self.recent.len() - order..]);
            let Some(followed) = self.rows.get_mut(gram) else {
                if self.sketch.seen(gram, run.first().get()) {
                    let mut followed = Followed {
                        total: 2,
                        ..Followed::default()
                    };
                    followed.add(run);
                    self.rows.insert(gram, followed);
                }
                continue;
            };
            if followed.count(run) {
                self.rows.touch(gram);
            } else if self.sketch.seen(gram, run.first().get()) {
                followed.add(run);
            }
        }
        if self.recent.len() == self.length - 1 {
            self.recent.remove(0);
        }
        self.recent.push(run.first().get());
    }

    /// Walks from this request on.
    fn walk(&mut self, run: Run, out: &mut Vec<Guess>) {
        let mut sequence = [0; LENGTH_MAX];
        sequence[0] = run.first().get();
        let mut confidence = Fraction::ONE;
        for length in 1..self.length {
            let gram = key(&sequence[..length]);
            let Some(followed) = self.rows.get(gram) else {
                return;
            };
            let next = followed.likeliest();
            let sure = part(next.count(), followed.total);
            if next.count() < self.support || sure < self.confidence {
                return;
            }
            self.rows.touch(gram);
            confidence = both(confidence, sure);
            sequence[length] = next.first();
            let run = self.setup.on_disk(next.first(), next.blocks());
            out.extend(run.map(|run| Guess { run, confidence }));
        }
    }
}

/// The key of an n-gram. Two that have the same by chance are one.
fn key(gram: &[u64]) -> u64 {
    let fold = |key: u64, first: &u64| hash_of((key, *first));
    gram.iter().fold(gram.len() as u64, fold)
}

impl Miner for Vip {
    fn read(&mut self, run: Run, _hit: bool, out: &mut Vec<Guess>) {
        self.mine(run);
        self.walk(run, out);
    }

    fn memory(&self) -> Bytes {
        let small =
            size_of::<Self>() + self.recent.capacity() * 8 + self.sketch.tags.capacity() * 2;
        self.rows.memory() + Bytes::new(small as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: u64 = 1000;
    const B: u64 = 50;
    const C: u64 = 7000;

    fn vip(text: &str) -> Vip {
        let mut config = Config::default();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').unwrap();
            config.set(name, value).unwrap();
        }
        let setup = Setup {
            disk_blocks: 10_000,
            memory_blocks: 256,
        };
        Vip::new(&config, setup)
    }

    fn read(vip: &mut Vip, first: u64) -> Vec<u64> {
        let mut out = Vec::new();
        vip.read(Run::new(first, 2).unwrap(), false, &mut out);
        out.iter().map(|guess| guess.run.first().get()).collect()
    }

    /// The paper's example: A B C A B A B C; with support 2 and confidence 0.5 B and C follow A.
    #[test]
    fn the_papers_example_walks_from_a_to_b_and_c() {
        let mut vip = vip("length=3");
        for first in [A, B, C, A, B, A, B, C] {
            read(&mut vip, first);
        }
        let of = |gram: &[u64]| {
            let followed = vip.rows.get(key(gram)).unwrap();
            let next = followed.likeliest();
            (next.first(), next.count())
        };
        assert_eq!(of(&[A]), (B, 3));
        assert_eq!(of(&[B]), (C, 2));
        assert_eq!(of(&[A, B]), (C, 2));
        for once in [&[C][..], &[B, C], &[C, A], &[B, A]] {
            assert!(vip.rows.get(key(once)).is_none(), "{once:?} was seen once");
        }
        assert_eq!(read(&mut vip, A), [B, C]);
    }

    #[test]
    fn a_sequence_has_no_more_requests_than_its_length() {
        let mut two = vip("length=2");
        let mut eight = vip("length=8");
        let (mut last_two, mut last_eight) = (Vec::new(), Vec::new());
        for turn in 0..40 {
            let first = (turn % 10) * 100;
            last_two = read(&mut two, first);
            last_eight = read(&mut eight, first);
        }
        assert_eq!(last_two, [0]);
        assert_eq!(last_eight, [0, 100, 200, 300, 400, 500, 600]);
    }

    #[test]
    fn support_and_confidence_are_asked_for() {
        // After A comes B twice and something else eight times.
        let reads = |vip: &mut Vip| {
            for turn in 0..10 {
                read(vip, A);
                read(vip, if turn < 2 { B } else { 5000 + turn * 10 });
            }
            read(vip, A)
        };
        assert_eq!(reads(&mut vip("length=2")), []);
        assert_eq!(reads(&mut vip("length=2,conf=0.2")), [B]);
        assert_eq!(reads(&mut vip("length=2,conf=0.2,sup=3")), []);
    }

    #[test]
    fn a_guess_is_as_long_as_the_request_was_and_ends_with_the_disk() {
        let mut vip = vip("length=2");
        let mut out = Vec::new();
        for _ in 0..3 {
            out.clear();
            vip.read(Run::new(A, 1).unwrap(), false, &mut out);
            vip.read(Run::new(9998, 2).unwrap(), false, &mut Vec::new());
        }
        assert_eq!(out.len(), 1);
        assert_eq!(out[0].run, Run::new(9998, 2).unwrap());
    }
}
