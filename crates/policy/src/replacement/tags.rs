//! Which VMs use a block, and which of them used it again: T-CLOCK's tag and CLOCK bits in eight bytes.
//!
//! The literal layout has two bits for each VM in each block, which for a hundred VMs is 25 bytes a block,
//! though nearly every block has one user. Here a block names its users, four at most:
//!
//! ```text
//!   few:   [ vm+1 | clock ] [ vm+1 | clock ] [ 0 ] [ 0 ]     15 bits and 1 bit, four times; 0 is no user
//!   many:  [ all ones ] [ lives: 32 bits ] [ sharers: 16 bits ]
//! ```
//!
//! With a fifth user the names are given up: the block then has *lives*, set to the number of its users by
//! every further use and one fewer with every hand that passes. It survives as many passes as if each user
//! had used it again, which is what its bits would say of a block that many VMs want.

/// VMs that can be named; one number marks the second form.
pub const USERS_MAX: u16 = (1 << 15) - 2;

/// Users that are named; with one more they are not.
const NAMED: usize = 4;
const MANY: u64 = 0xffff;

/// The users of a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tags(u64);

/// What an access or a hand changed for a VM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Nothing.
    Nothing,
    /// The VM is a user from now on.
    Tagged,
    /// Its CLOCK bit changed.
    Clock,
}

impl Tags {
    /// A block that one VM brought in.
    ///
    /// # Panics
    /// If the VM's number is above [`USERS_MAX`].
    pub fn of(vm: u16) -> Self {
        let mut tags = Self::default();
        tags.touch(vm);
        tags
    }

    fn entry(self, place: usize) -> u64 {
        self.0 >> (16 * place) & 0xffff
    }

    fn set_entry(&mut self, place: usize, entry: u64) {
        let shift = 16 * place;
        self.0 = self.0 & !(0xffff << shift) | entry << shift;
    }

    /// Whether it has more users than are named.
    pub const fn is_many(self) -> bool {
        self.0 & 0xffff == MANY
    }

    const fn many(sharers: u64, lives: u64) -> Self {
        Self(MANY | lives << 16 | sharers << 48)
    }

    fn sharers(self) -> u64 {
        self.0 >> 48
    }

    fn lives(self) -> u64 {
        self.0 >> 16 & 0xffff_ffff
    }

    fn place_of(self, vm: u16) -> Option<usize> {
        (0..NAMED).find(|place| self.entry(*place) >> 1 == u64::from(vm) + 1)
    }

    /// The VM accesses the block: the first time it is tagged, later its CLOCK bit is set.
    ///
    /// # Panics
    /// If the VM's number is above [`USERS_MAX`].
    pub fn touch(&mut self, vm: u16) -> Change {
        assert!(vm <= USERS_MAX, "a VM's number fits");
        if self.is_many() {
            *self = Self::many(self.sharers(), self.sharers());
            return Change::Nothing;
        }
        if let Some(place) = self.place_of(vm) {
            let entry = self.entry(place);
            self.set_entry(place, entry | 1);
            return if entry & 1 == 0 {
                Change::Clock
            } else {
                Change::Nothing
            };
        }
        match (0..NAMED).find(|place| self.entry(*place) == 0) {
            Some(free) => self.set_entry(free, (u64::from(vm) + 1) << 1),
            None => *self = Self::many(5, 5),
        }
        Change::Tagged
    }

    /// The VM's hand passes: its CLOCK bit is cleared. Of a block with more users than are named, one life
    /// is taken, and [`Change::Clock`] says so.
    pub fn pass(&mut self, vm: u16) -> Change {
        if self.is_many() {
            let lives = self.lives();
            *self = Self::many(self.sharers(), lives.saturating_sub(1));
            return if lives > 0 {
                Change::Clock
            } else {
                Change::Nothing
            };
        }
        let Some(place) = self.place_of(vm) else {
            return Change::Nothing;
        };
        let entry = self.entry(place);
        self.set_entry(place, entry & !1);
        if entry & 1 == 1 {
            Change::Clock
        } else {
            Change::Nothing
        }
    }

    /// Whether the VM uses the block; of a block with more users than are named, every VM does.
    pub fn has(self, vm: u16) -> bool {
        self.is_many() || self.place_of(vm).is_some()
    }

    /// How many VMs use it; more than are named count as one more.
    pub fn users(self) -> u32 {
        if self.is_many() {
            return 5;
        }
        let users = (0..NAMED).filter(|place| self.entry(*place) != 0);
        users.map(|_| 1).sum()
    }

    /// The users that are named, and whether each one's CLOCK bit is set.
    ///
    /// # Panics
    /// Never: a name has 15 bits.
    pub fn named(self) -> impl Iterator<Item = (u16, bool)> {
        let named = if self.is_many() { 0 } else { NAMED };
        (0..named)
            .map(move |place| self.entry(place))
            .filter(|entry| *entry != 0)
            .map(|entry| {
                let vm = u16::try_from((entry >> 1) - 1).expect("an entry has 15 bits of name");
                (vm, entry & 1 == 1)
            })
    }

    /// Whether no VM used it again: it may go.
    pub fn is_cold(self) -> bool {
        if self.is_many() {
            return self.lives() == 0;
        }
        (0..NAMED).all(|place| self.entry(place) & 1 == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_access_tags_and_the_second_sets_the_bit() {
        let mut tags = Tags::of(7);
        assert!(tags.has(7) && !tags.has(8) && tags.is_cold());
        assert_eq!(tags.touch(7), Change::Clock);
        assert_eq!(tags.touch(7), Change::Nothing);
        assert_eq!(tags.touch(8), Change::Tagged);
        assert_eq!(tags.named().collect::<Vec<_>>(), [(7, true), (8, false)]);
        assert_eq!((tags.users(), tags.is_cold()), (2, false));
    }

    #[test]
    fn a_hand_clears_only_its_own_bit() {
        let mut tags = Tags::of(0);
        for vm in [0, 1, 1] {
            tags.touch(vm);
        }
        assert_eq!(tags.pass(0), Change::Clock);
        assert_eq!(tags.pass(0), Change::Nothing);
        assert!(!tags.is_cold(), "VM 1 still wants it");
        assert_eq!(tags.pass(1), Change::Clock);
        assert!(tags.is_cold());
    }

    #[test]
    fn a_block_of_five_users_survives_five_passes() {
        let mut tags = Tags::of(USERS_MAX);
        for vm in 0..4 {
            assert_eq!(tags.touch(vm), Change::Tagged);
        }
        assert!(tags.has(99));
        assert_eq!(tags.users(), 5);
        for vm in 0..5 {
            assert!(!tags.is_cold());
            assert_eq!(tags.pass(vm), Change::Clock);
        }
        assert!(tags.is_cold());
        assert_eq!(tags.pass(1), Change::Nothing);
        tags.touch(3);
        assert!(!tags.is_cold());
    }

    proptest::proptest! {
        /// Against the literal layout: a tag and a CLOCK bit for each of four VMs.
        #[test]
        fn four_users_are_as_in_the_literal_layout(steps in proptest::collection::vec((0_u16..4, proptest::bool::ANY), 1..40)) {
            let mut tags = Tags::default();
            let mut literal = [(false, false); 4];
            for (vm, passes) in steps {
                let (tag, clock) = &mut literal[usize::from(vm)];
                if passes {
                    tags.pass(vm);
                    *clock = false;
                } else {
                    tags.touch(vm);
                    *clock = *tag;
                    *tag = true;
                }
                for vm in 0..4 {
                    assert_eq!(tags.has(vm), literal[usize::from(vm)].0);
                }
                assert_eq!(tags.is_cold(), literal.iter().all(|(_, clock)| !clock));
                let users = literal.iter().filter(|(tag, _)| *tag).count();
                assert_eq!(tags.users() as usize, users);
            }
        }
    }
}
