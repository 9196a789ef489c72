//! Who holds how many segments, and who gives one back when room is needed.
//!
//! ```text
//!  disks ──► tenants: share, held      room is needed:
//!  d0 ─┐                                 1. what belongs to nobody
//!  d1 ─┴─ t0   share 10, held 14  +4     2. the tenant that is furthest above its share
//!  d2 ─── t1   share 10, held  9  −1     3. nobody is above: the one that is least below
//!  d3 ─── nobody                  +∞
//! ```
//!
//! A share is a number of segments and nothing else: changing it moves no data and loses no
//! block. It acts when somebody needs room, so that what one tenant does not use another may
//! ([`Spare::Lent`]).
//!
//! *Furthest* is counted in segments, not in proportion to the share. What has to be given back
//! is a number of segments, and it is owed by whoever borrowed most; in proportion, a small tenant
//! whose two open streams put it one segment above a share of two would pay before a large one
//! that holds fifty borrowed segments.
//!
//! Disks that no tenant has (nobody attached them since the cache was opened, or nobody wants
//! tenants) belong to *nobody*, whose segments go first.
//!
//! Invariants, checked by [`crate::SegmentLog::self_check`]: a tenant's `held` is the number of
//! its disks' segments that are neither free nor given up, `dirty` how many of these are dirty; each closed segment is in one of the two
//! queues of its disk's owner.

use crate::segment::{Phase, Segment};
use flash_format::SegmentIndex;
use policy::reclaim::Budget;
use std::collections::BTreeMap;
use units::{DiskSlot, TenantSlot};

/// The least share with which a tenant can keep anything: each of a disk's two streams has a
/// segment open.
pub const SEGMENTS_PER_TENANT_MIN: u32 = 2;

/// Segments of each queue of which the emptiest is looked for. With so many to choose from the choice
/// is as good as from all; of 8 a hundredth of the hits was lost, and a tenth of the bytes, where guests
/// rewrite.
const SAMPLED: usize = 64;

/// What happens to flash that a tenant's share gives it and that it does not use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Spare {
    /// Others use it until somebody who is below its share needs it.
    #[default]
    Lent,
    /// It stays idle: a tenant that has reached its share reclaims its own segments for what is
    /// new. One that is above its share, since that has shrunk, keeps what it has until it or
    /// another needs room.
    Idle,
    /// As [`Spare::Idle`], and whoever is above its share is shrunk at once.
    Strict,
}

/// Whom a disk belongs to: a tenant or nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner(u16);

impl Owner {
    pub(crate) const NOBODY: Self = Self(0);

    pub(crate) const fn of(tenant: Option<TenantSlot>) -> Self {
        match tenant {
            None => Self::NOBODY,
            Some(tenant) => Self(1 + tenant.get()),
        }
    }

    /// Its place among the accounts.
    const fn index(self) -> usize {
        self.0 as usize
    }
}

/// What a tenant that has reached its share waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Wants {
    #[default]
    Nothing,
    /// Its next segment will be refused: one of its closed ones can go.
    Room,
    /// A segment was refused: an open one goes if none is closed.
    RoomNow,
}

/// Closed segments by their turns.
#[derive(Debug, Default)]
struct Queue {
    segments: BTreeMap<u64, SegmentIndex>,
    /// Where the next sample begins.
    sampled_to: u64,
}

impl Queue {
    fn first(&self) -> Option<(u64, SegmentIndex)> {
        self.segments
            .iter()
            .next()
            .map(|(turn, segment)| (*turn, *segment))
    }

    /// A few segments, others each time, all of them before one comes again, behind `into`.
    fn sample(&mut self, into: &mut Vec<SegmentIndex>) {
        let from = self.sampled_to;
        let behind = self.segments.range(from..);
        let before = self.segments.range(..from);
        self.sampled_to = 0;
        into.reserve(self.segments.len().min(SAMPLED));
        let few = behind.chain(before).take(SAMPLED);
        few.for_each(|(turn, segment)| {
            self.sampled_to = turn + 1;
            into.push(*segment);
        });
    }
}

/// A tenant, or nobody.
#[derive(Debug)]
struct Account {
    share: u32,
    held: u32,
    /// So many of them are dirty, and cannot be reclaimed.
    dirty: u32,
    wants: Wants,
    /// Closed segments of new blocks that were never spared.
    fresh: Queue,
    /// The other closed ones.
    proven: Queue,
    /// What reclaim may write for it.
    budget: Budget,
}

impl Account {
    fn new(budget: Budget) -> Self {
        Self {
            share: 0,
            held: 0,
            dirty: 0,
            wants: Wants::Nothing,
            fresh: Queue::default(),
            proven: Queue::default(),
            budget,
        }
    }

    fn queue_mut(&mut self, fresh: bool) -> &mut Queue {
        if fresh {
            &mut self.fresh
        } else {
            &mut self.proven
        }
    }

    fn closed_count(&self) -> usize {
        self.fresh.segments.len() + self.proven.segments.len()
    }

    /// The turn that comes first.
    fn first_turn(&self) -> Option<u64> {
        let queues = [&self.fresh, &self.proven].into_iter();
        queues.filter_map(Queue::first).map(|(turn, _)| turn).min()
    }

    /// Segments that it may take while spare ones stay idle.
    fn limit(&self) -> u32 {
        if self.share == 0 {
            0
        } else {
            self.share.max(SEGMENTS_PER_TENANT_MIN)
        }
    }
}

/// Whether a phase counts for whoever owns the segment.
const fn is_held(phase: Phase) -> bool {
    !matches!(phase, Phase::Free | Phase::Draining)
}

/// Whether a segment counts as dirty for its owner.
const fn is_held_dirty(segment: &Segment) -> bool {
    is_held(segment.phase) && segment.is_dirty
}

/// All tenants, and nobody.
#[derive(Debug)]
pub(crate) struct Tenants {
    of_disk: Vec<Owner>,
    accounts: Vec<Account>,
    /// What a new account begins with.
    purse: Budget,
    spare: Spare,
    /// Nothing has changed since nobody was over its limit.
    settled: bool,
}

impl Tenants {
    pub(crate) fn new(purse: Budget) -> Self {
        Self {
            of_disk: vec![Owner::NOBODY; DiskSlot::COUNT],
            accounts: vec![Account::new(purse)],
            purse,
            spare: Spare::default(),
            settled: false,
        }
    }

    /// Nobody, and all tenants.
    fn each(&self) -> impl Iterator<Item = (Owner, &Account)> {
        (0..).map(Owner).zip(&self.accounts)
    }

    pub(crate) fn owner_of(&self, disk: DiskSlot) -> Owner {
        self.of_disk[disk.index()]
    }

    fn account_mut(&mut self, owner: Owner) -> &mut Account {
        let purse = self.purse;
        while self.accounts.len() <= owner.index() {
            self.accounts.push(Account::new(purse));
        }
        self.settled = false;
        &mut self.accounts[owner.index()]
    }

    pub(crate) fn set_spare(&mut self, spare: Spare) {
        self.spare = spare;
        self.settled = false;
    }

    pub(crate) fn set_share(&mut self, tenant: TenantSlot, segments: u32) {
        let account = self.account_mut(Owner::of(Some(tenant)));
        account.share = segments;
        // Whoever lacks room under the new share says so when it is refused a segment.
        account.wants = Wants::Nothing;
    }

    pub(crate) fn share(&self, tenant: TenantSlot) -> u32 {
        let account = self.accounts.get(Owner::of(Some(tenant)).index());
        account.map_or(0, |account| account.share)
    }

    pub(crate) fn held(&self, owner: Owner) -> u32 {
        self.accounts
            .get(owner.index())
            .map_or(0, |account| account.held)
    }

    /// A disk changes hands, with its segments.
    pub(crate) fn set_owner<'a>(
        &mut self,
        disk: DiskSlot,
        owner: Owner,
        its_segments: impl Iterator<Item = (SegmentIndex, &'a Segment)>,
    ) {
        let from = std::mem::replace(&mut self.of_disk[disk.index()], owner);
        if from == owner {
            return;
        }
        for (index, segment) in its_segments {
            self.leaves(from, segment);
            self.comes(owner, index, segment);
        }
    }

    /// A segment goes from one phase, or from one turn, to another. If it changes its disk it is
    /// free in between.
    pub(crate) fn changed(&mut self, index: SegmentIndex, before: &Segment, now: Segment) {
        self.leaves(self.owner_of(before.disk), before);
        self.comes(self.owner_of(now.disk), index, &now);
    }

    fn leaves(&mut self, owner: Owner, segment: &Segment) {
        let account = self.account_mut(owner);
        account.held -= u32::from(is_held(segment.phase));
        account.dirty -= u32::from(is_held_dirty(segment));
        if segment.phase == Phase::Closed {
            let queue = account.queue_mut(segment.fresh);
            queue.segments.remove(&segment.turn);
        }
    }

    fn comes(&mut self, owner: Owner, index: SegmentIndex, segment: &Segment) {
        let account = self.account_mut(owner);
        account.held += u32::from(is_held(segment.phase));
        account.dirty += u32::from(is_held_dirty(segment));
        if segment.phase == Phase::Closed {
            let queue = account.queue_mut(segment.fresh);
            let previous = queue.segments.insert(segment.turn, index);
            assert!(previous.is_none(), "turns are unique");
        }
    }

    /// What reclaim may write for an owner.
    pub(crate) fn budget(&self, owner: Owner) -> &Budget {
        self.accounts
            .get(owner.index())
            .map_or(&self.purse, |account| &account.budget)
    }

    /// What reclaim may write for the owner of a disk.
    #[inline]
    pub(crate) fn budget_of_disk_mut(&mut self, disk: DiskSlot) -> &mut Budget {
        let owner = self.owner_of(disk);
        &mut self.accounts[owner.index()].budget
    }

    /// Whether a disk may take a free segment for new blocks; a refusal is remembered.
    pub(crate) fn may_open(&mut self, disk: DiskSlot) -> bool {
        let owner = self.owner_of(disk);
        if self.spare == Spare::Lent || owner == Owner::NOBODY {
            return true;
        }
        let account = self.account_mut(owner);
        let may = account.held < account.limit();
        account.wants = if !may {
            Wants::RoomNow
        } else if account.held + 1 == account.limit() {
            Wants::Room
        } else {
            Wants::Nothing
        };
        may
    }

    /// The closed segments of an owner whose turn it is: fresh and proven.
    pub(crate) fn heads(&self, owner: Owner) -> [Option<SegmentIndex>; 2] {
        let Some(account) = self.accounts.get(owner.index()) else {
            return [None; 2];
        };
        [&account.fresh, &account.proven].map(|queue| Some(queue.first()?.1))
    }

    /// A few closed segments of an owner, others each time, behind `into`.
    pub(crate) fn sample(&mut self, owner: Owner, into: &mut Vec<SegmentIndex>) {
        let account = &mut self.accounts[owner.index()];
        account.fresh.sample(into);
        account.proven.sample(into);
    }

    pub(crate) fn closed_count(&self) -> usize {
        self.accounts.iter().map(Account::closed_count).sum()
    }

    /// How many segments an owner has beyond its share; nobody has no share at all.
    fn excess(&self, owner: Owner) -> i64 {
        let account = &self.accounts[owner.index()];
        if owner == Owner::NOBODY {
            return i64::MAX;
        }
        i64::from(account.held) - i64::from(account.share)
    }

    /// Who gives a segment back when any segment will do: everybody who holds one that is not
    /// dirty, in the order in which they are asked. Of two that are equally far above their shares the one whose oldest
    /// segment is older comes first.
    pub(crate) fn in_order_of_excess(&self) -> Vec<(Owner, i64)> {
        let holders = self
            .each()
            .filter(|(_, account)| account.held > account.dirty);
        let mut order: Vec<(Owner, i64)> = holders
            .map(|(owner, _)| (owner, self.excess(owner)))
            .collect();
        let first = |owner: Owner| self.accounts[owner.index()].first_turn();
        order.sort_by_key(|(owner, excess)| {
            (
                std::cmp::Reverse(*excess),
                first(*owner).unwrap_or(u64::MAX),
            )
        });
        order
    }

    /// Whether it is known without a look that nobody has to.
    #[inline]
    pub(crate) fn nobody_is_over(&self) -> bool {
        self.settled || self.spare == Spare::Lent || self.accounts.len() == 1
    }

    /// Who has to give a segment back although enough are free.
    pub(crate) fn over_its_limit(&mut self) -> Option<Owner> {
        if self.nobody_is_over() {
            return None;
        }
        let shrinks = |account: &Account| {
            let limit = account.limit();
            let above = self.spare == Spare::Strict && account.held > limit;
            let wants = match account.wants {
                Wants::Nothing => false,
                Wants::Room => account.closed_count() > 0,
                Wants::RoomNow => true,
            };
            above || (wants && limit > 0 && account.held >= limit)
        };
        let tenants = self.each().skip(1);
        let most = tenants
            .filter(|(_, account)| shrinks(account))
            .map(|(owner, _)| owner)
            .max_by_key(|owner| self.excess(*owner));
        self.settled = most.is_none();
        most
    }

    /// Asserts that the counts are those of the segments.
    pub(crate) fn self_check<'a>(
        &self,
        segments: impl Iterator<Item = (SegmentIndex, &'a Segment)>,
    ) {
        let mut held = vec![(0, 0); self.accounts.len()];
        let mut closed = 0;
        for (index, segment) in segments {
            let owner = self.owner_of(segment.disk);
            held[owner.index()].0 += u32::from(is_held(segment.phase));
            held[owner.index()].1 += u32::from(is_held_dirty(segment));
            assert!(
                !segment.is_dirty || segment.phase != Phase::Closed,
                "{index:?} is closed and destaged"
            );
            if segment.phase != Phase::Closed {
                continue;
            }
            closed += 1;
            let account = &self.accounts[owner.index()];
            let queue = if segment.fresh {
                &account.fresh
            } else {
                &account.proven
            };
            let listed = queue.segments.get(&segment.turn);
            assert_eq!(
                listed,
                Some(&index),
                "a closed segment is in its owner's queue"
            );
        }
        let accounts = self.accounts.iter();
        let counted: Vec<(u32, u32)> = accounts.map(|each| (each.held, each.dirty)).collect();
        assert_eq!(
            held, counted,
            "segments, and dirty ones, held by each owner"
        );
        assert_eq!(
            closed,
            self.closed_count(),
            "only closed segments are listed"
        );
    }

    /// Bytes of memory. The trees' nodes are half full.
    pub(crate) fn bytes(&self) -> usize {
        let listed = self.closed_count() * 2 * size_of::<(u64, SegmentIndex)>();
        self.of_disk.capacity() * size_of::<Owner>()
            + self.accounts.capacity() * size_of::<Account>()
            + listed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_go_round_so_that_every_segment_is_looked_at() {
        let numbers = |queue: &mut Queue| -> Vec<u32> {
            let mut sample = Vec::new();
            queue.sample(&mut sample);
            sample.into_iter().map(SegmentIndex::get).collect()
        };
        let mut queue = Queue::default();
        assert!(numbers(&mut queue).is_empty());
        for number in 0..160 {
            queue
                .segments
                .insert(u64::from(number) * 3, SegmentIndex::new(number));
        }
        assert_eq!(numbers(&mut queue), (0..64).collect::<Vec<u32>>());
        assert_eq!(numbers(&mut queue), (64..128).collect::<Vec<u32>>());
        let last: Vec<u32> = (128..160).chain(0..32).collect();
        assert_eq!(numbers(&mut queue), last);
    }
}
