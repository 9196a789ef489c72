//! Reuse age: a block enters flash when it comes back sooner than it would leave flash again.
//!
//! ```text
//!   miss ─► data (1 % of the flash, FIFO, bytes in RAM)      uses here are one use: they cost nothing
//!              ▼ its bytes dropped
//!           ghosts: last seen, came back so often ── miss again, after `interval` misses
//!                                                        │
//!             interval x once  <= age? (first return)    ├─ yes ──► flash
//!             interval x again <= age? (any later one)   └─ no ───► seen now, come back once more
//!
//!   age of flash = blocks of flash x misses / blocks admitted       (Little's law; both counts fade)
//! ```
//!
//! A write to flash pays if the block is used again before it is reclaimed. How long a block stays follows
//! from the policy's own doing: with C blocks and one admission every m misses it stays for C x m misses on
//! average. So the filter needs no size: where flash turns over fast only blocks in quick use come in, which
//! slows it down; where it is large, everything that comes back does. Blocks that are used stay longer than
//! that average and others leave earlier, so an interval must be several times shorter than the age. One
//! return is weaker evidence than two: hence two factors, `once` and `again`. While flash has not been full
//! there is no age, and whatever comes back is admitted.
//!
//! Written blocks gain only if they are read before they are written again. How many are differs from one in two of some
//! guests to one in a thousand of others, so it is learned from a sample (`returns.rs`, `writes=learned`). Where a quarter is
//! read, a write is like a read, and enters flash at once as long as that has not been full. From a tenth on it is
//! evidence, but only a read admits. Where fewer are read it counts for nothing: written blocks that nobody reads
//! would be written to flash over and over again.
//!
//! The idea of admitting by comparing reuse with what the cache can hold is old; nearest are Flashield
//! (A. Eisenman et al., NSDI 2019: "flashiness" predicted from accesses in RAM), the reject-first admission and
//! reuse predictors of `CacheLib` (B. Berg et al., OSDI 2020), `TinyLFU`'s duel, and LARC. Here the threshold
//! is measured, by Little's law (J. D. C. Little, 1961), not trained or set.
//!
//! Time is counted in misses: hits cost nothing at all. An address costs 8 bytes (`ghosts.rs`).

use units::{BLOCK_BYTES, Bytes};

use super::ghosts::{GHOST_BYTES, Ghost, Ghosts, Name, between};
use super::queues::{MARK_MAX, Queues};
use super::rewrites::{REWRITES, Rewrites};
use super::sequential::CUTOFF;
use super::sizes::{DATA_PARAMETER, DataSize, GHOSTS_PARAMETER, Wanted, parse_ghosts, split};
use super::writes::{WRITE_RULE, WriteRule, Writes, Written};
use super::{Access, Admission, Configured, Fate, Reason, Share, Staged, Verdict};
use crate::replacement::{About, BadValue, Fraction, Key, Parameter, Settings, parse_count};

/// What is to be known of it.
pub const ABOUT: About = About {
    name: "reuse-age",
    other_names: &[],
    paper: "Hearth's own: reuse interval against the age of flash by Little's law; after Flashield (NSDI 2019), CacheLib (OSDI 2020), TinyLFU, LARC, S3-FIFO",
    queues: &[
        ("data", "newcomers with their bytes, in RAM, by arrival"),
        ("ghosts", "ghosts: when each was last seen, in 8 bytes"),
    ],
    parameters: &[
        DATA_PARAMETER,
        GHOSTS_PARAMETER,
        Parameter {
            name: "once",
            meaning: "how many times shorter than the age of flash the interval of a first return must be",
            takes: "1 to 1000000",
        },
        Parameter {
            name: "again",
            meaning: "the same for a second or later return",
            takes: "1 to 1000000",
        },
        WRITE_RULE,
        REWRITES,
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
    /// How many times shorter than the age of flash the interval of a first return must be.
    pub once: u32,
    /// The same for a second or later return.
    pub again: u32,
    /// What a written block's first access leaves.
    pub writes: WriteRule,
    /// Rewrites new copies of written blocks on flash are written there.
    pub rewrites: Rewrites,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            data: DataSize::Part(Fraction::millionths(10_000)),
            ghosts: Fraction::millionths(1_500_000),
            once: 1024,
            again: 16,
            writes: WriteRule::Learned,
            rewrites: Rewrites::Unread(2),
        }
    }
}

/// Hundredths of scarce RAM that addresses take first: with a five-hundredth of the flash they bring a tenth
/// more read hits than the same RAM split as it would be with plenty.
const GHOSTS_FIRST: u64 = 75;

const FACTOR_MAX: u32 = 1_000_000;

impl Settings for Config {
    fn set(&mut self, name: &str, value: &str) -> Result<(), BadValue> {
        match (name, value) {
            ("data", _) => self.data = DataSize::parse(value)?,
            ("ghosts", _) => self.ghosts = parse_ghosts(value)?,
            ("once", _) => self.once = parse_count(value, 1, FACTOR_MAX)?,
            ("again", _) => self.again = parse_count(value, 1, FACTOR_MAX)?,
            ("writes", _) => self.writes = WriteRule::parse(value)?,
            ("rewrites", _) => self.rewrites = Rewrites::parse(value)?,
            _ => return Err(BadValue),
        }
        Ok(())
    }

    fn get(&self, name: &str) -> String {
        match name {
            "data" => self.data.to_string(),
            "ghosts" => self.ghosts.to_string(),
            "once" => self.once.to_string(),
            "again" => self.again.to_string(),
            "rewrites" => self.rewrites.to_string(),
            _ => self.writes.to_string(),
        }
    }
}

impl Configured for Config {}

/// How fast flash turns over.
#[derive(Debug)]
struct Turnover {
    blocks: u64,
    /// Fading counts: halved when misses reach the blocks of flash.
    misses: u64,
    admitted: u64,
    /// Whether a block has left since flash last grew: before, none has an age.
    full: bool,
}

/// The least misses over which turnover is measured.
const MISSES_LEAST: u64 = 100;

impl Turnover {
    const fn new(share: Share) -> Self {
        Self {
            blocks: share.blocks,
            misses: 0,
            admitted: 0,
            full: false,
        }
    }

    #[inline]
    fn miss(&mut self) {
        self.misses += 1;
        if self.misses > self.blocks.max(MISSES_LEAST) {
            self.misses /= 2;
            self.admitted /= 2;
        }
    }

    /// Whether a block would still be there after so many times this interval.
    #[inline]
    fn outlasts(&self, interval: u64, times: u32) -> bool {
        if !self.full || self.admitted == 0 {
            return true;
        }
        let needed = u128::from(interval) * u128::from(times) * u128::from(self.admitted);
        needed <= u128::from(self.blocks) * u128::from(self.misses)
    }
}

const DATA: usize = 0;

/// A written block is worth a place on flash if it is read within so many misses for each block there. That is long, for
/// behind this policy one miss in thirty enters flash; with 4 or 64 it has fewer read hits (`benches/results/admission.md`).
const WRITTEN_SPAN: u64 = 32;

const fn written_span(share: Share) -> u64 {
    share.blocks.saturating_mul(WRITTEN_SPAN)
}

/// Reuse age.
#[derive(Debug)]
pub struct ReuseAge<K: Copy> {
    /// A mark is when the block arrived, as ghosts know it.
    staged: Queues<K, 1>,
    data_max: u32,
    ghosts: Ghosts,
    turnover: Turnover,
    /// What is made of written blocks; its clock is misses.
    written: Written,
    /// Misses since the beginning.
    now: u64,
    config: Config,
}

impl<K: Key> ReuseAge<K> {
    /// Nothing staged, nothing known.
    pub fn new(config: &Config, share: Share) -> Self {
        let (data_max, ghosts) = Self::room(config, share);
        Self {
            staged: Queues::new(data_max + 1),
            data_max,
            ghosts: Ghosts::new(ghosts),
            turnover: Turnover::new(share),
            written: Written::new(config.writes, written_span(share)),
            now: 0,
            config: *config,
        }
    }

    fn room(config: &Config, share: Share) -> (u32, u64) {
        let wanted = Wanted {
            data: config.data,
            row_bytes: Queues::<K, 1>::ROW_BYTES,
            ghosts: config.ghosts,
            ghost_bytes: GHOST_BYTES,
            ghosts_first: GHOSTS_FIRST,
        };
        let split = split(wanted, share);
        let limit = Queues::<K, 1>::rows_within(Bytes::new(u64::MAX)) - 1;
        let data = u32::try_from(split.data_blocks).unwrap_or(limit).min(limit);
        (data, split.ghosts)
    }

    /// A block that was seen then and whose bytes are in RAM no longer.
    fn remember(&mut self, key: K, seen: u64, count: u32) {
        let ghost = Ghost { seen, count };
        self.ghosts.set(Name::of(key), ghost, self.now);
    }

    fn trim(&mut self, left: &mut Vec<(K, Fate)>) {
        while self.staged.len(DATA) > self.data_max {
            let (key, seen) = self.staged.pop_oldest(DATA).expect("there are too many");
            self.remember(key, u64::from(seen), 0);
            left.push((key, Fate::Drop));
        }
    }

    /// A block comes back that has left the RAM: whether it enters flash.
    fn returned(&mut self, key: K, ghost: Ghost) -> Verdict {
        let interval = between(ghost.seen, self.now);
        let times = match ghost.count {
            0 => self.config.once,
            _ => self.config.again,
        };
        if self.turnover.outlasts(interval, times) {
            self.ghosts.forget(Name::of(key));
            self.turnover.admitted += 1;
            return Verdict::Admit;
        }
        self.remember(key, self.now, ghost.count + 1);
        Verdict::Refuse(Reason::TooLate)
    }
}

impl<K: Key> Admission<K> for ReuseAge<K> {
    fn missed(&mut self, key: K, access: Access, left: &mut Vec<(K, Fate)>) -> Verdict {
        self.now += 1;
        self.turnover.miss();
        if self.staged.find(key).is_some() {
            return Verdict::Stage;
        }
        let writes = access.write.then(|| self.written.passes(key, self.now));
        match writes {
            Some(Writes::Data) if self.written.is_learned() && !self.turnover.full => {
                self.ghosts.forget(Name::of(key));
                return Verdict::Admit;
            }
            Some(Writes::Note) => {
                let count = self
                    .ghosts
                    .get(Name::of(key))
                    .map_or(0, |ghost| ghost.count);
                self.remember(key, self.now, count);
                return Verdict::Refuse(Reason::Write);
            }
            Some(Writes::Ignore) => return Verdict::Refuse(Reason::Write),
            Some(Writes::Data | Writes::Address) => {}
            None => self.written.read(key, self.now),
        }
        if let Some(ghost) = self.ghosts.get(Name::of(key)) {
            return self.returned(key, ghost);
        }
        if self.data_max == 0 || writes == Some(Writes::Address) {
            self.remember(key, self.now, 0);
            return Verdict::Refuse(Reason::FirstTouch);
        }
        let mark = u32::try_from(between(0, self.now)).expect("it has 30 bits");
        const { assert!(MARK_MAX >> 29 == 1) };
        self.staged.push(DATA, key, mark);
        self.trim(left);
        Verdict::Stage
    }

    fn staged_hit(&mut self, key: K, _access: Access, _left: &mut Vec<(K, Fate)>) -> Staged {
        self.now += 1;
        self.turnover.miss();
        match self.staged.find(key) {
            Some(_) => Staged::Stays,
            None => Staged::Drop,
        }
    }

    fn hit(&mut self, _key: K, _access: Access) {}

    fn rewrites(&mut self, key: K, _access: Access, was_read: bool) -> bool {
        let name = Name::of(key);
        let unread = self.ghosts.get(name).map_or(0, |ghost| ghost.count);
        match self.config.rewrites.after(unread, was_read) {
            Some(0) => {
                self.ghosts.forget(name);
                true
            }
            Some(unread) => {
                self.remember(key, self.now, unread);
                true
            }
            None => false,
        }
    }

    fn evicted(&mut self, _key: K) {
        self.turnover.full = true;
    }

    fn withheld(&mut self, key: K) {
        self.turnover.admitted = self.turnover.admitted.saturating_sub(1);
        self.remember(key, self.now, 1);
    }

    fn remove(&mut self, key: K) -> bool {
        self.ghosts.forget(Name::of(key));
        match self.staged.find(key) {
            Some(place) => {
                self.staged.forget(place);
                true
            }
            None => false,
        }
    }

    fn resize(&mut self, share: Share, left: &mut Vec<(K, Fate)>) {
        let (data_max, ghosts) = Self::room(&self.config, share);
        self.turnover.full &= share.blocks <= self.turnover.blocks;
        self.turnover.blocks = share.blocks;
        self.written.set_span(written_span(share));
        self.data_max = data_max.min(self.staged.capacity_after(data_max + 1) - 1);
        self.trim(left);
        self.staged.resize(data_max + 1);
        self.ghosts.resize(ghosts, self.now);
    }

    fn memory(&self) -> Bytes {
        let staged = u64::from(self.staged.len(DATA)) * BLOCK_BYTES;
        self.staged.memory() + self.ghosts.memory() + self.written.memory() + Bytes::new(staged)
    }
}
