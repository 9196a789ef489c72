//! Copying: what is cached is listed, and comes piece by piece, as the row of the strategy says.

use super::Moving;
use crate::devices::{Host, Way};
use crate::mover::{Decided, Phase, Step, Told, Wanted, blocks, runs};
use crate::puller::{From, Next, Puller};
use crate::setup::Pace;
use crate::world::Then;
use strategies::{Ahead, Place};
use units::Bytes;

/// Bytes of an address in a list.
const ADDRESS: u64 = 8;
/// So far apart blocks are read from a disk at once, with what lies between them.
const GAP_MAX: u32 = 32;

impl Moving<'_, '_> {
    /// From where the strategy copies in this phase.
    pub(super) fn from(&self) -> From {
        let row = &self.world.setup.row;
        let of = |place| match place {
            Place::Lender => From::Lender,
            Place::Origin => From::Origin,
        };
        match (self.world.mover.phase, row.ahead, row.behind) {
            (Phase::Ahead, Ahead::Passing, _) => From::Passing,
            (Phase::Ahead | Phase::Holding, Ahead::Copies(place), _) | (_, _, Some(place)) => {
                of(place)
            }
            _ => of(row.reads_from),
        }
    }

    /// What is cached is asked for.
    pub(super) fn list(&mut self) {
        let from = self.from();
        self.world.mover.round_began = self.world.timeline.now();
        let copies = self.world.vms[0].copies(Host::Here);
        let mut list = copies.list();
        // The origin has older bytes of these.
        list.retain(|block| from == From::Lender || !copies.is_dirty(*block));
        if self.world.mover.phase == Phase::There && self.world.setup.only_dirty {
            list.retain(|block| self.world.mover.owed.contains(block));
        }
        if from == From::Passing || (from == From::Origin && self.world.setup.pace.by_address) {
            list.sort_unstable();
        }
        let bytes = Bytes::new(list.len() as u64 * ADDRESS);
        self.world
            .submit_bytes(Way::Link, bytes, Then::Mover(Told::Listed(list)));
    }

    pub(super) fn listed(&mut self, list: Vec<u32>) {
        let from = self.from();
        let is_there = self.world.mover.phase == Phase::There;
        if from == From::Lender || (is_there && self.world.setup.row.reads_from == Place::Lender) {
            self.world.mover.list(&list);
        }
        if is_there && self.world.setup.row.behind.is_none() {
            return;
        }
        let pace = match self.world.mover.phase {
            // Nobody else wants the disk.
            Phase::Holding => Pace {
                rests: false,
                ..self.world.setup.pace
            },
            _ => self.world.setup.pace,
        };
        let now = self.world.timeline.now();
        self.world.mover.round += 1;
        self.world.mover.puller = Some(Puller::new(from, pace, list, now));
        self.pump();
    }

    /// Copies what may be copied now.
    pub(super) fn pump(&mut self) {
        loop {
            let now = self.world.timeline.now();
            let Some(mut puller) = self.world.mover.puller.take() else {
                return;
            };
            let from = puller.from;
            let next = puller.next(now, |block| self.is_wanted(from, block));
            self.world.mover.puller = Some(puller);
            match next {
                Next::Blocks(blocks) => self.copy(from, blocks),
                Next::Later(at) => return self.due(at, Step::Pump),
                Next::UnderWay => return,
                Next::Over => {
                    self.world.mover.puller = None;
                    return self.copied();
                }
            }
        }
    }

    fn is_wanted(&mut self, from: From, block: u32) -> bool {
        if self.world.vms[0]
            .copies(Host::There)
            .version(block)
            .is_some()
        {
            return false;
        }
        if self.world.mover.owed.contains(&block) {
            return from == From::Lender;
        }
        let is_dirty = self.world.vms[0].copies(Host::Here).is_dirty(block);
        let is_there = self.world.mover.phase == Phase::There;
        match from {
            From::Lender => self.world.mover.may_borrow(block),
            From::Origin | From::Passing => is_there || !is_dirty,
        }
    }

    fn copy(&mut self, from: From, mut list: Vec<u32>) {
        let now = self.world.timeline.now();
        let round = self.world.mover.round;
        list.sort_unstable();
        if from == From::Origin && self.world.setup.pace.by_address {
            for near in list.chunk_by(|one, next| next - one <= GAP_MAX) {
                let of = |block: &u32| (*block, self.world.vms[0].changes(Host::There, *block));
                let span = near[near.len() - 1] - near[0] + 1;
                let copied = Told::Copied(round, near.iter().map(of).collect());
                let way = Way::OriginRead(Host::There);
                self.world.submit(way, span.into(), Then::Mover(copied));
            }
            return;
        }
        if from != From::Lender {
            for run in runs(&list) {
                let of = |block| (block, self.world.vms[0].changes(Host::There, block));
                let parts: Vec<_> = blocks(run).map(of).collect();
                let way = match from {
                    From::Passing => Way::Link,
                    _ => Way::OriginRead(Host::There),
                };
                self.world.submit(
                    way,
                    parts.len() as u64,
                    Then::Mover(Told::Copied(round, parts)),
                );
            }
            return;
        }
        let (owed, lent): (Vec<u32>, Vec<u32>) = list
            .into_iter()
            .partition(|block| self.world.mover.owed.contains(block));
        let mut all = Decided::default();
        for run in runs(&lent) {
            let changes = |block| self.world.vms[0].changes(Host::There, block);
            let first = blocks(run).start;
            let wanted = Wanted::Copy(round, first, blocks(run).map(changes).collect());
            all.add(self.world.mover.read(first, run.count, wanted, now));
        }
        self.carry_out(all);
        for block in owed {
            let changes = vec![self.world.vms[0].changes(Host::There, block)];
            self.ask_owed(block, Wanted::Copy(round, block, changes));
        }
    }
}
