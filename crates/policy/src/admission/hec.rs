//! HEC: a block enters flash when it, or a block near it, was touched before; long runs never do.
//!
//! ```text
//!   miss ─► run > 4 MiB? ─ yes ─► refused (SSEQR: the parameter `cutoff`)
//!              └─ no ─► touched before? ── by=region: its 4 MiB    (HEC)
//!                          │               by=block:  itself       (CloudCache's comparison with HEC)
//!                          ├─ yes ─► flash
//!                          └─ no ──► touched from now on, refused
//!
//!   touched: [ bits of this generation | bits of the last one ]   two bits a touch, in one cache line
//!            when a third of this generation's bits are set it becomes the last one
//! ```
//!
//! J. Yang, N. Plasson, G. Gillis, N. Talagala, S. Sundararaman, R. Wood, "HEC: improving endurance of high
//! performance flash-based cache devices", SYSTOR 2013: touch count (TC) and selective sequential
//! rejection (SSEQR). D. Arteaga et al. (FAST 2016) gave its bitmap a bit for every block. Their bitmaps
//! cover all blocks of the origin and forget nothing; ours hashes into bits of bounded number, so that
//! about one first touch in nine is taken for a second one at worst, and what was touched before the last
//! generation is forgotten. A block that is removed loses one of its two bits, and with it two fifths of a block on
//! average that shares the bit; of regions nothing is taken back, since they have other blocks.

use std::hash::{BuildHasher, Hash};

use foldhash::fast::FixedState;
use units::Bytes;

use super::limits::TOUCHED_BYTES_MAX;
use super::sequential::CUTOFF;
use super::{Access, Admission, Configured, Fate, REGION, Reason, Share, Staged, Verdict};
use crate::replacement::{About, BadValue, Key, Parameter, Settings};

/// What is to be known of it.
pub const ABOUT: About = About {
    name: "hec",
    other_names: &[],
    paper: "J. Yang, N. Plasson, G. Gillis, N. Talagala, S. Sundararaman, R. Wood, \"HEC: improving endurance of high performance flash-based cache devices\", SYSTOR 2013",
    queues: &[],
    parameters: &[
        Parameter {
            name: "by",
            meaning: "whose touches count: of the block's 4 MiB region, or of the block",
            takes: "region or block",
        },
        CUTOFF,
    ],
    knows_future: false,
};

/// Whose touches count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum By {
    /// Of all blocks of 4 MiB.
    Region,
    /// Of the block alone.
    #[default]
    Block,
}

/// Its parameters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// Whose touches count.
    pub by: By,
}

impl Settings for Config {
    fn set(&mut self, _name: &str, value: &str) -> Result<(), BadValue> {
        self.by = match value {
            "region" => By::Region,
            "block" => By::Block,
            _ => return Err(BadValue),
        };
        Ok(())
    }

    fn get(&self, _name: &str) -> String {
        match self.by {
            By::Region => "region".to_owned(),
            By::Block => "block".to_owned(),
        }
    }
}

impl Configured for Config {
    const CUTOFF: Option<Bytes> = Some(REGION);
}

const LINE_WORDS: usize = 8;

/// A line of bits.
type Line = [u64; LINE_WORDS];

const LINE_BITS: u64 = 512;

/// HEC.
#[derive(Debug)]
pub struct Hec {
    by: By,
    now: Vec<Line>,
    last: Vec<Line>,
    /// Bits set in `now`.
    set: u64,
}

fn lines(share: Share) -> usize {
    let each = share.staging.min(TOUCHED_BYTES_MAX).get() / 2;
    let lines = Bytes::new(each / (LINE_BITS / 8)).to_usize().max(1);
    // A power of two: then tables of all lengths agree on which lines come from the same touches.
    1 << lines.ilog2()
}

/// A line and two bits in it.
struct Touch {
    line: usize,
    bits: [(usize, u64); 2],
}

fn hash_of(of: impl Hash) -> u64 {
    FixedState::with_seed(2).hash_one(of)
}

/// The bits of both of two lines.
fn either(lines: &[Line]) -> Line {
    std::array::from_fn(|word| lines[0][word] | lines[1][word])
}

impl Hec {
    /// Nothing touched.
    pub fn new(config: &Config, share: Share) -> Self {
        let lines = lines(share);
        Self {
            by: config.by,
            now: vec![[0; LINE_WORDS]; lines],
            last: vec![[0; LINE_WORDS]; lines],
            set: 0,
        }
    }

    fn touch_of<K: Key>(&self, key: K, access: Access) -> Touch {
        self.touch_of_hash(match self.by {
            By::Region => hash_of(access.region),
            By::Block => hash_of(key),
        })
    }

    fn touch_of_hash(&self, hash: u64) -> Touch {
        let line = ((hash >> 32) * self.now.len() as u64) >> 32;
        let bit = |bits: u64| {
            let word = usize::try_from(bits & 7).expect("three bits");
            (word, 1 << (bits >> 3 & 63))
        };
        Touch {
            line: usize::try_from(line).expect("it is below the number of lines"),
            bits: [bit(hash), bit(hash >> 9)],
        }
    }

    /// Takes a touch back, in both generations.
    fn forget(&mut self, touch: &Touch) {
        let (word, bit) = touch.bits[0];
        let now = &mut self.now[touch.line][word];
        self.set -= u64::from(*now & bit != 0);
        *now &= !bit;
        self.last[touch.line][word] &= !bit;
    }

    /// Touches it. True if it was touched before.
    fn touch(&mut self, touch: &Touch) -> bool {
        let is_set = |line: &Line| touch.bits.iter().all(|(word, bit)| line[*word] & bit != 0);
        if is_set(&self.now[touch.line]) {
            return true;
        }
        let before = is_set(&self.last[touch.line]);
        for (word, bit) in touch.bits {
            let word = &mut self.now[touch.line][word];
            self.set += u64::from(*word & bit == 0);
            *word |= bit;
        }
        if self.set * 3 > self.now.len() as u64 * LINE_BITS {
            std::mem::swap(&mut self.now, &mut self.last);
            self.now.fill([0; LINE_WORDS]);
            self.set = 0;
        }
        before
    }
}

impl<K: Key> Admission<K> for Hec {
    fn missed(&mut self, key: K, access: Access, _left: &mut Vec<(K, Fate)>) -> Verdict {
        let touch = self.touch_of(key, access);
        if self.touch(&touch) {
            Verdict::Admit
        } else {
            Verdict::Refuse(Reason::FirstTouch)
        }
    }

    fn staged_hit(&mut self, _key: K, _access: Access, _left: &mut Vec<(K, Fate)>) -> Staged {
        Staged::Drop
    }

    fn hit(&mut self, _key: K, _access: Access) {}

    fn evicted(&mut self, _key: K) {}

    fn withheld(&mut self, _key: K) {}

    fn remove(&mut self, key: K) -> bool {
        if self.by == By::Block {
            self.forget(&self.touch_of_hash(hash_of(key)));
        }
        false
    }

    /// Two lines become one with the bits of both; a line becomes two with its bits in each.
    fn resize(&mut self, share: Share, _left: &mut Vec<(K, Fate)>) {
        let after = lines(share);
        for table in [&mut self.now, &mut self.last] {
            while table.len() > after {
                *table = table.chunks_exact(2).map(either).collect();
            }
            while table.len() < after {
                *table = table.iter().flat_map(|line| [*line; 2]).collect();
            }
        }
        let words = self.now.as_flattened().iter();
        self.set = words.map(|word| u64::from(word.count_ones())).sum();
    }

    fn memory(&self) -> Bytes {
        let lines = self.now.capacity() + self.last.capacity();
        Bytes::new((lines * size_of::<Line>()) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{read, verdicts};
    use super::*;

    fn hec(by: By, staging: Bytes) -> Hec {
        Hec::new(&Config { by }, Share::new(1000, staging))
    }

    #[test]
    fn a_block_enters_when_it_was_touched_before() {
        let mut hec = hec(By::Block, Bytes::mib(1));
        let admit = Verdict::Admit;
        let refuse = Verdict::Refuse(Reason::FirstTouch);
        assert_eq!(
            verdicts(&mut hec, &[1, 2, 1, 3, 2, 3]),
            [refuse, refuse, admit, refuse, admit, admit]
        );
    }

    #[test]
    fn a_discarded_block_is_untouched_and_its_region_is_not() {
        let admit = Verdict::Admit;
        let refuse = Verdict::Refuse(Reason::FirstTouch);
        for (by, then) in [(By::Block, refuse), (By::Region, admit)] {
            let mut hec = hec(by, Bytes::mib(1));
            assert_eq!(verdicts(&mut hec, &[1])[0], refuse);
            assert!(!Admission::<u64>::remove(&mut hec, 1));
            assert_eq!(verdicts(&mut hec, &[1, 1]), [then, admit], "{by:?}");
        }
    }

    /// Two bits of every touch go into lines of 512, a third of which are set at most: forgetting 200 of 1000 takes
    /// two fifths of a touch of others each, at worst.
    #[test]
    fn forgetting_a_block_forgets_few_others() {
        let mut hec = hec(By::Block, Bytes::kib(2));
        for key in 0..1000u64 {
            hec.missed(key, read(), &mut Vec::new());
        }
        for key in 0..200u64 {
            Admission::<u64>::remove(&mut hec, key);
        }
        let touched = |key: &u64| {
            let touch = hec.touch_of(*key, read());
            let is_set = |line: &Line| touch.bits.iter().all(|(word, bit)| line[*word] & bit != 0);
            is_set(&hec.now[touch.line]) || is_set(&hec.last[touch.line])
        };
        assert_eq!((0..200u64).filter(touched).count(), 0);
        let others = (200..1000u64).filter(touched).count();
        assert!(others > 720, "{others} of 800");
    }

    #[test]
    fn a_block_enters_when_its_region_was_touched_before() {
        let mut hec = hec(By::Region, Bytes::mib(1));
        let in_region = |region| Access { region, ..read() };
        let mut missed = |key: u64, region| hec.missed(key, in_region(region), &mut Vec::new());
        assert_eq!(missed(1, 7), Verdict::Refuse(Reason::FirstTouch));
        assert_eq!(missed(2, 7), Verdict::Admit);
        assert_eq!(missed(3, 8), Verdict::Refuse(Reason::FirstTouch));
    }

    #[test]
    fn touches_survive_a_resize_and_old_ones_are_forgotten() {
        let mut hec = hec(By::Block, Bytes::kib(64));
        for key in 0..1000u64 {
            hec.missed(key, read(), &mut Vec::new());
        }
        let touched = |hec: &Hec, keys: std::ops::Range<u64>| {
            keys.filter(|key| {
                let touch = hec.touch_of(*key, read());
                let is_set =
                    |line: &Line| touch.bits.iter().all(|(word, bit)| line[*word] & bit != 0);
                is_set(&hec.now[touch.line]) || is_set(&hec.last[touch.line])
            })
            .count()
        };
        for staging in [Bytes::kib(256), Bytes::kib(32)] {
            Admission::<u64>::resize(&mut hec, Share::new(1000, staging), &mut Vec::new());
            assert_eq!(touched(&hec, 0..1000), 1000);
            assert!(Admission::<u64>::memory(&hec) <= staging);
        }
        for key in 1000..500_000u64 {
            hec.missed(key, read(), &mut Vec::new());
        }
        let still = touched(&hec, 0..1000);
        assert!(
            still < 250,
            "{still} of 1000, most of them taken for touched by chance"
        );
    }
}
