//! Probation: new blocks wait in a small FIFO in RAM, with their bytes; what is used there, or comes
//! back soon after, enters flash.
//!
//! ```text
//!   miss ─► data (1 % of the flash, FIFO) ── used often enough ──► flash     when it leaves, or
//!              │ not                                                 ▲        at once
//!              ▼ its bytes dropped                                   │
//!           ghosts (addresses, FIFO) ── miss again ──────────────────┘
//!              └─► forgotten
//! ```
//!
//! S3-FIFO's small queue put in RAM in front of flash (J. Yang, Y. Zhang, Z. Qiu, Y. Yue, K. V. Rashmi, "FIFO
//! queues are all you need for cache eviction", SOSP 2023, section on flash), and `Clock2Q+`'s. Uses that follow
//! closely on an arrival are served from RAM and cost no write; what is used once costs none at all.

use units::{BLOCK_BYTES, Bytes};

use super::queues::{MARK_MAX, Queues};
use super::sequential::CUTOFF;
use super::sizes::{DATA_PARAMETER, DataSize, GHOSTS_PARAMETER, Wanted, parse_ghosts, split};
use super::writes::{WRITES, Writes};
use super::{Access, Admission, Configured, Fate, Reason, Share, Staged, Verdict};
use crate::replacement::{About, BadValue, Fraction, Key, Parameter, Settings, parse_count};

/// What is to be known of it.
pub const ABOUT: About = About {
    name: "probation",
    other_names: &["s3-fifo-flash"],
    paper: "J. Yang, Y. Zhang, Z. Qiu, Y. Yue, K. V. Rashmi, \"FIFO queues are all you need for cache eviction\", SOSP 2023: the small queue in RAM, the main one on flash",
    queues: &[
        ("data", "newcomers with their bytes, in RAM, by arrival"),
        ("ghosts", "ghosts of those that left it, by departure"),
    ],
    parameters: &[
        DATA_PARAMETER,
        GHOSTS_PARAMETER,
        Parameter {
            name: "threshold",
            meaning: "uses in RAM after which a block enters flash without leaving first",
            takes: "1 to 1000",
        },
        Parameter {
            name: "when",
            meaning: "when such a block enters flash: when it leaves the RAM, or at once",
            takes: "leaving or at-once",
        },
        WRITES,
        CUTOFF,
    ],
    knows_future: false,
};

/// Its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// RAM for newcomers' bytes.
    pub data: DataSize,
    /// Addresses remembered, as a part of the blocks of flash.
    pub ghosts: Fraction,
    /// Uses in RAM after which a block enters flash.
    pub threshold: u32,
    /// Whether such a block enters flash at once, not when it leaves the RAM.
    pub at_once: bool,
    /// What a written block's first access leaves.
    pub writes: Writes,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            data: DataSize::Part(Fraction::millionths(10_000)),
            ghosts: Fraction::ONE,
            threshold: 2,
            at_once: false,
            writes: Writes::Data,
        }
    }
}

impl Settings for Config {
    fn set(&mut self, name: &str, value: &str) -> Result<(), BadValue> {
        match (name, value) {
            ("data", _) => self.data = DataSize::parse(value)?,
            ("ghosts", _) => self.ghosts = parse_ghosts(value)?,
            ("threshold", _) => self.threshold = parse_count(value, 1, 1000)?,
            ("when", "leaving") => self.at_once = false,
            ("when", "at-once") => self.at_once = true,
            ("writes", _) => self.writes = Writes::parse(value)?,
            _ => return Err(BadValue),
        }
        Ok(())
    }

    fn get(&self, name: &str) -> String {
        match name {
            "data" => self.data.to_string(),
            "ghosts" => self.ghosts.to_string(),
            "threshold" => self.threshold.to_string(),
            "when" if self.at_once => "at-once".to_owned(),
            "when" => "leaving".to_owned(),
            _ => self.writes.to_string(),
        }
    }
}

impl Configured for Config {}

const DATA: usize = 0;
const GHOSTS: usize = 1;

/// Probation.
#[derive(Debug)]
pub struct Probation<K: Copy> {
    /// A mark is the number of uses in RAM.
    queues: Queues<K, 2>,
    data_max: u32,
    ghosts_max: u32,
    config: Config,
}

impl<K: Key> Probation<K> {
    /// Nothing staged.
    pub fn new(config: &Config, share: Share) -> Self {
        let (data_max, ghosts_max) = Self::room(config, share);
        Self {
            queues: Queues::new(data_max + ghosts_max + 1),
            data_max,
            ghosts_max,
            config: *config,
        }
    }

    fn room(config: &Config, share: Share) -> (u32, u32) {
        let wanted = Wanted {
            data: config.data,
            row_bytes: Queues::<K, 2>::ROW_BYTES,
            ghosts: config.ghosts,
            ghost_bytes: Queues::<K, 2>::ROW_BYTES,
            ghosts_first: 0,
        };
        let split = split(wanted, share);
        let limit = Queues::<K, 2>::rows_within(Bytes::new(u64::MAX)) / 2;
        let limited = |count: u64| u32::try_from(count).unwrap_or(limit).min(limit);
        let least = Queues::<K, 2>::rows_within(Bytes::ZERO);
        let ghosts = limited(split.ghosts);
        let none_wanted = config.ghosts == Fraction::ZERO;
        (
            limited(split.data_blocks),
            if none_wanted { 0 } else { ghosts.max(least) },
        )
    }

    /// Lets go of what there is no room for.
    fn trim(&mut self, left: &mut Vec<(K, Fate)>) {
        while self.queues.len(DATA) > self.data_max {
            let oldest = self.queues.oldest(DATA).expect("there are too many");
            let key = self.queues.key(oldest);
            if self.queues.mark(oldest) >= self.config.threshold {
                self.queues.forget(oldest);
                left.push((key, Fate::Admit));
            } else {
                self.queues.move_to(oldest, GHOSTS);
                left.push((key, Fate::Drop));
            }
        }
        self.trim_ghosts();
    }

    fn trim_ghosts(&mut self) {
        while self.queues.len(GHOSTS) > self.ghosts_max {
            self.queues.pop_oldest(GHOSTS);
        }
    }

    fn remember(&mut self, key: K) {
        self.queues.push(GHOSTS, key, 0);
        self.trim_ghosts();
    }
}

impl<K: Key> Admission<K> for Probation<K> {
    fn missed(&mut self, key: K, access: Access, left: &mut Vec<(K, Fate)>) -> Verdict {
        let known = self.queues.find(key);
        let is_staged = known.is_some_and(|place| self.queues.queue(place) == DATA);
        if access.write && self.config.writes.refused() && !is_staged {
            if self.config.writes == Writes::Note && known.is_none() {
                self.remember(key);
            }
            return Verdict::Refuse(Reason::Write);
        }
        match known {
            Some(place) if !is_staged => {
                self.queues.forget(place);
                Verdict::Admit
            }
            Some(_) => match self.staged_hit(key, access, left) {
                Staged::Admit => Verdict::Admit,
                Staged::Stays => Verdict::Stage,
                Staged::Drop => Verdict::Refuse(Reason::FirstTouch),
            },
            None if self.data_max == 0
                || (access.write && self.config.writes == Writes::Address) =>
            {
                self.remember(key);
                Verdict::Refuse(Reason::FirstTouch)
            }
            None => {
                self.queues.push(DATA, key, 0);
                self.trim(left);
                Verdict::Stage
            }
        }
    }

    fn staged_hit(&mut self, key: K, _access: Access, _left: &mut Vec<(K, Fate)>) -> Staged {
        let Some(place) = self.queues.find(key) else {
            return Staged::Drop;
        };
        if self.queues.queue(place) == GHOSTS {
            return Staged::Drop;
        }
        let uses = (self.queues.mark(place) + 1).min(MARK_MAX);
        if self.config.at_once && uses >= self.config.threshold {
            self.queues.forget(place);
            return Staged::Admit;
        }
        self.queues.set_mark(place, uses);
        Staged::Stays
    }

    fn hit(&mut self, _key: K, _access: Access) {}

    fn evicted(&mut self, _key: K) {}

    fn withheld(&mut self, key: K) {
        if self.queues.find(key).is_none() {
            self.remember(key);
        }
    }

    fn remove(&mut self, key: K) -> bool {
        let Some(place) = self.queues.find(key) else {
            return false;
        };
        let staged = self.queues.queue(place) == DATA;
        self.queues.forget(place);
        staged
    }

    fn resize(&mut self, share: Share, left: &mut Vec<(K, Fate)>) {
        let (data_max, ghosts_max) = Self::room(&self.config, share);
        let wanted = data_max + ghosts_max + 1;
        let missing = wanted.saturating_sub(self.queues.capacity_after(wanted));
        self.ghosts_max = ghosts_max.saturating_sub(missing);
        self.data_max = data_max - (missing - (ghosts_max - self.ghosts_max));
        self.trim(left);
        self.queues.resize(wanted);
    }

    fn memory(&self) -> Bytes {
        let staged = u64::from(self.queues.len(DATA)) * BLOCK_BYTES;
        self.queues.memory() + Bytes::new(staged)
    }
}
