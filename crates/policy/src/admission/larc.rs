//! LARC: a block enters flash when it is accessed again while a queue of addresses remembers it, and the
//! queue is as long as the hit ratio is bad.
//!
//! ```text
//!   miss ─► [ addresses, by last access ] ── miss again ──► flash
//!           ◄──── length Cr ────►
//!           a miss lengthens it by C / Cr, a hit shortens it by C / (C - Cr); .1 C <= Cr <= .9 C
//! ```
//!
//! S. Huang, Q. Wei, J. Chen, C. Chen, D. Feng, "Improving flash-based disk cache with lazy adaptive
//! replacement", MSST 2013. C is the tenant's share in blocks. Cr is kept to a 65,536th of a block. The
//! paper's queue may take RAM for .9 C addresses; here it ends where the share's RAM does as well.

use units::Bytes;

use super::queues::Queues;
use super::sequential::CUTOFF;
use super::{Access, Admission, Configured, Fate, Reason, Share, Staged, Verdict};
use crate::replacement::limits::CAPACITY_BLOCKS_MAX;
use crate::replacement::{About, Key, Settings};

/// What is to be known of it.
pub const ABOUT: About = About {
    name: "larc",
    other_names: &[],
    paper: "S. Huang, Q. Wei, J. Chen, C. Chen, D. Feng, \"Improving flash-based disk cache with lazy adaptive replacement\", MSST 2013",
    queues: &[("addresses", "ghosts of blocks missed once, by last access")],
    parameters: &[CUTOFF],
    knows_future: false,
};

/// It has no parameters of its own: it adapts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Config;

impl Settings for Config {}
impl Configured for Config {}

/// Cr in parts of a block.
const PARTS: u64 = 1 << 16;

/// LARC.
#[derive(Debug)]
pub struct Larc<K: Copy> {
    queues: Queues<K, 1>,
    /// C, in blocks.
    blocks: u64,
    /// Cr, in parts of a block.
    length: u64,
}

const QUEUE: usize = 0;

/// C, within what its arithmetic holds: below 2 the bounds of Cr would meet.
fn blocks_of(share: Share) -> u64 {
    share.blocks.clamp(2, u64::from(CAPACITY_BLOCKS_MAX))
}

fn least(blocks: u64) -> u64 {
    (blocks * PARTS / 10).max(PARTS)
}

fn most(blocks: u64) -> u64 {
    (blocks * PARTS / 10 * 9).max(PARTS)
}

/// Addresses at most: .9 C, one that pushes another out, and what fits into RAM.
fn rows<K: Key>(share: Share) -> u32 {
    let wanted = most(blocks_of(share)).div_ceil(PARTS) + 1;
    let wanted = u32::try_from(wanted).expect("blocks are limited");
    wanted.min(Queues::<K, 1>::rows_within(share.staging))
}

impl<K: Key> Larc<K> {
    /// An empty queue, as short as it may be.
    pub fn new(_config: &Config, share: Share) -> Self {
        let blocks = blocks_of(share);
        Self {
            queues: Queues::new(rows::<K>(share)),
            blocks,
            length: least(blocks),
        }
    }

    /// Addresses that the queue may hold now.
    fn limit(&self, room: u32) -> u32 {
        let limit = u32::try_from(self.length / PARTS).expect("blocks are limited");
        limit.min(room - 1)
    }

    fn put(&mut self, key: K) {
        self.queues.push(QUEUE, key, 0);
        while self.queues.len(QUEUE) > self.limit(self.queues.capacity()) {
            self.queues.pop_oldest(QUEUE);
        }
    }
}

impl<K: Key> Admission<K> for Larc<K> {
    fn missed(&mut self, key: K, _access: Access, _left: &mut Vec<(K, Fate)>) -> Verdict {
        let longer = (self.blocks * PARTS * PARTS) / self.length;
        self.length = (self.length + longer).min(most(self.blocks));
        if let Some(place) = self.queues.find(key) {
            self.queues.forget(place);
            return Verdict::Admit;
        }
        self.put(key);
        Verdict::Refuse(Reason::FirstTouch)
    }

    fn staged_hit(&mut self, _key: K, _access: Access, _left: &mut Vec<(K, Fate)>) -> Staged {
        Staged::Drop
    }

    #[inline]
    fn hit(&mut self, _key: K, _access: Access) {
        let least = least(self.blocks);
        if self.length > least {
            let whole = self.blocks * PARTS;
            let shorter = (whole * PARTS) / (whole - self.length);
            self.length = self.length.saturating_sub(shorter).max(least);
        }
    }

    fn evicted(&mut self, _key: K) {}

    fn withheld(&mut self, key: K) {
        if self.queues.find(key).is_none() {
            self.put(key);
        }
    }

    fn remove(&mut self, key: K) -> bool {
        if let Some(place) = self.queues.find(key) {
            self.queues.forget(place);
        }
        false
    }

    fn resize(&mut self, share: Share, _left: &mut Vec<(K, Fate)>) {
        let blocks = blocks_of(share);
        let scaled = u128::from(self.length) * u128::from(blocks) / u128::from(self.blocks);
        let scaled = u64::try_from(scaled).expect("a part of its share");
        self.blocks = blocks;
        self.length = scaled.clamp(least(blocks), most(blocks));
        let rows = rows::<K>(share);
        while self.queues.len(QUEUE) > self.limit(rows) {
            self.queues.pop_oldest(QUEUE);
        }
        self.queues.resize(rows);
    }

    fn memory(&self) -> Bytes {
        self.queues.memory()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lengths(steps: &str) -> Vec<u64> {
        let mut larc = Larc::<u64>::new(&Config, Share::new(100, Bytes::mib(1)));
        let access = super::super::tests::read();
        steps
            .bytes()
            .enumerate()
            .map(|(at, step)| {
                match step {
                    b'h' => larc.hit(at as u64, access),
                    _ => drop(larc.missed(at as u64, access, &mut Vec::new())),
                }
                larc.length * 100 / PARTS
            })
            .collect()
    }

    /// Of 100 blocks, from 10 on: 10 + 100/10 = 20, + 100/20 = 25, + 100/25 = 29, - 100/71 = 27.59.
    #[test]
    fn the_queue_grows_on_a_miss_and_shrinks_on_a_hit() {
        assert_eq!(lengths("mmmh"), [2000, 2500, 2900, 2759]);
    }

    #[test]
    fn the_queue_stays_within_a_tenth_and_nine_tenths_of_the_cache() {
        assert_eq!(lengths("hhh"), [1000; 3]);
        let many = "m".repeat(200);
        assert_eq!(*lengths(&many).last().unwrap(), 9000);
    }
}
