//! Blocks in LRU lists, one for each tenant, through one table of places.

use units::TenantSlot;

const NONE: u32 = u32::MAX;

/// A block's row, by its key. It is in a list if it has an owner.
#[derive(Clone, Copy, Debug)]
struct Row {
    newer: u32,
    older: u32,
    /// The tenant's number plus one; 0 is nobody.
    owner: u16,
}

const EMPTY: Row = Row {
    newer: NONE,
    older: NONE,
    owner: 0,
};

#[derive(Clone, Copy, Debug)]
struct Tenant {
    newest: u32,
    oldest: u32,
    held: u32,
    share: u32,
}

const NOBODY: Tenant = Tenant {
    newest: NONE,
    oldest: NONE,
    held: 0,
    share: 0,
};

/// The lists.
pub(super) struct Lists {
    capacity: u32,
    blocks: u32,
    rows: Vec<Row>,
    tenants: Vec<Tenant>,
}

/// A tenant's block that had to leave.
pub(super) type Left = (TenantSlot, u32);

/// What became of a block that came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Inserted {
    /// There was room.
    InFreeRoom,
    /// That one had to leave for it.
    InsteadOf(Left),
    /// There is no room: the tenant has no share of its own, and that of others is not lent.
    Refused,
}

impl Lists {
    pub(super) fn new(capacity: u32) -> Self {
        Self {
            capacity,
            blocks: 0,
            rows: Vec::new(),
            tenants: Vec::new(),
        }
    }

    pub(super) const fn blocks(&self) -> u32 {
        self.blocks
    }

    pub(super) fn held(&self, slot: TenantSlot) -> u32 {
        self.tenants
            .get(slot.index())
            .map_or(0, |tenant| tenant.held)
    }

    pub(super) fn set_share(&mut self, slot: TenantSlot, share: u32) {
        self.meet(slot);
        self.tenants[slot.index()].share = share;
    }

    fn meet(&mut self, slot: TenantSlot) {
        if self.tenants.len() <= slot.index() {
            self.tenants.resize(slot.index() + 1, NOBODY);
        }
    }

    /// The block is used. False if it is in no list.
    pub(super) fn touch(&mut self, key: u32) -> bool {
        let owner = self.rows.get(key as usize).map_or(0, |row| row.owner);
        if owner == 0 {
            return false;
        }
        if self.tenants[usize::from(owner - 1)].newest != key {
            self.unlink(key);
            self.link(owner, key);
        }
        true
    }

    /// The block leaves. False if it was in no list.
    pub(super) fn remove(&mut self, key: u32) -> bool {
        let owner = self.rows.get(key as usize).map_or(0, |row| row.owner);
        if owner == 0 {
            return false;
        }
        self.unlink(key);
        self.rows[key as usize] = EMPTY;
        self.tenants[usize::from(owner - 1)].held -= 1;
        self.blocks -= 1;
        true
    }

    /// A block comes that is in no list.
    pub(super) fn insert(&mut self, owner: TenantSlot, key: u32, is_lent: bool) -> Inserted {
        self.meet(owner);
        let tenant = self.tenants[owner.index()];
        let mut left = None;
        if !is_lent && tenant.held >= tenant.share {
            if tenant.held == 0 {
                return Inserted::Refused;
            }
            left = self.take(owner.index());
        } else if self.blocks == self.capacity {
            let excess = |(at, tenant): &(usize, &Tenant)| {
                let more = i64::from(*at == owner.index());
                // Of equals, the one that asks.
                (
                    i64::from(tenant.held) + more - i64::from(tenant.share),
                    more,
                )
            };
            let tenants = self.tenants.iter().enumerate();
            let victim = tenants
                .filter(|(_, tenant)| tenant.held > 0)
                .max_by_key(excess);
            left = self.take(victim.map_or(owner.index(), |(at, _)| at));
        }
        if self.rows.len() <= key as usize {
            self.rows
                .resize((key as usize + 1).next_power_of_two(), EMPTY);
        }
        assert_eq!(self.rows[key as usize].owner, 0, "it was in no list");
        self.link(owner.get() + 1, key);
        self.tenants[owner.index()].held += 1;
        self.blocks += 1;
        left.map_or(Inserted::InFreeRoom, Inserted::InsteadOf)
    }

    /// The oldest block of a tenant that is above its share leaves; `None` if there is none.
    pub(super) fn shrink(&mut self) -> Option<Left> {
        let above = |tenant: &Tenant| tenant.held > tenant.share;
        let at = self.tenants.iter().position(above)?;
        self.take(at)
    }

    fn take(&mut self, tenant: usize) -> Option<Left> {
        let oldest = self.tenants[tenant].oldest;
        if !self.remove(oldest) {
            return None;
        }
        let slot = u16::try_from(tenant).expect("slots are few");
        Some((TenantSlot::new(slot), oldest))
    }

    fn link(&mut self, owner: u16, key: u32) {
        let tenant = &mut self.tenants[usize::from(owner - 1)];
        self.rows[key as usize] = Row {
            newer: NONE,
            older: tenant.newest,
            owner,
        };
        match tenant.newest {
            NONE => tenant.oldest = key,
            newest => self.rows[newest as usize].newer = key,
        }
        tenant.newest = key;
    }

    fn unlink(&mut self, key: u32) {
        let row = self.rows[key as usize];
        let tenant = &mut self.tenants[usize::from(row.owner - 1)];
        match row.newer {
            NONE => tenant.newest = row.older,
            newer => self.rows[newer as usize].older = row.older,
        }
        match row.older {
            NONE => tenant.oldest = row.newer,
            older => self.rows[older as usize].newer = row.newer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn slot(number: u16) -> TenantSlot {
        TenantSlot::new(number)
    }

    #[test]
    fn room_comes_from_whoever_is_furthest_above_its_share() {
        let mut lists = Lists::new(6);
        lists.set_share(slot(0), 3);
        lists.set_share(slot(1), 3);
        for key in 0..6 {
            assert_eq!(
                lists.insert(slot(0), key, true),
                Inserted::InFreeRoom,
                "nobody else wants room"
            );
        }
        lists.touch(0);
        assert_eq!(
            lists.insert(slot(1), 10, true),
            Inserted::InsteadOf((slot(0), 1))
        );
        for key in [11, 12] {
            lists.insert(slot(1), key, true);
        }
        assert_eq!((lists.held(slot(0)), lists.held(slot(1))), (3, 3));
        assert_eq!(
            lists.insert(slot(1), 13, true),
            Inserted::InsteadOf((slot(1), 10))
        );
    }

    #[test]
    fn what_is_not_lent_stays_idle() {
        let mut lists = Lists::new(6);
        lists.set_share(slot(0), 2);
        for (key, left) in [
            (0, Inserted::InFreeRoom),
            (1, Inserted::InFreeRoom),
            (2, Inserted::InsteadOf((slot(0), 0))),
        ] {
            assert_eq!(lists.insert(slot(0), key, false), left);
        }
        assert_eq!(
            lists.insert(slot(1), 9, false),
            Inserted::Refused,
            "no share"
        );
        assert_eq!(lists.blocks(), 2);
    }

    #[test]
    fn a_share_that_shrinks_gives_its_oldest_at_once_if_strict() {
        let mut lists = Lists::new(4);
        lists.set_share(slot(0), 4);
        for key in 0..4 {
            lists.insert(slot(0), key, false);
        }
        lists.set_share(slot(0), 2);
        assert_eq!(lists.shrink(), Some((slot(0), 0)));
        assert_eq!(lists.shrink(), Some((slot(0), 1)));
        assert_eq!(lists.shrink(), None);
    }

    proptest! {
        /// One tenant with all of it is LRU; what is held is what was put in and has not left.
        #[test]
        fn the_lists_are_those_of_a_slow_model(
            steps in proptest::collection::vec((0_u16..3, 0_u32..12, 0_u8..8, proptest::bool::ANY), 1..200)
        ) {
            let mut lists = Lists::new(7);
            let mut model: Vec<Vec<u32>> = vec![Vec::new(); 3];
            let shares = [3_usize, 2, 2];
            for (at, share) in (0..).zip(shares) {
                lists.set_share(slot(at), u32::try_from(share).unwrap());
            }
            for (owner, key, what, is_lent) in steps {
                let at = model.iter().position(|list| list.contains(&key));
                if what == 0 {
                    prop_assert_eq!(lists.remove(key), at.is_some());
                    for list in &mut model {
                        list.retain(|other| *other != key);
                    }
                } else if let Some(at) = at {
                    prop_assert!(lists.touch(key));
                    model[at].retain(|other| *other != key);
                    model[at].push(key);
                } else {
                    prop_assert!(!lists.touch(key));
                    let inserted = lists.insert(slot(owner), key, is_lent);
                    if let Inserted::InsteadOf((slot, left)) = inserted {
                        prop_assert_eq!(model[slot.index()].remove(0), left);
                    }
                    model[usize::from(owner)].push(key);
                }
                let blocks: usize = model.iter().map(Vec::len).sum();
                prop_assert_eq!(lists.blocks() as usize, blocks);
                prop_assert!(blocks <= 7);
                for (at, list) in (0..).zip(&model) {
                    prop_assert_eq!(lists.held(slot(at)) as usize, list.len());
                }
            }
        }
    }
}
