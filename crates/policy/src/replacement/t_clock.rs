//! T-CLOCK and its rivals: one array of blocks, VMs that use them, a share and a hand for each VM.
//!
//! D.-H. Song, Y. Lee, J.-S. Kim, "Improving flash cache management for virtualized systems" (poster,
//! 2014); S-CAVE: T. Luo et al., PACT'13.
//!
//! ```text
//!   slots   [ a ][ b ][ c ][ d ][ e ][ f ]
//!   charged   0    0    1    0    1    1        who brought it in: counts against that VM's share
//!   users    {0}  {0,1} {1}  {0} {1,0} {1}      tag and CLOCK bit of each (tags.rs)
//!              ▲ hand of VM 0      ▲ hand of VM 1
//! ```
//!
//! When the array is full, the VM that is furthest above its share gives up a block: its hand goes over the
//! blocks that it uses, and [`Rule`] says what it does to each. So shares are enforced when room is needed,
//! and a VM may exceed its own while others leave room.
//!
//! Under [`Rule::TClock`] the hand tests only its own VM's bit. A block that other VMs still want survives;
//! if that is all that a VM uses, the next VM's hand goes. Once every hand has gone round, all bits are 0:
//! a block is always found.

use super::tags::{Change, Tags, USERS_MAX};

const NONE: u32 = u32::MAX;

/// What decides which block a hand takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// S-CAVE: CLOCK, and each VM has a copy of its own of what it reads.
    Private,
    /// One copy, one CLOCK bit, which every use sets and any hand clears.
    Clock,
    /// One copy with a count of references, at most one a user: a use adds one, a hand takes one.
    References,
    /// One copy with a CLOCK bit for each user.
    TClock,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    key: u32,
    charged: u16,
    count: u16,
    tags: Tags,
}

/// What a VM has in the array.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holding {
    /// Blocks that it may hold.
    pub share: u32,
    /// Blocks that it brought in.
    pub held: u32,
    /// Blocks that it used again since its hand last passed.
    pub reaccessed: u32,
    /// Blocks that it uses and others too; those of more users than are named count for every VM.
    pub shared: u32,
}

#[derive(Clone, Debug, Default)]
struct Vm {
    holding: Holding,
    hand: u32,
    /// The slot of each key that it finds; of the first VM alone where copies are shared.
    index: Vec<u32>,
}

/// Such a cache, over keys from 0 upwards and VMs numbered from 0.
#[derive(Debug)]
pub struct SharedClock {
    rule: Rule,
    capacity: u32,
    slots: Vec<Slot>,
    free: Vec<u32>,
    vms: Vec<Vm>,
    /// Blocks of more users than are named: shared by whoever asks.
    widely_shared: u32,
}

impl SharedClock {
    /// An empty cache.
    ///
    /// # Panics
    /// If it has no block.
    pub fn new(rule: Rule, capacity: u32) -> Self {
        assert!(capacity > 0, "a cache holds a block");
        Self {
            rule,
            capacity,
            slots: Vec::new(),
            free: Vec::new(),
            vms: Vec::new(),
            widely_shared: 0,
        }
    }

    /// Blocks in the cache, copies counted each.
    ///
    /// # Panics
    /// Never: there are no more than its capacity.
    pub fn blocks(&self) -> u32 {
        let gaps = self.free.len();
        u32::try_from(self.slots.len() - gaps).expect("no more than its capacity")
    }

    /// How many may be in it.
    pub const fn capacity(&self) -> u32 {
        self.capacity
    }

    /// How many VMs there have been.
    pub fn vms(&self) -> usize {
        self.vms.len()
    }

    /// What a VM has.
    ///
    /// # Panics
    /// If there is no such VM.
    pub fn holding(&self, vm: usize) -> Holding {
        let mut holding = self.vms[vm].holding;
        holding.shared += self.widely_shared;
        holding
    }

    /// Sets the shares of all VMs that there have been. Nothing is moved: whoever is furthest above its share
    /// gives room when room is needed.
    ///
    /// # Panics
    /// If there is not one for each VM, or they come to more than the capacity.
    pub fn set_shares(&mut self, shares: &[u32]) {
        assert_eq!(shares.len(), self.vms.len(), "a share for each VM");
        let sum: u64 = shares.iter().copied().map(u64::from).sum();
        assert!(sum <= u64::from(self.capacity), "no more than there is");
        for (vm, share) in self.vms.iter_mut().zip(shares) {
            vm.holding.share = *share;
        }
    }

    /// The VM reads or writes the block. True if it was there for this VM; if not, it is now.
    ///
    /// # Panics
    /// If the VM's number is above [`USERS_MAX`].
    pub fn access(&mut self, vm: u16, key: u32) -> bool {
        self.meet(vm);
        if let Some(place) = self.find(vm, key) {
            self.hit(vm, place);
            return true;
        }
        let place = match self.free.pop() {
            Some(place) => place,
            None if self.blocks() < self.capacity => {
                let place = u32::try_from(self.slots.len()).expect("below the capacity");
                self.slots.push(Slot {
                    key,
                    charged: vm,
                    count: 0,
                    tags: Tags::default(),
                });
                place
            }
            None => {
                let place = self.victim(vm);
                self.vacate(place);
                place
            }
        };
        self.slots[place as usize] = Slot {
            key,
            charged: vm,
            count: 0,
            tags: Tags::of(vm),
        };
        self.vms[usize::from(vm)].holding.held += 1;
        self.set_index(vm, key, place);
        false
    }

    /// The block is no longer wanted: all its copies leave. True if there was one.
    ///
    /// # Panics
    /// Never: VMs are numbered with 16 bits.
    pub fn remove(&mut self, key: u32) -> bool {
        let indexes = match self.rule {
            Rule::Private => self.vms.len(),
            _ => self.vms.len().min(1),
        };
        let mut was = false;
        for vm in 0..indexes {
            let vm = u16::try_from(vm).expect("VMs are numbered with 16 bits");
            if let Some(place) = self.find(vm, key) {
                self.vacate(place);
                self.slots[place as usize].tags = Tags::default();
                self.free.push(place);
                was = true;
            }
        }
        was
    }

    /// Whether the VM would find the block.
    pub fn contains(&self, vm: u16, key: u32) -> bool {
        self.index_of(vm) < self.vms.len() && self.find(vm, key).is_some()
    }

    /// A VM that was not seen before gets a share like the others, of whom each gives its part.
    fn meet(&mut self, vm: u16) {
        assert!(vm <= USERS_MAX, "a VM's number fits");
        while self.vms.len() <= usize::from(vm) {
            let before = u32::try_from(self.vms.len()).expect("VMs are numbered with 16 bits");
            let mut left = self.capacity;
            for vm in &mut self.vms {
                let share = u64::from(vm.holding.share) * u64::from(before);
                let share = u32::try_from(share / u64::from(before + 1)).expect("it shrinks");
                vm.holding.share = share;
                left -= share;
            }
            self.vms.push(Vm {
                holding: Holding {
                    share: left,
                    ..Holding::default()
                },
                ..Vm::default()
            });
        }
    }

    fn index_of(&self, vm: u16) -> usize {
        match self.rule {
            Rule::Private => usize::from(vm),
            _ => 0,
        }
    }

    fn find(&self, vm: u16, key: u32) -> Option<u32> {
        let place = self.vms[self.index_of(vm)].index.get(key as usize);
        place.copied().filter(|place| *place != NONE)
    }

    fn set_index(&mut self, vm: u16, key: u32, place: u32) {
        let at = self.index_of(vm);
        let index = &mut self.vms[at].index;
        if key as usize >= index.len() {
            index.resize((key as usize + 1).next_power_of_two(), NONE);
        }
        index[key as usize] = place;
    }

    fn hit(&mut self, vm: u16, place: u32) {
        let slot = &mut self.slots[place as usize];
        let before = slot.tags;
        let change = slot.tags.touch(vm);
        let users = u16::try_from(slot.tags.users()).expect("few are named");
        slot.count = match self.rule {
            Rule::References => (slot.count + 1).min(users),
            Rule::Private | Rule::Clock | Rule::TClock => 1,
        };
        match change {
            Change::Nothing => {}
            Change::Clock => self.vms[usize::from(vm)].holding.reaccessed += 1,
            Change::Tagged => {
                let after = slot.tags;
                self.uncount(before);
                self.count(after);
            }
        }
    }

    /// Counts a block for each of its users.
    fn count(&mut self, tags: Tags) {
        let is_shared = tags.users() > 1;
        self.widely_shared += u32::from(tags.is_many());
        for (vm, clock) in tags.named() {
            let holding = &mut self.vms[usize::from(vm)].holding;
            holding.reaccessed += u32::from(clock);
            holding.shared += u32::from(is_shared);
        }
    }

    /// The reverse of it.
    fn uncount(&mut self, tags: Tags) {
        let is_shared = tags.users() > 1;
        self.widely_shared -= u32::from(tags.is_many());
        for (vm, clock) in tags.named() {
            let holding = &mut self.vms[usize::from(vm)].holding;
            holding.reaccessed -= u32::from(clock);
            holding.shared -= u32::from(is_shared);
        }
    }

    /// Takes a block out of all counts and the index.
    fn vacate(&mut self, place: u32) {
        let slot = self.slots[place as usize];
        self.uncount(slot.tags);
        self.vms[usize::from(slot.charged)].holding.held -= 1;
        let at = self.index_of(slot.charged);
        self.vms[at].index[slot.key as usize] = NONE;
    }

    /// The slot that a block of `vm` may have: all are taken.
    fn victim(&mut self, vm: u16) -> u32 {
        let excess = |at: usize, holding: &Holding| {
            let wanted = u32::from(at == usize::from(vm));
            i64::from(holding.held + wanted) - i64::from(holding.share)
        };
        let mut order: Vec<(i64, usize)> = (self.vms.iter().enumerate())
            .filter(|(_, other)| other.holding.held > 0)
            .map(|(at, other)| (-excess(at, &other.holding), at))
            .collect();
        order.sort_unstable();
        for (_, at) in &order {
            if let Some(place) = self.hand(u16::try_from(*at).expect("a VM's number")) {
                return place;
            }
        }
        // Every hand went round twice, so that no bit was left; what remains is a block of lives.
        let (_, at) = order[0];
        self.vms[at].hand
    }

    /// Goes round with a VM's hand, twice at most.
    fn hand(&mut self, vm: u16) -> Option<u32> {
        let count = u32::try_from(self.slots.len()).expect("no more than its capacity");
        let mut hand = self.vms[usize::from(vm)].hand % count;
        let mut found = None;
        for _ in 0..2 * u64::from(count) {
            let place = hand;
            hand = if hand + 1 == count { 0 } else { hand + 1 };
            if self.slots[place as usize].tags.has(vm) && self.passes(vm, place) {
                found = Some(place);
                break;
            }
        }
        self.vms[usize::from(vm)].hand = hand;
        found
    }

    /// A VM's hand passes a block that the VM uses: true if it takes it.
    fn passes(&mut self, vm: u16, place: u32) -> bool {
        let slot = &mut self.slots[place as usize];
        let is_named = slot.tags.named().any(|(user, _)| user == vm);
        let was_cold = slot.tags.is_cold();
        let cleared = slot.tags.pass(vm) == Change::Clock;
        if cleared && is_named {
            self.vms[usize::from(vm)].holding.reaccessed -= 1;
        }
        match self.rule {
            Rule::TClock => !cleared && was_cold,
            Rule::Private | Rule::Clock | Rule::References => {
                let was = slot.count;
                slot.count = was.saturating_sub(1);
                was == 0
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replacement::{Capacity, Dense, Evicted, Policy as _, Setup, clock};

    struct Nobody;

    impl Evicted<u32> for Nobody {
        fn push(&mut self, _key: u32) {}
    }

    const RULES: [Rule; 4] = [Rule::Private, Rule::Clock, Rule::References, Rule::TClock];

    #[test]
    fn one_vm_alone_has_clock_under_every_rule() {
        let mut dice = units::Prng::new(3);
        let keys: Vec<u32> = (0..20_000)
            .map(|_| u32::try_from(dice.below(60) * dice.below(60) / 30).unwrap())
            .collect();
        let setup = Setup::new(Capacity::new(40).unwrap(), Dense::new());
        let mut plain = clock::Clock::new(&clock::Config::default(), setup);
        let mut caches = RULES.map(|rule| SharedClock::new(rule, 40));
        for key in keys {
            let hit = plain.access(key, &mut Nobody);
            for cache in &mut caches {
                assert_eq!(cache.access(0, key), hit, "{:?}", cache.rule);
            }
        }
    }

    #[test]
    fn a_shared_block_is_there_for_both_unless_copies_are_private() {
        for (rule, second) in RULES.into_iter().zip([false, true, true, true]) {
            let mut cache = SharedClock::new(rule, 4);
            assert!(!cache.access(0, 9));
            assert_eq!(cache.access(1, 9), second, "{rule:?}");
            assert_eq!(cache.blocks(), 2 - u32::from(second));
            assert_eq!(cache.holding(0).shared, u32::from(second));
            assert!(cache.remove(9) && !cache.contains(0, 9) && !cache.contains(1, 9));
            assert_eq!(
                cache.holding(0),
                Holding {
                    share: 2,
                    ..Holding::default()
                }
            );
        }
    }

    /// Slots: 0 and 1 of VM 0, 2 of VM 1, which uses 0 again and again. VM 0 is at its share of 2.
    /// Its next block costs it block 1: block 0 survives because of VM 1's bit.
    #[test]
    fn what_another_vm_wants_survives_its_owners_hand() {
        let mut cache = SharedClock::new(Rule::TClock, 3);
        cache.access(0, 0);
        cache.access(0, 1);
        cache.access(1, 2);
        cache.access(1, 0);
        cache.access(1, 0);
        cache.set_shares(&[1, 2]);
        cache.access(0, 3);
        assert!(cache.contains(1, 0) && !cache.contains(0, 1));
        // The same with one bit for all: the hand clears it at once and takes block 1 all the same, but
        // the next block of VM 0 then costs block 0.
        cache.access(0, 4);
        assert!(cache.contains(1, 0));
    }

    #[test]
    fn a_vm_above_its_share_gives_and_others_keep_theirs() {
        let mut cache = SharedClock::new(Rule::TClock, 8);
        for key in 0..8 {
            cache.access(0, key);
        }
        assert_eq!(cache.holding(0).held, 8, "nobody else wanted room");
        for key in 100..104 {
            cache.access(1, key);
        }
        assert_eq!((cache.holding(0).held, cache.holding(1).held), (4, 4));
        for key in 200..300 {
            cache.access(0, key);
        }
        assert!((100..104).all(|key| cache.contains(1, key)));
        assert_eq!(cache.holding(1).held, 4);
    }

    #[test]
    fn shares_sum_to_the_capacity_whoever_comes() {
        let mut cache = SharedClock::new(Rule::Clock, 1001);
        for vm in 0..7 {
            cache.access(vm, u32::from(vm));
            let sum: u32 = (0..cache.vms()).map(|vm| cache.holding(vm).share).sum();
            assert_eq!(sum, 1001);
        }
        cache.set_shares(&[0, 0, 1001, 0, 0, 0, 0]);
        cache.access(7, 7);
        assert_eq!(cache.holding(2).share, 875);
    }

    proptest::proptest! {
        #[test]
        fn what_is_counted_is_what_is_there(
            rule in proptest::sample::select(&RULES[..]),
            steps in proptest::collection::vec((0_u16..6, 0_u32..40, 0_u8..20), 1..400),
        ) {
            let mut cache = SharedClock::new(rule, 16);
            for (vm, key, what) in steps {
                if what == 0 {
                    cache.remove(key);
                } else {
                    let there = cache.contains(vm, key);
                    assert_eq!(cache.access(vm, key), there);
                    assert!(cache.contains(vm, key));
                }
                assert!(cache.blocks() <= 16);
                let held: u32 = (0..cache.vms()).map(|vm| cache.holding(vm).held).sum();
                assert_eq!(held, cache.blocks());
                let shares: u32 = (0..cache.vms()).map(|vm| cache.holding(vm).share).sum();
                assert_eq!(shares, if cache.vms() == 0 { 0 } else { 16 });
                for (at, vm) in cache.vms.iter().enumerate() {
                    let vm_number = u16::try_from(at).unwrap();
                    let mine = |place: usize| {
                        let tags = cache.slots[place].tags;
                        let free = cache.free.contains(&u32::try_from(place).unwrap());
                        tags.named().find(|(user, _)| *user == vm_number && !free).map(|(_, clock)| (tags, clock))
                    };
                    let named: Vec<_> = (0..cache.slots.len()).filter_map(mine).collect();
                    let reaccessed = named.iter().filter(|(_, clock)| *clock).count();
                    let shared = named.iter().filter(|(tags, _)| tags.users() > 1).count();
                    assert_eq!(vm.holding.reaccessed as usize, reaccessed);
                    assert_eq!(vm.holding.shared as usize, shared);
                }
            }
        }
    }
}
