//! Strides within a region: how far the guest jumped after it had jumped as far as now.
//!
//! ```text
//!   region of 1,024 blocks     0 ── +3 ─► 3 ── +5 ─► 8 ── +3 ─► 11        rows, by the stride:  +3: +5 2
//!   (each has its own place                                                                     +5: +3 1
//!    and last stride)          after a +3: guess 11 + 5, and from there on
//! ```
//!
//! A Markov chain as Pangloss (P. Papaphilippou, P. Kelly, W. Luk, "Pangloss: a novel Markov chain prefetcher", Data
//! Prefetching Championship 3, 2019) has for cache lines within a page, here for blocks within a region: strides
//! that one region teaches hold in all of them. Where a walk goes is a product of the parts of the cases.

use super::settings::{CONFIDENCE, MEMORY, parse_confidence, parse_memory, write_memory};
use super::{Guess, Miner, Setup, both, part};
use crate::rows::Rows;
use crate::run::Run;
use policy::replacement::{About, BadValue, Fraction, Parameter, Settings, parse_count};
use units::Bytes;

/// What is to be known of it.
pub const ABOUT: About = About {
    name: "delta",
    other_names: &["strides"],
    paper: "after Pangloss, DPC-3 2019",
    queues: &[],
    parameters: &[
        Parameter {
            name: "degree",
            meaning: "strides of a walk at most",
            takes: "a number from 1 to 16",
        },
        CONFIDENCE,
        MEMORY,
    ],
    knows_future: false,
};

/// Blocks of a region: 4 MiB.
const REGION: i64 = 1024;

/// Strides within a region, forwards and backwards, and none.
const STRIDES: usize = 2 * 1024 - 1;

/// Strides that are kept for each stride.
const WAYS: usize = 8;

/// Its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Strides of a walk.
    pub degree: u32,
    /// The least confidence of a walk as a whole.
    pub confidence: Fraction,
    /// Memory of a disk's strides and regions.
    pub memory: Bytes,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            degree: 4,
            confidence: Fraction::millionths(333_333),
            memory: Bytes::mib(1),
        }
    }
}

impl Settings for Config {
    fn set(&mut self, name: &str, value: &str) -> Result<(), BadValue> {
        match name {
            "degree" => self.degree = parse_count(value, 1, 16)?,
            "conf" => self.confidence = parse_confidence(value)?,
            _ => self.memory = parse_memory(value)?,
        }
        Ok(())
    }

    fn get(&self, name: &str) -> String {
        match name {
            "degree" => self.degree.to_string(),
            "conf" => self.confidence.to_string(),
            _ => write_memory(self.memory),
        }
    }
}

/// A stride that followed, and how often; none for a count of zero.
#[derive(Clone, Copy, Debug, Default)]
struct Next {
    stride: i16,
    count: u16,
}

/// The strides that followed one.
#[derive(Clone, Copy, Debug, Default)]
struct Nexts([Next; WAYS]);

impl Nexts {
    fn count(&mut self, stride: i16) {
        let known = |next: &&mut Next| next.count > 0 && next.stride == stride;
        if let Some(known) = self.0.iter_mut().find(known) {
            known.count += 1;
            if known.count == u16::MAX {
                self.0.iter_mut().for_each(|next| next.count /= 2);
            }
            return;
        }
        let rarest = self.0.iter_mut().min_by_key(|next| next.count);
        let rarest = rarest.expect("there are several");
        if rarest.count <= 1 {
            *rarest = Next { stride, count: 1 };
        } else {
            rarest.count -= 1;
        }
    }

    /// The stride that followed most often, and the part of the cases.
    fn likeliest(&self) -> Option<(i16, Fraction)> {
        let most = self.0.iter().max_by_key(|next| next.count)?;
        let total: u64 = self.0.iter().map(|next| u64::from(next.count)).sum();
        // Once is no habit.
        (most.count > 1).then(|| (most.stride, part(u64::from(most.count), total)))
    }
}

/// Where a region was read last, and how far that was from before; zero if it was read once.
#[derive(Clone, Copy, Debug)]
struct Region {
    place: i16,
    stride: i16,
}

/// The strides of a disk.
#[derive(Clone, Debug)]
pub struct Delta {
    regions: Rows<Region>,
    /// By the stride, from `1 - REGION` on.
    nexts: Vec<Nexts>,
    degree: u32,
    confidence: Fraction,
    setup: Setup,
}

impl Delta {
    /// Nothing was seen yet.
    pub fn new(config: &Config, setup: Setup) -> Self {
        let nexts = vec![Nexts::default(); STRIDES];
        let taken = Bytes::new((nexts.capacity() * size_of::<Nexts>()) as u64);
        Self {
            regions: Rows::within(config.memory.saturating_sub(taken)),
            nexts,
            degree: config.degree,
            confidence: config.confidence,
            setup,
        }
    }

    /// The row of a stride.
    fn row(stride: i16) -> usize {
        usize::try_from(i64::from(stride) + REGION - 1).expect("strides stay within a region")
    }

    /// Notes the read in its region: the stride by which it came there, if that is known.
    fn mine(&mut self, region: u64, place: i16) -> Option<i16> {
        let Some(&before) = self.regions.get(region) else {
            self.regions.insert(region, Region { place, stride: 0 });
            return None;
        };
        self.regions.touch(region);
        let stride = place - before.place;
        if stride == 0 {
            return None;
        }
        if before.stride != 0 {
            self.nexts[Self::row(before.stride)].count(stride);
        }
        if let Some(region) = self.regions.get_mut(region) {
            *region = Region { place, stride };
        }
        Some(stride)
    }
}

impl Miner for Delta {
    fn read(&mut self, run: Run, _hit: bool, out: &mut Vec<Guess>) {
        let first = run.first().get();
        let (region, place) = (first / REGION.unsigned_abs(), first % REGION.unsigned_abs());
        let mut place = i16::try_from(place).expect("a region has 1,024 blocks");
        let Some(mut stride) = self.mine(region, place) else {
            return;
        };
        let mut confidence = Fraction::ONE;
        for _ in 0..self.degree {
            let Some((next, sure)) = self.nexts[Self::row(stride)].likeliest() else {
                return;
            };
            confidence = both(confidence, sure);
            place += next;
            if confidence < self.confidence || !(0..REGION).contains(&i64::from(place)) {
                return;
            }
            let at = region * REGION.unsigned_abs() + u64::from(place.unsigned_abs());
            let guess = self.setup.on_disk(at, u64::from(run.blocks()));
            out.extend(guess.map(|run| Guess { run, confidence }));
            stride = next;
        }
    }

    fn memory(&self) -> Bytes {
        let nexts = size_of::<Self>() + self.nexts.capacity() * size_of::<Nexts>();
        self.regions.memory() + Bytes::new(nexts as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn miner() -> Delta {
        let setup = Setup {
            disk_blocks: 5_000,
            memory_blocks: 256,
        };
        Delta::new(&Config::default(), setup)
    }

    fn read(miner: &mut Delta, first: u64) -> Vec<u64> {
        let mut out = Vec::new();
        miner.read(Run::new(first, 1).unwrap(), false, &mut out);
        out.iter().map(|guess| guess.run.first().get()).collect()
    }

    #[test]
    fn strides_of_one_region_are_guessed_in_another() {
        let mut miner = miner();
        for first in [0, 3, 8, 11, 16, 19] {
            read(&mut miner, first);
        }
        // +3 +5 +3 +5 +3: +5 followed +3 twice, +3 followed +5 twice.
        assert_eq!(read(&mut miner, 2048), []);
        assert_eq!(read(&mut miner, 2051), [2056, 2059, 2064, 2067]);
    }

    #[test]
    fn a_walk_stays_in_its_region() {
        let mut miner = miner();
        for first in (0..600).step_by(100) {
            read(&mut miner, first);
        }
        read(&mut miner, 1024 + 700);
        assert_eq!(read(&mut miner, 1024 + 800), [1024 + 900, 1024 + 1000]);
        read(&mut miner, 924);
        assert_eq!(read(&mut miner, 1023), [], "a stride of 99 is new");
    }

    #[test]
    fn what_has_no_habit_is_not_guessed() {
        let mut miner = miner();
        for first in [0, 10, 30, 60, 100, 150, 210, 280] {
            assert_eq!(read(&mut miner, first), []);
        }
    }
}
