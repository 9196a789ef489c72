//! Frequency: a block has a frame when it was read often enough, the more important its VM the sooner; the least
//! recently used leaves.
//!
//! ```text
//!   read ─► uses + 1 ─► uses x weight of the VM >= threshold? ── yes ──► frames (LRU) ──► leaves
//!                       or a VM of high priority?             └─ no ───► none
//! ```
//!
//! The hypervisor's tier of `MultiCache`: a block's weight is its access frequency times W = (CPUs / all CPUs) x
//! (memory / all memory) of its VM, and it enters RAM when that reaches `FREQ_THRESHOLD`. Here the owner scales W so that
//! equal VMs weigh 1, and may change it at any time. The counting is that of
//! [`crate::admission::frequency`], over as many uses as ten times the frames. Reads and writes have metadata of their own
//! there; this tier takes no writes, so only reads are counted. A write removes the frame and not the count.

use super::{Hot, Share};
use crate::admission::frequency::Frequency as Gate;
use crate::admission::{self, Access, Admission, Verdict};
use crate::replacement::lru::{self, Lru};
use crate::replacement::{About, Fraction, Hashed, Key, Parameter, Policy, Setup};
use units::{Bytes, Instant, TenantSlot};

pub use crate::admission::frequency::Config;

/// What is to be known of it.
pub const ABOUT: About = About {
    name: "frequency",
    other_names: &["multicache"],
    paper: "MultiCache: frequency of a block x weight of its VM; bounded counting after G. Einziger, R. Friedman, B. Manes, \"TinyLFU: a highly efficient cache admission policy\", ACM TOS 13(4), 2017",
    queues: &[("queue", "blocks with a frame, by last use")],
    parameters: &[
        Parameter {
            name: "threshold",
            meaning: "frequency x weight from which on a block has a frame",
            takes: "0.000001 to 15",
        },
        Parameter {
            name: "age",
            meaning: "uses after which all counts are halved, as a multiple of the frames",
            takes: "1 to 100",
        },
    ],
    knows_future: false,
};

/// Bytes of each of the gate's two sketches for a frame.
const SKETCH_BYTES: u64 = 16;

/// The gate is asked as admission asks it, which tells apart tenants, places and times; this counts uses only.
const READ: Access = Access {
    tenant: TenantSlot::new(0),
    write: false,
    region: 0,
    run: Bytes::ZERO,
    now: Instant::ZERO,
};

/// Frequency x weight.
#[derive(Debug)]
pub struct Frequency<K> {
    gate: Gate,
    gate_share: admission::Share,
    frames: Lru<K, Hashed<K>>,
}

impl<K: Key> Frequency<K> {
    /// Nothing counted.
    pub fn new(config: &Config, share: Share) -> Self {
        let frames = u64::from(share.frames.get());
        let gate_share = admission::Share {
            blocks: frames,
            staging: Bytes::new(2 * SKETCH_BYTES * frames),
            weight: share.weight,
            high_priority: share.high_priority,
        };
        Self {
            gate: Gate::new(config, gate_share),
            gate_share,
            frames: Lru::new(&lru::Config, Setup::new(share.frames, Hashed::new())),
        }
    }

    fn is_worth_it(&mut self, key: K) -> bool {
        // The gate stages nothing, so nothing leaves staging.
        self.gate.missed(key, READ, &mut Vec::new()) == Verdict::Admit
    }
}

impl<K: Key> Hot<K> for Frequency<K> {
    fn read(&mut self, key: K, left: &mut Vec<K>) -> bool {
        let enters = self.is_worth_it(key);
        if enters {
            let had_frame = self.frames.access(key, left);
            assert!(!had_frame, "a block with a frame is hit");
        }
        enters
    }

    fn hit(&mut self, key: K) {
        self.is_worth_it(key);
        let has_frame = self.frames.access(key, &mut Vec::new());
        assert!(has_frame, "a block without a frame is read");
    }

    /// It was worth a frame, so it is; the counts begin anew.
    fn restore(&mut self, key: K, left: &mut Vec<K>) {
        self.frames.access(key, left);
    }

    fn remove(&mut self, key: K) {
        self.frames.remove(key);
    }

    fn len(&self) -> u32 {
        self.frames.blocks()
    }

    fn memory(&self) -> Bytes {
        Admission::<K>::memory(&self.gate) + Bytes::new(self.frames.memory_bytes() as u64)
    }

    fn set_weight(&mut self, weight: Fraction) {
        self.gate_share.weight = weight;
        self.gate.weigh(self.gate_share);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replacement::Capacity;

    fn share() -> Share {
        Share::new(Capacity::new(2).unwrap())
    }

    fn reads(policy: &mut Frequency<u64>, keys: &[u64]) -> Vec<bool> {
        keys.iter()
            .map(|key| policy.read(*key, &mut Vec::new()))
            .collect()
    }

    #[test]
    fn a_block_has_a_frame_on_the_read_that_reaches_the_threshold() {
        let mut policy = Frequency::new(&Config::default(), share());
        assert_eq!(reads(&mut policy, &[1, 2, 1]), [false, false, true]);
        assert_eq!(policy.len(), 1);
    }

    #[test]
    fn the_least_recently_used_leaves() {
        let mut policy = Frequency::new(&Config::default(), share());
        assert_eq!(reads(&mut policy, &[1, 2, 3, 1, 2])[3..], [true, true]);
        policy.hit(1);
        let mut left = Vec::new();
        assert!(policy.read(3, &mut left));
        assert_eq!(left, [2]);
    }

    #[test]
    fn a_write_takes_the_frame_and_leaves_the_count() {
        let mut policy = Frequency::new(&Config::default(), share());
        assert_eq!(reads(&mut policy, &[1, 1]), [false, true]);
        policy.remove(1);
        assert!(policy.is_empty());
        assert_eq!(reads(&mut policy, &[1]), [true]);
    }

    #[test]
    fn a_light_vm_reads_more_often_and_one_of_high_priority_passes() {
        let light = Share {
            weight: Fraction::millionths(500_000),
            ..share()
        };
        let mut policy = Frequency::new(&Config::default(), light);
        assert_eq!(
            reads(&mut policy, &[1, 1, 1, 1]),
            [false, false, false, true]
        );
        policy.set_weight(Fraction::ONE);
        assert_eq!(reads(&mut policy, &[2, 2]), [false, true]);
        let high = Share {
            high_priority: true,
            ..light
        };
        let mut policy = Frequency::new(&Config::default(), high);
        assert_eq!(reads(&mut policy, &[1]), [true]);
    }
}
