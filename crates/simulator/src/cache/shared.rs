//! VMs whose base images share blocks: the poster's four caches, with a partition metric that moves space
//! between VMs.
//!
//! Every interval the metric's allocator picks two VMs: of those whose score rose the one with the highest gets
//! a step of space, of those whose score fell the one with the lowest gives it. The space changes hands when
//! room is needed; nothing is moved. Without a VM of each kind nothing changes.

use super::{CacheModel, Maker, places};
use crate::outcome::{HIT, Outcomes, STORED};
use crate::policy::shared::Settings;
use crate::series::VmSample;
use crate::write_policy::{WriteMiss, WritePolicy};
use policy::allocation::{Cached, Limits, Room, Spare, Spec, Tenant};
use policy::replacement::Fraction;
use policy::replacement::t_clock::{Holding, SharedClock};
use trace::{Batch, Op, Request};
use units::TenantSlot;

/// Such a cache.
pub(crate) struct Shared {
    blocks: SharedClock,
    metric: Option<Spec>,
    write_policy: WritePolicy,
    allocates: bool,
    /// Accesses between two looks at the scores.
    interval: u64,
    /// Accesses until the next.
    left: u64,
    /// What each VM had when shares were decided last.
    before: Vec<Holding>,
}

impl Shared {
    pub(crate) fn new(settings: &Settings, maker: &Maker) -> Self {
        let interval = settings.interval.unwrap_or(maker.blocks.into()).max(1);
        Self {
            blocks: SharedClock::new(settings.rule, maker.blocks),
            metric: settings.metric.clone(),
            write_policy: maker.write_policy,
            allocates: maker.write_miss == WriteMiss::Allocate,
            interval,
            left: interval,
            before: Vec::new(),
        }
    }

    fn one(&mut self, op: Op, vm: u16, key: u32) -> u8 {
        match op {
            Op::Read => self.access(vm, key, HIT),
            Op::Write if self.write_policy == WritePolicy::Around => {
                u8::from(self.blocks.remove(key)) * HIT
            }
            Op::Write if !self.allocates && !self.blocks.contains(vm, key) => 0,
            Op::Write => self.access(vm, key, HIT | STORED),
            Op::Flush => 0,
            Op::Discard | Op::WriteZeroes => {
                self.blocks.remove(key);
                0
            }
        }
    }

    fn access(&mut self, vm: u16, key: u32, found: u8) -> u8 {
        let hit = self.blocks.access(vm, key);
        self.left -= 1;
        if self.left == 0 {
            self.left = self.interval;
            self.repartition();
        }
        if hit { found } else { STORED }
    }

    fn repartition(&mut self) {
        let Some(metric) = &self.metric else {
            return;
        };
        let now: Vec<Holding> = (0..self.blocks.vms())
            .map(|vm| self.blocks.holding(vm))
            .collect();
        // A VM that is new has nothing to be compared with.
        self.before.extend_from_slice(&now[self.before.len()..]);
        let tenants: Vec<Tenant<'_>> = (0..).zip(&now).zip(&self.before).map(tenant).collect();
        let room = Room {
            capacity: self.blocks.capacity(),
            segment_blocks: 1,
            spare: Spare::Spread,
            hysteresis: Fraction::ZERO,
        };
        let division = metric.divide(&room, &tenants);
        let division = division.expect("without floors and ceilings any cache can be divided");
        self.blocks.set_shares(&division.shares);
        self.before = now;
    }
}

/// A VM for the allocator.
fn tenant(((vm, now), before): ((u16, &Holding), &Holding)) -> Tenant<'static> {
    let cached = |holding: &Holding| Cached {
        allocated: holding.held.into(),
        reaccessed: holding.reaccessed.into(),
        shared: holding.shared.into(),
    };
    Tenant {
        slot: TenantSlot::new(vm),
        limits: Limits::default(),
        before: Some(now.share),
        wss: None,
        rwss: None,
        cached: cached(now),
        cached_before: cached(before),
        curve: &[],
        accesses_a_second: 0.0,
        saved_us: 0.0,
    }
}

impl CacheModel for Shared {
    fn run(&mut self, batch: &Batch, requests: &[Request], outcomes: &mut Outcomes) {
        let Some(first_key) = requests.first().map(|first| first.keys.start) else {
            return;
        };
        for request in requests {
            let record = &request.record;
            let vm = batch.role(record.volume).vm;
            // More VMs than a host has tenants share what they have.
            let vm = u16::try_from(vm as usize % TenantSlot::COUNT).expect("a slot is 16 bits");
            let flags = &mut outcomes.blocks[places(request, first_key)];
            for (key, flag) in batch.keys_of(request).iter().zip(flags) {
                *flag = self.one(record.op, vm, *key);
            }
        }
    }

    fn used_blocks(&self) -> u32 {
        self.blocks.blocks()
    }

    fn vms(&self) -> Vec<VmSample> {
        let of = |vm: usize| {
            let Holding { share, held, .. } = self.blocks.holding(vm);
            VmSample {
                share_blocks: share.into(),
                held_blocks: held.into(),
                demand_blocks: None,
            }
        };
        (0..self.blocks.vms()).map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Policy;
    use units::Bytes;

    fn shared(text: &str, blocks: u32) -> Shared {
        let Ok(Policy::Shared(settings)) = text.parse() else {
            unreachable!("it is one")
        };
        let maker = Maker {
            blocks,
            block: Bytes::kib(4),
            write_policy: WritePolicy::Through,
            write_miss: WriteMiss::Allocate,
            future: None,
        };
        Shared::new(&settings, &maker)
    }

    /// In the first interval VM 0 reads 40 blocks once (score 0) and VM 1 reads 20 twice (20/20). In the
    /// second VM 0 reads its 40 again (40/40) and VM 1 40 new ones (20/60).
    #[test]
    fn space_goes_from_the_vm_that_reuses_less_to_the_one_that_reuses_more() {
        let mut cache = shared("s-cave:interval=80", 100);
        let shares =
            |cache: &Shared| -> Vec<u64> { cache.vms().iter().map(|vm| vm.share_blocks).collect() };
        for key in 0..40 {
            cache.one(Op::Read, 0, key);
            cache.one(Op::Read, 1, 100 + key % 20);
        }
        assert_eq!(shares(&cache), [50, 50], "nothing to be compared with");
        for key in 0..40 {
            cache.one(Op::Read, 0, key);
            cache.one(Op::Read, 1, 200 + key);
        }
        assert_eq!(shares(&cache), [52, 48], "a fiftieth moved");
    }

    #[test]
    fn without_a_metric_shares_stay_equal() {
        let mut cache = shared("shr-tclock:metric=none,interval=10", 30);
        for key in 0..900 {
            cache.one(Op::Read, u16::try_from(key % 3).unwrap(), key % 70);
        }
        assert!(cache.vms().iter().all(|vm| vm.share_blocks == 10));
    }

    #[test]
    fn writes_do_what_the_write_policy_says() {
        let mut cache = shared("shr-tclock", 8);
        assert_eq!(cache.one(Op::Write, 0, 1), STORED);
        assert_eq!(cache.one(Op::Write, 0, 1), HIT | STORED);
        cache.allocates = false;
        assert_eq!(cache.one(Op::Write, 0, 2), 0);
        cache.write_policy = WritePolicy::Around;
        assert_eq!(cache.one(Op::Write, 1, 1), HIT);
        assert_eq!(cache.one(Op::Read, 0, 1), STORED);
        cache.one(Op::Discard, 0, 1);
        assert_eq!(cache.used_blocks(), 0);
    }
}
