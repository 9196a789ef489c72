//! Mithril: blocks that are read seldom, but always at about the same times, belong together.
//!
//! ```text
//!   read ─► recording     place: first time          until it was read twice
//!              └─► mining  place: 2 to 8 times        full: sorted by the first time, neighbours compared
//!                    └─► associations  place ─► two places
//!
//!   times of A  12  90  305       apart by `lookahead` reads at most, each pair, in the same order:
//!   times of B  15  97  306       B is guessed when A is read
//! ```
//!
//! Paper: J. Yang, R. Karimi, T. Sæmundsson, A. Wildani, Y. Vigfusson, "Mithril: mining sporadic associations for
//! cache prefetching", Symposium on Cloud Computing 2017. The published code (in libCacheSim) decided where the paper leaves a choice: a
//! place that is read more than `8` times while it waits is no sporadic one and leaves; one pair of times may be
//! further apart than the others. A place here is where a request begins, and the request's length comes with it.

use super::settings::{MEMORY, parse_memory, write_memory};
use super::{GUESS_BLOCKS_MAX, Guess, Miner, Setup};
use crate::rows::Rows;
use crate::run::Run;
use policy::replacement::{About, BadValue, Fraction, Parameter, Settings, parse_count};
use units::Bytes;

/// What is to be known of it.
pub const ABOUT: About = About {
    name: "mithril",
    other_names: &[],
    paper: "Yang et al., SoCC 2017",
    queues: &[],
    parameters: &[
        Parameter {
            name: "lookahead",
            meaning: "reads between two that belong together at most",
            takes: "a number from 1 to 1000",
        },
        Parameter {
            name: "record",
            meaning: "which reads are recorded",
            takes: "all or misses",
        },
        MEMORY,
    ],
    knows_future: false,
};

/// Times of a place that are kept.
const TIMES: usize = 8;

/// Times after which a place is mined.
const TIMES_MIN: usize = 2;

/// Pairs of times that may be too far apart, and times that one of two may have more.
const SLACK: usize = 1;

/// Places that are mined together.
const MINED: usize = 1024;

/// Whose reads are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// Every read
    All,
    /// Those that memory did not have
    Misses,
}

/// Its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Reads between two.
    pub lookahead: u32,
    /// Which reads.
    pub record: Recorded,
    /// Memory of a disk's tables.
    pub memory: Bytes,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            lookahead: 20,
            record: Recorded::All,
            memory: Bytes::mib(2),
        }
    }
}

impl Settings for Config {
    fn set(&mut self, name: &str, value: &str) -> Result<(), BadValue> {
        match (name, value) {
            ("lookahead", _) => self.lookahead = parse_count(value, 1, 1000)?,
            ("record", "all") => self.record = Recorded::All,
            ("record", "misses") => self.record = Recorded::Misses,
            ("record", _) => return Err(BadValue),
            _ => self.memory = parse_memory(value)?,
        }
        Ok(())
    }

    fn get(&self, name: &str) -> String {
        match (name, self.record) {
            ("lookahead", _) => self.lookahead.to_string(),
            ("record", Recorded::All) => "all".to_owned(),
            ("record", Recorded::Misses) => "misses".to_owned(),
            _ => write_memory(self.memory),
        }
    }
}

/// A place that was read once: when.
#[derive(Clone, Copy, Debug)]
struct Once {
    at: u32,
}

/// A place that waits to be compared with others.
#[derive(Clone, Copy, Debug)]
struct Mined {
    first: u64,
    blocks: u32,
    times: [u32; TIMES],
    count: usize,
    /// Read more often than a sporadic one.
    is_frequent: bool,
}

impl Mined {
    /// Whether the other one was read shortly after each time that this one was.
    fn goes_before(&self, other: &Self, lookahead: u32) -> bool {
        let pairs = self.count.min(other.count);
        let times = self.times.iter().zip(&other.times).take(pairs);
        let apart = times.filter(|(mine, others)| {
            others
                .checked_sub(**mine)
                .is_none_or(|between| between > lookahead)
        });
        self.count.abs_diff(other.count) <= SLACK && apart.count() <= SLACK.min(pairs - 1)
    }
}

/// A request that belongs to another one; none if it has no blocks.
#[derive(Clone, Copy, Debug, Default)]
struct Partner {
    first: u64,
    blocks: u32,
}

/// The tables of a disk.
#[derive(Clone, Debug)]
pub struct Mithril {
    once: Rows<Once>,
    mined: Vec<Mined>,
    /// Where each of `mined` is.
    places: Rows<u32>,
    associations: Rows<[Partner; 2]>,
    lookahead: u32,
    recorded: Recorded,
    /// Reads so far: the clock.
    now: u32,
    setup: Setup,
}

impl Mithril {
    /// Nothing was seen yet.
    pub fn new(config: &Config, setup: Setup) -> Self {
        let fixed = (MINED * size_of::<Mined>()) as u64 + MINED as u64 * Rows::<u32>::ROW_BYTES;
        let left = config.memory.saturating_sub(Bytes::new(fixed)).get();
        Self {
            once: Rows::within(Bytes::new(left / 2)),
            mined: Vec::with_capacity(MINED),
            places: Rows::new(MINED as u64),
            associations: Rows::within(Bytes::new(left / 2)),
            lookahead: config.lookahead,
            recorded: config.record,
            now: 0,
            setup,
        }
    }

    fn record(&mut self, run: Run) {
        let first = run.first().get();
        let now = self.now;
        if let Some(&place) = self.places.get(first) {
            let mined = &mut self.mined[place as usize];
            match mined.times.get_mut(mined.count) {
                Some(time) => {
                    *time = now;
                    mined.count += 1;
                }
                None => mined.is_frequent = true,
            }
            return;
        }
        let Some(once) = self.once.remove(first) else {
            self.once.insert(first, Once { at: now });
            return;
        };
        let mut times = [0; TIMES];
        times[..TIMES_MIN].copy_from_slice(&[once.at, now]);
        let place = u32::try_from(self.mined.len()).expect("the table is small");
        self.places.insert(first, place);
        self.mined.push(Mined {
            first,
            blocks: run.blocks(),
            times,
            count: TIMES_MIN,
            is_frequent: false,
        });
        if self.mined.len() == MINED {
            self.mine();
        }
    }

    /// Compares each place with those that were first read within the look-ahead after it, and keeps the nearest
    /// two that belong to it.
    fn mine(&mut self) {
        let mut mined = std::mem::take(&mut self.mined);
        for one in &mined {
            self.places.remove(one.first);
        }
        mined.retain(|one| !one.is_frequent);
        mined.sort_unstable_by_key(|one| (one.times[0], one.first));
        let lookahead = self.lookahead;
        for (at, one) in mined.iter().enumerate() {
            let near = mined[at + 1..]
                .iter()
                .take_while(|other| other.times[0] - one.times[0] <= lookahead);
            let mut after = near.filter(|other| one.goes_before(other, lookahead));
            let nearest = [after.next(), after.next()];
            for other in nearest.into_iter().rev().flatten() {
                self.associate(one, other);
            }
        }
        mined.clear();
        self.mined = mined;
    }

    /// The newer of two partners stays, before the other.
    fn associate(&mut self, one: &Mined, other: &Mined) {
        let partner = Partner {
            first: other.first,
            blocks: other.blocks,
        };
        match self.associations.get_mut(one.first) {
            Some([newer, _]) if newer.first == partner.first => *newer = partner,
            Some(partners) => *partners = [partner, partners[0]],
            None => {
                let partners = [partner, Partner::default()];
                self.associations.insert(one.first, partners);
            }
        }
    }
}

impl Miner for Mithril {
    fn read(&mut self, run: Run, hit: bool, out: &mut Vec<Guess>) {
        if self.recorded == Recorded::All || !hit {
            self.record(run);
        }
        // A clock that ends begins again with empty tables: once in 2^32 reads.
        self.now = self.now.checked_add(1).unwrap_or_else(|| {
            self.mined.clear();
            self.places = Rows::new(MINED as u64);
            0
        });
        let Some(&partners) = self.associations.get(run.first().get()) else {
            return;
        };
        self.associations.touch(run.first().get());
        for partner in partners {
            let blocks = u64::from(partner.blocks).min(GUESS_BLOCKS_MAX);
            let run = self.setup.on_disk(partner.first, blocks);
            out.extend(run.map(|run| Guess {
                run,
                confidence: Fraction::ONE,
            }));
        }
    }

    fn memory(&self) -> Bytes {
        let mined = size_of::<Self>() + self.mined.capacity() * size_of::<Mined>();
        let rows = [
            self.once.memory(),
            self.places.memory(),
            self.associations.memory(),
        ];
        rows.into_iter().sum::<Bytes>() + Bytes::new(mined as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn miner() -> Mithril {
        let setup = Setup {
            disk_blocks: 1 << 30,
            memory_blocks: 256,
        };
        Mithril::new(&Config::default(), setup)
    }

    fn mined(first: u64, times: &[u32]) -> Mined {
        let mut all = [0; TIMES];
        all[..times.len()].copy_from_slice(times);
        Mined {
            first,
            blocks: 1,
            times: all,
            count: times.len(),
            is_frequent: false,
        }
    }

    #[test]
    fn times_must_be_near_each_other_but_for_one_pair() {
        let one = mined(1, &[12, 90, 305]);
        for (times, is_after) in [
            (&[15, 97, 306][..], true),
            (&[15, 97, 400], true),
            (&[15, 200, 400], false),
            (&[15, 97], true),
            (&[11, 89, 306], false),
            (&[15, 97, 306, 500, 600], false),
        ] {
            assert_eq!(one.goes_before(&mined(2, times), 20), is_after, "{times:?}");
        }
    }

    /// Pairs that are far from each other on the disk, read now and then among much else.
    #[test]
    fn what_is_read_at_the_same_times_is_guessed() {
        let mut miner = miner();
        let pair = |pair: u64| (pair * 10, 1_000_000 + pair * 10);
        let mut guesses = Vec::new();
        for round in 0..3_u64 {
            for one in 0..600 {
                let (first, second) = pair(one);
                let between = 5_000_000 + (round * 600 + one) * 10;
                for first in [first, between, second] {
                    guesses.clear();
                    miner.read(Run::new(first, 2).unwrap(), false, &mut guesses);
                    if first == pair(one).0 && round == 2 && one < 100 {
                        let found = guesses
                            .iter()
                            .any(|guess| guess.run.first().get() == second);
                        assert!(found, "{one}: {guesses:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn misses_alone_are_recorded_if_asked_for() {
        let mut miner = miner();
        miner.recorded = Recorded::Misses;
        for _ in 0..3 {
            miner.read(Run::new(7, 1).unwrap(), true, &mut Vec::new());
        }
        assert!(miner.once.get(7).is_none());
        miner.read(Run::new(7, 1).unwrap(), false, &mut Vec::new());
        assert!(miner.once.get(7).is_some());
    }
}
