//! The miners of each disk and the price of each VM.

use super::ram::{Ahead, OfVm, Ram};
use super::replay::Waste;
use super::workload::{Request, Workload};
use prefetch::{Answer, Guess, Key, Miner, Price, Run, Setup, Spec, price};
use units::Bytes;

/// Miners and prices of a workload.
pub(super) struct Guests<'a> {
    workload: &'a Workload,
    /// For each disk one of each kind.
    miners: Vec<Vec<Box<dyn Miner>>>,
    /// For each VM, if guesses have one.
    prices: Option<Vec<Price>>,
    guesses: Vec<Guess>,
    lacking: Vec<Key>,
}

/// A guess that is fetched: what memory lacks of it.
#[derive(Debug)]
pub(super) struct Fetch {
    pub(super) keys: Vec<Key>,
    pub(super) ahead: Ahead,
}

impl<'a> Guests<'a> {
    pub(super) fn new(workload: &'a Workload, specs: &[Spec], waste: Waste, of_vm: OfVm) -> Self {
        // The daemon makes no guesses for a VM that may have none in memory.
        let specs = if of_vm.at_a_price > 0 { specs } else { &[] };
        let of_disk = |disk_blocks| {
            let setup = Setup {
                disk_blocks,
                memory_blocks: of_vm.seen_by_miners,
            };
            specs.iter().map(|spec| spec.build(setup)).collect()
        };
        let disks = workload.disks.iter();
        let prices = match waste {
            Waste::Unbounded => None,
            Waste::Priced { waste, bucket } => {
                let defaults = price::Settings::of_memory(of_vm.at_a_price);
                let settings = price::Settings {
                    waste,
                    bucket: bucket.unwrap_or(defaults.bucket),
                    ..defaults
                };
                Some(vec![Price::new(settings, specs.len()); workload.vms()])
            }
        };
        Self {
            workload,
            miners: disks.map(|disk| of_disk(disk.blocks)).collect(),
            prices,
            guesses: Vec::new(),
            lacking: Vec::new(),
        }
    }

    /// What the miners and prices take.
    pub(super) fn memory(&self) -> Bytes {
        let miners = self.miners.iter().flatten().map(|miner| miner.memory());
        let prices = self.prices.iter().flatten().map(Price::memory);
        miners.chain(prices).sum()
    }

    pub(super) fn demanded(&mut self, disk: u16, key: Key) {
        let vm = self.workload.vm(disk);
        if let Some(prices) = &mut self.prices {
            prices[vm as usize].demanded(key);
        }
    }

    /// A block that was fetched ahead was read.
    pub(super) fn used(&mut self, ahead: Ahead) {
        if let (Some(prices), Some(label)) = (&mut self.prices, ahead.label) {
            prices[ahead.vm as usize].used(label);
        }
    }

    /// A block that was fetched ahead left unread.
    pub(super) fn wasted(&mut self, ahead: Ahead) {
        if let (Some(prices), Some(label)) = (&mut self.prices, ahead.label) {
            prices[ahead.vm as usize].wasted(label);
        }
    }

    pub(super) fn changed(&mut self, disk: u16, run: Run) {
        for miner in &mut self.miners[usize::from(disk)] {
            miner.changed(run);
        }
    }

    /// What is fetched on a read, and how many guesses were refused.
    pub(super) fn read(
        &mut self,
        request: Request,
        hit: bool,
        ram: &dyn Ram,
        fetches: &mut Vec<Fetch>,
    ) -> u64 {
        let vm = self.workload.vm(request.disk);
        let mut refused = 0;
        for (number, miner) in self.miners[usize::from(request.disk)]
            .iter_mut()
            .enumerate()
        {
            self.guesses.clear();
            miner.read(request.run, hit, &mut self.guesses);
            for guess in &self.guesses {
                let is_asked = |key: &Key| fetches.iter().any(|one: &Fetch| one.keys.contains(key));
                let keys = guess
                    .run
                    .iter()
                    .map(|block| self.workload.key(request.disk, block));
                self.lacking.clear();
                self.lacking
                    .extend(keys.filter(|key| !ram.contains(*key) && !is_asked(key)));
                if self.lacking.is_empty() {
                    continue;
                }
                let price = self.prices.as_mut().map(|prices| &mut prices[vm as usize]);
                let answer =
                    price.map(|price| price.offer(number, guess.confidence, &self.lacking));
                let label = match answer {
                    Some(Answer::Refuse) => {
                        miner.refused(guess.run.first());
                        refused += 1;
                        continue;
                    }
                    Some(Answer::Fetch(label)) => Some(label),
                    None => None,
                };
                fetches.push(Fetch {
                    keys: self.lacking.clone(),
                    ahead: Ahead { vm, label },
                });
            }
        }
        refused
    }
}
