//! Frequency: a block enters flash when it was accessed often enough, the more important its VM the
//! sooner.
//!
//! ```text
//!   miss ─► uses + 1 ─► uses x weight of the VM >= threshold? ── yes ──► flash
//!             │         or a VM of high priority?             └─ no ───► refused
//!             ▼
//!   [ uses of reads ][ uses of writes ]    sketches: four bits a counter, halved now and then
//! ```
//!
//! The hypervisor's tier of `MultiCache`: a block's weight is its access frequency times
//! W = (CPUs / all CPUs) x (memory / all memory) of its VM, and it enters when that reaches
//! `FREQ_THRESHOLD`; reads and writes have metadata of their own; VMs of high priority pass. Counting is
//! bounded as in `TinyLFU` (G. Einziger, R. Friedman, B. Manes, ACM TOS 2017): a count-min sketch, all of whose
//! counters are halved after so many uses, which makes a frequency of a sum. A counter ends at 15, so a
//! threshold that a VM could reach only with more is 15 uses for it. Hits are not counted.

use units::Bytes;

use super::sequential::CUTOFF;
use super::{Access, Admission, Configured, Fate, Reason, Share, Staged, Verdict};
use crate::replacement::sketch::Sketch;
use crate::replacement::{About, BadValue, Fraction, Key, Parameter, Settings, parse_count};

/// What is to be known of it.
pub const ABOUT: About = About {
    name: "frequency",
    other_names: &[],
    paper: "MultiCache: frequency of a block x weight of its VM; bounded counting after G. Einziger, R. Friedman, B. Manes, \"TinyLFU: a highly efficient cache admission policy\", ACM TOS 13(4), 2017",
    queues: &[],
    parameters: &[
        Parameter {
            name: "threshold",
            meaning: "frequency x weight from which on a block enters flash",
            takes: "0.000001 to 15",
        },
        Parameter {
            name: "age",
            meaning: "uses after which all counts are halved, as a multiple of the blocks of flash",
            takes: "1 to 100",
        },
        CUTOFF,
    ],
    knows_future: false,
};

/// Its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Frequency x weight from which on a block enters flash, or memory.
    pub threshold: Fraction,
    /// Uses after which all counts are halved, as a multiple of the blocks that there is room for.
    pub age: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            threshold: Fraction::millionths(2_000_000),
            age: 10,
        }
    }
}

impl Settings for Config {
    fn set(&mut self, name: &str, value: &str) -> Result<(), BadValue> {
        if name == "threshold" {
            let (from, to) = (Fraction::millionths(1), Fraction::millionths(15_000_000));
            self.threshold = Fraction::parse(value, from, to)?;
        } else {
            self.age = parse_count(value, 1, 100)?;
        }
        Ok(())
    }

    fn get(&self, name: &str) -> String {
        if name == "threshold" {
            self.threshold.to_string()
        } else {
            self.age.to_string()
        }
    }
}

impl Configured for Config {}

/// The greatest count.
const USES_MAX: u64 = 15;

/// Frequency x weight.
#[derive(Debug)]
pub struct Frequency {
    reads: Sketch,
    writes: Sketch,
    threshold: Fraction,
    age: u32,
    /// Uses from which on a block enters flash.
    needed: u64,
}

fn sketch(share: Share, age: u32) -> Sketch {
    let half = Bytes::new(share.staging.get() / 2);
    Sketch::within(half, share.blocks.saturating_mul(u64::from(age)))
}

/// Uses that times the weight reach the threshold.
fn needed(threshold: Fraction, share: Share) -> u64 {
    if share.high_priority {
        return 0;
    }
    let (threshold, weight) = (threshold.get_millionths(), share.weight.get_millionths());
    match weight {
        0 => USES_MAX,
        weight => u64::from(threshold.div_ceil(weight)).clamp(1, USES_MAX),
    }
}

impl Frequency {
    /// Nothing counted.
    pub fn new(config: &Config, share: Share) -> Self {
        Self {
            reads: sketch(share, config.age),
            writes: sketch(share, config.age),
            threshold: config.threshold,
            age: config.age,
            needed: needed(config.threshold, share),
        }
    }

    /// The VM weighs as this share says. What was counted stays.
    pub fn weigh(&mut self, share: Share) {
        self.needed = needed(self.threshold, share);
    }
}

impl<K: Key> Admission<K> for Frequency {
    fn missed(&mut self, key: K, access: Access, _left: &mut Vec<(K, Fate)>) -> Verdict {
        let sketch = if access.write {
            &mut self.writes
        } else {
            &mut self.reads
        };
        let hash = Sketch::hash(key);
        sketch.add(hash);
        if sketch.estimate(hash) >= self.needed {
            Verdict::Admit
        } else {
            Verdict::Refuse(Reason::TooCold)
        }
    }

    fn staged_hit(&mut self, _key: K, _access: Access, _left: &mut Vec<(K, Fate)>) -> Staged {
        Staged::Drop
    }

    fn hit(&mut self, _key: K, _access: Access) {}

    fn evicted(&mut self, _key: K) {}

    fn withheld(&mut self, _key: K) {}

    fn remove(&mut self, key: K) -> bool {
        let hash = Sketch::hash(key);
        self.reads.forget(hash);
        self.writes.forget(hash);
        false
    }

    /// The counts stay while the tables' length does, which is a power of two.
    fn resize(&mut self, share: Share, _left: &mut Vec<(K, Fate)>) {
        self.weigh(share);
        for table in [&mut self.reads, &mut self.writes] {
            let other = sketch(share, self.age);
            if other.memory_bytes() == table.memory_bytes() {
                table.set_age(&other);
            } else {
                *table = other;
            }
        }
    }

    fn memory(&self) -> Bytes {
        Bytes::new((self.reads.memory_bytes() + self.writes.memory_bytes()) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{read, verdicts};
    use super::*;

    const COLD: Verdict = Verdict::Refuse(Reason::TooCold);

    fn share() -> Share {
        Share::new(1000, Bytes::mib(1))
    }

    #[test]
    fn a_block_enters_on_the_use_that_reaches_the_threshold() {
        let mut frequency = Frequency::new(&Config::default(), share());
        assert_eq!(
            verdicts(&mut frequency, &[1, 2, 1, 1]),
            [COLD, COLD, Verdict::Admit, Verdict::Admit]
        );
    }

    /// Two of eight CPUs and half of the memory weigh 1/8; a threshold of 0.5 is then four uses.
    #[test]
    fn a_light_vm_must_use_a_block_more_often() {
        let weight = Share::weight_of(2, 8, 16, 32);
        let config = Config {
            threshold: Fraction::millionths(500_000),
            age: 10,
        };
        let mut frequency = Frequency::new(&config, share().with_weight(weight));
        assert_eq!(
            verdicts(&mut frequency, &[1, 1, 1, 1]),
            [COLD, COLD, COLD, Verdict::Admit]
        );
    }

    #[test]
    fn a_vm_of_high_priority_passes() {
        let mut frequency = Frequency::new(&Config::default(), share().with_high_priority());
        assert_eq!(verdicts(&mut frequency, &[1]), [Verdict::Admit]);
    }

    #[test]
    fn reads_and_writes_are_counted_apart() {
        let mut frequency = Frequency::new(&Config::default(), share());
        let write = Access {
            write: true,
            ..read()
        };
        let mut missed = |access| frequency.missed(1u64, access, &mut Vec::new());
        assert_eq!(missed(read()), COLD);
        assert_eq!(missed(write), COLD);
        assert_eq!(missed(write), Verdict::Admit);
        assert_eq!(missed(read()), Verdict::Admit);
    }

    #[test]
    fn a_discarded_block_has_no_uses() {
        let mut frequency = Frequency::new(&Config::default(), share());
        assert_eq!(verdicts(&mut frequency, &[1, 2]), [COLD, COLD]);
        assert!(!Admission::<u64>::remove(&mut frequency, 1));
        assert_eq!(
            verdicts(&mut frequency, &[1, 2]),
            [COLD, Verdict::Admit],
            "of another nothing is forgotten"
        );
    }

    /// After ten times the cache's 10 blocks of uses one use is none again.
    #[test]
    fn counts_fade() {
        let mut frequency = Frequency::new(&Config::default(), Share::new(10, Bytes::mib(1)));
        let once: Vec<u64> = (0..100).collect();
        verdicts(&mut frequency, &once);
        assert_eq!(verdicts(&mut frequency, &[0]), [COLD]);
    }
}
