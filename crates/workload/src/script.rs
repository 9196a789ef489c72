//! A job's requests, one after the other.
//!
//! ```text
//!   next() ─► a sync is due? ─► mix: which direction ─► sizes: how long ─► places: where
//! ```

use crate::places::Places;
use crate::{BlockSizes, Direction, Place, Region, Shape, Spread};
use units::Prng;

/// After how many writes a sync follows, and which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncEvery {
    /// Writes between two of them.
    pub writes: u64,
    /// Whether metadata that reading does not need may be left behind.
    pub data_only: bool,
}

/// What a job does.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Directions and order.
    pub shape: Shape,
    /// How long requests are.
    pub sizes: BlockSizes,
    /// How often which place is drawn.
    pub spread: Spread,
    /// Of the region, no byte again before all were visited; ignored unless `spread` is uniform
    /// and places are random.
    pub each_once: bool,
    /// Where.
    pub region: Region,
    /// Of mixed loads, the share of reads in percent.
    pub read_percent: u64,
    /// Syncs between writes.
    pub sync: Option<SyncEvery>,
    /// Bytes after which it ends; never, if there is no number.
    pub bytes: Option<u64>,
    /// The dice.
    pub seed: u64,
}

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A request for data.
    Io(Direction, Place),
    /// What was written is to become durable.
    Sync {
        /// Whether metadata that reading does not need may be left behind.
        data_only: bool,
    },
}

/// The requests of a [`Plan`].
#[derive(Clone, Debug)]
pub struct Script {
    plan: Plan,
    places: Places,
    dice: Prng,
    issued: u64,
    unsynced: u64,
}

impl Script {
    /// From the first request.
    ///
    /// # Panics
    /// If the region is not at least one of the smallest requests, or no multiple of it.
    pub fn new(plan: Plan) -> Self {
        let mut dice = Prng::new(plan.seed);
        let unit = plan.sizes.smallest();
        let own = dice.fork();
        let places = if plan.shape.is_random() {
            let each_once = plan.each_once && plan.spread == Spread::Uniform;
            Places::random(plan.region, unit, &plan.spread, each_once, own)
        } else {
            Places::in_order(plan.region, unit, own)
        };
        Self {
            plan,
            places,
            dice,
            issued: 0,
            unsynced: 0,
        }
    }

    /// What comes next; `None` when all bytes were asked for.
    pub fn next_step(&mut self) -> Option<Step> {
        if let Some(sync) = self.plan.sync
            && self.unsynced >= sync.writes
        {
            self.unsynced = 0;
            let data_only = sync.data_only;
            return Some(Step::Sync { data_only });
        }
        let left = self
            .plan
            .bytes
            .map(|bytes| bytes.saturating_sub(self.issued));
        if left == Some(0) {
            return None;
        }
        let direction = self.direction();
        let mut length = self.plan.sizes.draw(&mut self.dice);
        if let Some(left) = left {
            // The last one is not longer than what is left, as far as the unit allows.
            length = length.min(left.next_multiple_of(self.plan.sizes.smallest()));
        }
        let place = self.places.next(direction, length);
        self.issued = self.issued.saturating_add(place.length);
        self.unsynced += u64::from(direction == Direction::Write);
        Some(Step::Io(direction, place))
    }

    /// Begins to count bytes anew, where the script has come to: the warm-up is over.
    pub fn recount(&mut self) {
        self.issued = 0;
    }

    fn direction(&mut self) -> Direction {
        let shape = self.plan.shape;
        if shape.trims() {
            return Direction::Trim;
        }
        match (shape.reads(), shape.writes()) {
            (true, true) if self.dice.below(100) >= self.plan.read_percent => Direction::Write,
            (true, _) => Direction::Read,
            (false, _) => Direction::Write,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn plan(shape: Shape) -> Plan {
        Plan {
            shape,
            sizes: "4k".parse().unwrap(),
            spread: Spread::Uniform,
            each_once: true,
            region: Region {
                offset: 0,
                length: 400 << 10,
            },
            read_percent: 50,
            sync: None,
            bytes: Some(400 << 10),
            seed: 3,
        }
    }

    fn steps(plan: Plan) -> Vec<Step> {
        let mut script = Script::new(plan);
        std::iter::from_fn(|| script.next_step()).collect()
    }

    #[test]
    fn a_pass_ends_with_the_last_block() {
        for shape in [Shape::Read, Shape::RandRead, Shape::RandWrite, Shape::Trim] {
            let mut offsets: Vec<u64> = Vec::new();
            for step in steps(plan(shape)) {
                let Step::Io(_, place) = step else {
                    panic!("nothing is synced")
                };
                offsets.push(place.offset);
            }
            let in_order = offsets.is_sorted();
            assert_eq!(in_order, !shape.is_random());
            offsets.sort_unstable();
            assert!(offsets.into_iter().eq((0..100).map(|block| block * 4096)));
        }
    }

    #[test]
    fn reads_and_writes_are_mixed_as_told() {
        let mixed = Plan {
            read_percent: 70,
            bytes: Some(4096 * 100_000),
            ..plan(Shape::RandRw)
        };
        let reads = steps(mixed)
            .into_iter()
            .filter(|step| matches!(step, Step::Io(Direction::Read, _)));
        let reads = reads.count();
        assert!((69_275..70_725).contains(&reads), "{reads}");
        let only = |read_percent| Plan {
            read_percent,
            ..plan(Shape::Rw)
        };
        let all = |percent, wanted| {
            let is_it = |step: &Step| matches!(step, Step::Io(found, _) if *found == wanted);
            steps(only(percent)).iter().all(is_it)
        };
        assert!(all(100, Direction::Read) && all(0, Direction::Write));
    }

    #[test]
    fn a_sync_follows_every_third_write() {
        let synced = Plan {
            sync: Some(SyncEvery {
                writes: 3,
                data_only: true,
            }),
            bytes: Some(4096 * 7),
            ..plan(Shape::Write)
        };
        let sync = Step::Sync { data_only: true };
        let syncs: Vec<usize> = (0..)
            .zip(steps(synced))
            .filter(|(_, step)| *step == sync)
            .map(|(at, _)| at)
            .collect();
        assert_eq!(syncs, [3, 7]);
    }

    proptest! {
        #[test]
        fn as_many_bytes_are_asked_for_as_told(bytes in 1_u64..(1 << 20), seed in any::<u64>()) {
            let split = Plan {
                sizes: "4k/50:16k/50".parse().unwrap(),
                bytes: Some(bytes),
                seed,
                ..plan(Shape::RandRead)
            };
            let sum: u64 = steps(split).iter().map(|step| match step {
                Step::Io(_, place) => place.length,
                Step::Sync { .. } => 0,
            }).sum();
            prop_assert_eq!(sum, bytes.next_multiple_of(4096));
        }
    }

    #[test]
    fn a_seed_decides_everything() {
        let seeded = |seed| {
            steps(Plan {
                seed,
                ..plan(Shape::RandRw)
            })
        };
        assert_eq!(seeded(7), seeded(7));
        assert_ne!(seeded(7), seeded(8));
    }
}
