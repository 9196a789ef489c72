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
//! its disks' segments that are neither free nor given up; each closed segment is listed with the
//! owner of its disk.

use crate::table::Phase;
use flash_format::SegmentIndex;
use std::collections::BTreeMap;
use units::{DiskSlot, TenantSlot};

/// The least share with which a tenant can keep anything: each of a disk's two streams has a
/// segment open.
pub const SEGMENTS_PER_TENANT_MIN: u32 = 2;

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
pub(crate) struct Owner(usize);

impl Owner {
    pub(crate) const NOBODY: Self = Self(0);

    pub(crate) const fn of(tenant: Option<TenantSlot>) -> Self {
        match tenant {
            None => Self::NOBODY,
            Some(tenant) => Self(1 + tenant.index()),
        }
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

/// A tenant, or nobody.
#[derive(Debug, Default)]
struct Account {
    share: u32,
    held: u32,
    wants: Wants,
    /// Closed segments by generation: oldest first.
    closed: BTreeMap<u64, SegmentIndex>,
}

impl Account {
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

/// All tenants, and nobody.
#[derive(Debug)]
pub(crate) struct Tenants {
    of_disk: Vec<Owner>,
    accounts: Vec<Account>,
    spare: Spare,
    /// Nothing has changed since nobody was over its limit.
    settled: bool,
}

impl Tenants {
    pub(crate) fn new() -> Self {
        Self {
            of_disk: vec![Owner::NOBODY; DiskSlot::COUNT],
            accounts: vec![Account::default()],
            spare: Spare::default(),
            settled: false,
        }
    }

    pub(crate) fn owner_of(&self, disk: DiskSlot) -> Owner {
        self.of_disk[disk.index()]
    }

    fn account_mut(&mut self, owner: Owner) -> &mut Account {
        if self.accounts.len() <= owner.0 {
            self.accounts.resize_with(owner.0 + 1, Account::default);
        }
        self.settled = false;
        &mut self.accounts[owner.0]
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
        let account = self.accounts.get(Owner::of(Some(tenant)).0);
        account.map_or(0, |account| account.share)
    }

    pub(crate) fn held(&self, owner: Owner) -> u32 {
        self.accounts.get(owner.0).map_or(0, |account| account.held)
    }

    /// A disk changes hands; `segments` has its segments with their generations and phases.
    pub(crate) fn set_owner(
        &mut self,
        disk: DiskSlot,
        owner: Owner,
        segments: impl Iterator<Item = (SegmentIndex, u64, Phase)>,
    ) {
        let from = std::mem::replace(&mut self.of_disk[disk.index()], owner);
        if from == owner {
            return;
        }
        for (segment, generation, phase) in segments {
            self.turn(from, segment, generation, phase, Phase::Free);
            self.turn(owner, segment, generation, Phase::Free, phase);
        }
    }

    /// A segment of a disk goes from one phase to another.
    pub(crate) fn changed(
        &mut self,
        disk: DiskSlot,
        segment: SegmentIndex,
        generation: u64,
        from: Phase,
        to: Phase,
    ) {
        self.turn(self.owner_of(disk), segment, generation, from, to);
    }

    fn turn(
        &mut self,
        owner: Owner,
        segment: SegmentIndex,
        generation: u64,
        from: Phase,
        to: Phase,
    ) {
        let account = self.account_mut(owner);
        match (is_held(from), is_held(to)) {
            (false, true) => account.held += 1,
            (true, false) => account.held -= 1,
            _ => {}
        }
        if from == Phase::Closed {
            account.closed.remove(&generation);
        }
        if to == Phase::Closed {
            let previous = account.closed.insert(generation, segment);
            assert!(previous.is_none(), "generations are unique");
        }
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

    /// Closed segments of an owner, oldest first.
    pub(crate) fn closed(&self, owner: Owner) -> impl DoubleEndedIterator<Item = SegmentIndex> {
        let account = self.accounts.get(owner.0);
        account
            .into_iter()
            .flat_map(|account| account.closed.values().copied())
    }

    /// All closed segments with their generations.
    pub(crate) fn all_closed(&self) -> impl Iterator<Item = (u64, SegmentIndex)> {
        let accounts = self.accounts.iter();
        accounts.flat_map(|account| account.closed.iter().map(|(at, segment)| (*at, *segment)))
    }

    pub(crate) fn closed_count(&self) -> usize {
        self.accounts
            .iter()
            .map(|account| account.closed.len())
            .sum()
    }

    /// How many segments an owner has beyond its share; nobody has no share at all.
    fn excess(&self, owner: Owner) -> i64 {
        let account = &self.accounts[owner.0];
        if owner == Owner::NOBODY {
            return i64::MAX;
        }
        i64::from(account.held) - i64::from(account.share)
    }

    /// Who gives a segment back when any segment will do: everybody who holds one, in the order in
    /// which they are asked. Of two that are equally far above their shares the one whose oldest
    /// segment is older comes first.
    pub(crate) fn in_order_of_excess(&self) -> Vec<(Owner, i64)> {
        let holders = (0..self.accounts.len()).filter(|at| self.accounts[*at].held > 0);
        let mut order: Vec<(Owner, i64)> = holders
            .map(|at| (Owner(at), self.excess(Owner(at))))
            .collect();
        let oldest = |owner: Owner| self.accounts[owner.0].closed.keys().next().copied();
        order.sort_by_key(|(owner, excess)| {
            (
                std::cmp::Reverse(*excess),
                oldest(*owner).unwrap_or(u64::MAX),
            )
        });
        order
    }

    /// Who has to give a segment back although enough are free.
    pub(crate) fn over_its_limit(&mut self) -> Option<Owner> {
        if self.settled || self.spare == Spare::Lent {
            return None;
        }
        let shrinks = |owner: &Owner| {
            let account = &self.accounts[owner.0];
            let limit = account.limit();
            let above = self.spare == Spare::Strict && account.held > limit;
            let wants = match account.wants {
                Wants::Nothing => false,
                Wants::Room => !account.closed.is_empty(),
                Wants::RoomNow => true,
            };
            above || (wants && limit > 0 && account.held >= limit)
        };
        let tenants = (1..self.accounts.len()).map(Owner);
        let most = tenants
            .filter(shrinks)
            .max_by_key(|owner| self.excess(*owner));
        self.settled = most.is_none();
        most
    }

    /// Asserts that the counts are those of the segments.
    pub(crate) fn self_check(
        &self,
        segments: impl Iterator<Item = (SegmentIndex, DiskSlot, u64, Phase)>,
    ) {
        let mut held = vec![0; self.accounts.len()];
        let mut closed = 0;
        for (segment, disk, generation, phase) in segments {
            let owner = self.owner_of(disk);
            held[owner.0] += u32::from(is_held(phase));
            let listed = self.accounts[owner.0].closed.get(&generation);
            let is_closed = phase == Phase::Closed;
            closed += usize::from(is_closed);
            assert!(
                !is_closed || listed == Some(&segment),
                "{segment:?} is listed with its owner"
            );
        }
        let counted: Vec<u32> = self.accounts.iter().map(|account| account.held).collect();
        assert_eq!(held, counted, "segments held by each owner");
        assert_eq!(
            closed,
            self.closed_count(),
            "only closed segments are listed"
        );
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        let listed = self.closed_count() * (size_of::<u64>() + size_of::<SegmentIndex>());
        self.of_disk.capacity() * size_of::<Owner>()
            + self.accounts.capacity() * size_of::<Account>()
            + listed
    }
}
