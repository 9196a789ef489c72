//! One experiment: a workload through a buffer with miners.

use super::guests::{Fetch, Guests};
use super::ram::{Ahead, Ram, RamError, RamPolicy};
use super::workload::{Request, What, Workload};
use policy::replacement::Fraction;
use prefetch::{Key, Spec};
use units::number::real;
use units::{BLOCK_BYTES, Bytes};

/// What guesses may waste.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waste {
    /// Whatever they do: the papers' experiments.
    Unbounded,
    /// A price for each VM ([`prefetch::Price`]).
    Priced {
        /// Blocks that may be wasted for each that is demanded.
        waste: Fraction,
        /// Blocks that may be wasted beyond that; what the memory's size suggests if not given.
        bucket: Option<u32>,
    },
}

/// What is tried.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// The miners, which share the price of a VM.
    pub miners: Vec<Spec>,
    /// What they may waste.
    pub waste: Waste,
    /// Memory for blocks.
    pub ram: Bytes,
    /// What keeps them there.
    pub policy: RamPolicy,
    /// Only the second half of the reads is counted: the first one is what miners learn from.
    pub train_half: bool,
}

/// What an experiment counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Requests that read.
    pub reads: u64,
    /// Reads of which every block was in memory.
    pub read_hits: u64,
    /// Blocks that were read.
    pub blocks: u64,
    /// Those that were in memory.
    pub block_hits: u64,
    /// Blocks that were fetched ahead.
    pub fetched: u64,
    /// Blocks fetched ahead that were read.
    pub used: u64,
    /// Blocks fetched ahead that left unread.
    pub wasted: u64,
    /// The most blocks that were fetched and not yet read at a time.
    pub outstanding_max: u64,
    /// Requests to the origin: a read that lacks a block is one, and each run of blocks that is fetched ahead.
    pub requests: u64,
    /// Guesses that were refused.
    pub refused: u64,
    /// Memory of miners and prices.
    pub memory: Bytes,
}

impl Tally {
    /// Reads that hit, out of all.
    pub fn read_hit_ratio(&self) -> f64 {
        real(self.read_hits) / real(self.reads.max(1))
    }

    /// Blocks that hit, out of all.
    pub fn block_hit_ratio(&self) -> f64 {
        real(self.block_hits) / real(self.blocks.max(1))
    }

    /// Blocks that were used, out of those of which is known what became of them; `None` if there are none.
    pub fn precision(&self) -> Option<f64> {
        let known = self.used + self.wasted;
        (known > 0).then(|| real(self.used) / real(known))
    }

    /// Wasted blocks for each that was demanded.
    pub fn waste(&self) -> f64 {
        real(self.wasted) / real(self.blocks.max(1))
    }
}

struct Replay<'a> {
    workload: &'a Workload,
    ram: Box<dyn Ram>,
    guests: Guests<'a>,
    tally: Tally,
    wasted: Vec<Ahead>,
    fetches: Vec<Fetch>,
}

/// Replays a workload.
///
/// # Errors
/// If memory has no block, or too many, or there are more VMs than its pool is for.
pub fn replay(workload: &Workload, experiment: &Experiment) -> Result<Tally, RamError> {
    let blocks = experiment.ram.get() / BLOCK_BYTES;
    let ram = experiment.policy.build(blocks, workload.vms())?;
    let guests = Guests::new(workload, &experiment.miners, experiment.waste, ram.of_vm());
    let mut replay = Replay {
        workload,
        ram,
        guests,
        tally: Tally::default(),
        wasted: Vec::new(),
        fetches: Vec::new(),
    };
    let mut to_learn = if experiment.train_half {
        workload.reads() / 2
    } else {
        0
    };
    for request in &workload.requests {
        match request.what {
            What::Read => replay.read(*request),
            What::Change => replay.change(*request),
        }
        if to_learn > 0 && request.what == What::Read {
            to_learn -= 1;
            if to_learn == 0 {
                // What was counted so far taught.
                replay.tally = Tally::default();
            }
        }
    }
    replay.tally.memory = replay.guests.memory();
    Ok(replay.tally)
}

impl Replay<'_> {
    fn read(&mut self, request: Request) {
        let mut hits = 0;
        let vm = self.workload.vm(request.disk);
        for block in request.run.iter() {
            let key = self.workload.key(request.disk, block);
            self.guests.demanded(request.disk, key);
            let (hit, first_use) = self.ram.read(vm, key, &mut self.wasted);
            hits += u64::from(hit);
            if let Some(ahead) = first_use {
                self.guests.used(ahead);
                self.tally.used += 1;
            }
        }
        let blocks = u64::from(request.run.blocks());
        let hit = hits == blocks;
        self.tally.reads += 1;
        self.tally.read_hits += u64::from(hit);
        self.tally.blocks += blocks;
        self.tally.block_hits += hits;
        self.tally.requests += u64::from(!hit);
        self.count_wasted();
        self.tally.refused += self
            .guests
            .read(request, hit, &*self.ram, &mut self.fetches);
        self.fetch();
    }

    /// Fetches all that was guessed at a read, neighbours in one request.
    fn fetch(&mut self) {
        let mut keys: Vec<Key> = Vec::new();
        for fetch in self.fetches.drain(..) {
            for key in fetch.keys {
                keys.push(key);
                self.ram.fetch(key, fetch.ahead, &mut self.wasted);
            }
        }
        keys.sort_unstable();
        let gaps = keys.windows(2).filter(|two| !two[0].is_before(two[1]));
        self.tally.requests += gaps.count() as u64 + u64::from(!keys.is_empty());
        self.tally.fetched += keys.len() as u64;
        self.tally.outstanding_max = self.tally.outstanding_max.max(self.ram.outstanding());
        self.count_wasted();
    }

    fn change(&mut self, request: Request) {
        for block in request.run.iter() {
            let key = self.workload.key(request.disk, block);
            self.ram.change(key, &mut self.wasted);
        }
        self.guests.changed(request.disk, request.run);
        self.count_wasted();
    }

    fn count_wasted(&mut self) {
        for ahead in self.wasted.drain(..) {
            self.guests.wasted(ahead);
            self.tally.wasted += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace::generate::Generator;
    use trace::{Op, Reader, Record, Records, VolumeIndex, Volumes};
    use units::Offset;

    /// Records of one disk, by block.
    struct Given(Vec<(Op, u64, u64)>, Volumes);

    impl Reader for Given {
        fn read_batch(&mut self, records: &mut Records) -> Result<bool, trace::ReadError> {
            let record = |(op, first, blocks): (Op, u64, u64)| {
                let (offset, length) = (Offset::kib(4 * first), Bytes::kib(4 * blocks));
                Record::new(0, VolumeIndex::new(0), op, offset, length)
            };
            *records = self.0.drain(..).map(record).collect();
            Ok(!records.is_empty())
        }

        fn volumes(&self) -> &Volumes {
            &self.1
        }
    }

    fn workload(records: &[(Op, u64, u64)]) -> Workload {
        let mut volumes = Volumes::new();
        volumes.intern(&trace::Volume::default());
        Workload::read(&mut Given(records.to_vec(), volumes)).unwrap()
    }

    fn experiment(miners: &str, waste: Waste, ram: Bytes) -> Experiment {
        Experiment {
            miners: vec![miners.parse().unwrap()],
            waste,
            ram,
            policy: "fifo".parse().unwrap(),
            train_half: false,
        }
    }

    #[test]
    fn what_was_guessed_hits_and_what_is_overwritten_is_wasted() {
        let workload = workload(&[
            (Op::Read, 0, 2),
            (Op::Read, 2, 2),
            (Op::Write, 4, 1),
            (Op::Read, 4, 2),
            (Op::Read, 40, 1),
        ]);
        let experiment = experiment("sequential:n=4", Waste::Unbounded, Bytes::kib(256));
        let tally = replay(&workload, &experiment).unwrap();
        // 0-1 misses and fetches 2-5; 2-3 hits and fetches 6-7; 4 is gone, 5 is there, and 8-9 are fetched; the disk
        // ends with 40.
        assert_eq!((tally.reads, tally.read_hits), (4, 1));
        assert_eq!((tally.blocks, tally.block_hits), (7, 3));
        assert_eq!((tally.fetched, tally.used, tally.wasted), (8, 3, 1));
        assert_eq!(tally.requests, 3 + 3);
        assert_eq!(tally.precision(), Some(0.75));
    }

    #[test]
    fn the_first_half_teaches_and_is_not_counted() {
        let reads: Vec<(Op, u64, u64)> = (0..100).map(|block| (Op::Read, block, 1)).collect();
        let half = Experiment {
            train_half: true,
            ..experiment("readahead", Waste::Unbounded, Bytes::mib(1))
        };
        let tally = replay(&workload(&reads), &half).unwrap();
        assert_eq!((tally.reads, tally.read_hits), (50, 50));
    }

    /// Random reads, and a miner that is always wrong: what it wastes is what it was allowed.
    #[test]
    fn a_price_bounds_what_is_wasted() {
        let spec = "uniform,blocks=1M,requests=20k,size=4KiB,reads=1,seed=5";
        let mut generator = Generator::new(&spec.parse().unwrap());
        let workload = Workload::read(&mut generator).unwrap();
        let free = experiment("sequential:n=8", Waste::Unbounded, Bytes::mib(1));
        let priced = Experiment {
            waste: Waste::Priced {
                waste: Fraction::millionths(100_000),
                bucket: None,
            },
            ..free.clone()
        };
        let free = replay(&workload, &free).unwrap();
        let priced = replay(&workload, &priced).unwrap();
        assert!(free.wasted > 7 * free.blocks);
        assert!(priced.wasted <= priced.blocks / 10 + 256 + priced.outstanding_max);
        assert!(priced.refused > 15_000, "{}", priced.refused);
        assert!(priced.wasted < 1_000, "{}", priced.wasted);
    }
}
