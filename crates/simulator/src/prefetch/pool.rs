//! The daemon's memory: the pool of frames, in which what was fetched ahead has a part of its own and each VM its share.

use super::ram::{Ahead, OfVm, Ram, RamError};
use crate::tier;
use frames::{AHEAD_PARTS, Frames, Kind, Part};
use policy::memory::Spec;
use policy::replacement::Capacity;
use prefetch::{Key, Label, price};
use units::TenantSlot;

/// The pool. A frame's bytes are the VM that guessed the block; those of a block that was read mean nothing.
pub(super) struct Pool {
    frames: Frames<Key, u32>,
    ahead_max: u32,
}

fn tenant(vm: u32) -> TenantSlot {
    let slot = u16::try_from(vm).expect("there are few VMs in a pool");
    TenantSlot::new(slot)
}

impl Pool {
    /// One for so many hot blocks, in equal parts for so many VMs.
    ///
    /// # Errors
    /// If there are more than [`TenantSlot::COUNT`].
    pub(super) fn new(policy: &Spec, capacity: Capacity, vms: usize) -> Result<Self, RamError> {
        if vms > TenantSlot::COUNT {
            return Err(RamError::TooManyVms { vms });
        }
        let mut frames = tier::pool(u64::from(capacity.get()), policy);
        let part = |slot| Part {
            tenant: slot,
            parts: 1,
            high_priority: false,
        };
        let parts: Vec<Part> = (0..).take(vms).map(tenant).map(part).collect();
        frames.divide(&parts);
        let ahead_max = frames.ahead_max(tenant(0));
        Ok(Self { frames, ahead_max })
    }

    /// Counts what left unread of a VM.
    fn hear(&mut self, vm: u32, wasted: &mut Vec<Ahead>) {
        self.frames.ahead().take_unread(tenant(vm), |label, count| {
            let ahead = Ahead {
                vm,
                label: Some(Label::from_number(label)),
            };
            wasted.extend((0..count).map(|_| ahead));
        });
    }
}

impl Ram for Pool {
    /// What the daemon says of it to miners and price.
    fn of_vm(&self) -> OfVm {
        OfVm {
            seen_by_miners: u64::from(self.ahead_max) * u64::from(AHEAD_PARTS),
            at_a_price: u64::from(self.ahead_max) * price::MEMORY_OF_OUTSTANDING,
        }
    }

    fn contains(&self, key: Key) -> bool {
        self.frames.has(key)
    }

    fn read(&mut self, vm: u32, key: Key, wasted: &mut Vec<Ahead>) -> (bool, Option<Ahead>) {
        self.frames.ahead().demanded(tenant(vm), 1);
        self.hear(vm, wasted);
        if self.frames.hit(key).is_some() {
            return (true, None);
        }
        let first_use = self.frames.ahead().read(key).map(|(label, by)| Ahead {
            vm: by,
            label: Some(Label::from_number(label)),
        });
        self.frames.read(tenant(vm), key, || vm);
        (first_use.is_some(), first_use)
    }

    fn fetch(&mut self, key: Key, ahead: Ahead, wasted: &mut Vec<Ahead>) {
        let label = ahead.label.map_or(0, Label::get);
        let is_kept = self
            .frames
            .ahead()
            .put(tenant(ahead.vm), key, label, ahead.vm);
        if !is_kept {
            wasted.push(ahead);
        }
        self.hear(ahead.vm, wasted);
    }

    fn change(&mut self, key: Key, wasted: &mut Vec<Ahead>) {
        let by = self.frames.get_of(Kind::Ahead, key).copied();
        self.frames.change(key);
        if let Some(vm) = by {
            self.hear(vm, wasted);
        }
    }

    fn outstanding(&self) -> u64 {
        self.frames.len(Kind::Ahead).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use policy::replacement::Fraction;
    use prefetch::{Answer, Price};
    use units::BlockIndex;

    fn label() -> Label {
        let mut price = Price::new(price::Settings::of_memory(64), 1);
        match price.offer(0, Fraction::ONE, &[Key::new(0, BlockIndex::new(0))]) {
            Answer::Fetch(label) => label,
            Answer::Refuse => panic!("the first guess is fetched"),
        }
    }

    #[test]
    fn what_was_fetched_has_a_quarter_and_each_vm_a_share_of_it() {
        let mut pool = Pool::new(&Spec::default(), Capacity::new(64).unwrap(), 2).unwrap();
        let most = u64::from(pool.ahead_max);
        assert!((8..=10).contains(&most), "{most}");
        let key = |block| Key::new(0, BlockIndex::new(block));
        let of = |vm| Ahead {
            vm,
            label: Some(label()),
        };
        let mut wasted = Vec::new();
        pool.fetch(key(1000), of(1), &mut wasted);
        for block in 0..=most {
            pool.fetch(key(block), of(0), &mut wasted);
        }
        assert_eq!(wasted, [of(0)], "the oldest of its own");
        assert_eq!(pool.outstanding(), most + 1);
        assert_eq!(pool.read(0, key(1), &mut wasted), (true, Some(of(0))));
        assert_eq!(pool.read(0, key(1), &mut wasted), (true, None), "it is hot");
        pool.change(key(1000), &mut wasted);
        assert_eq!(wasted, [of(0), of(1)]);
        assert_eq!(pool.read(1, key(1000), &mut wasted), (false, None));
    }

    #[test]
    fn more_vms_than_a_cache_has_are_refused() {
        let capacity = Capacity::new(64).unwrap();
        let refused = Pool::new(&Spec::default(), capacity, 1025).err();
        assert_eq!(refused, Some(RamError::TooManyVms { vms: 1025 }));
    }
}
