//! Write-back in the world: what a seed sets for it, what an operator changes, and what must hold of
//! the origin alone.
//!
//! What a disk is like that has bytes waiting on flash is told by its owner's record alone
//! (`owner.rs`): while that is open the origin lags, and has to be a state that the guest could have
//! left behind; while it is closed the origin has everything.

use crate::checker::{Moment, SECTOR, Tag, tag_of};
use crate::disk::Disk;
use crate::disk::Standing;
use crate::host::Software;
use crate::settings::{Special, pick};
use crate::violation::Violation;
use crate::world::{Stop, World};
use block_io::IoError;
use cache::{DestageOrder, DestageState, OfDirty, WriteBack, WritePolicy};
use medium::{Fault, Kind};
use units::{BLOCK_BYTES, Bytes, Duration};

/// What the world knows of one disk's write-back.
#[allow(
    clippy::struct_excessive_bools,
    reason = "facts that do not exclude each other"
)]
#[derive(Clone, Debug, Default)]
pub(crate) struct Back {
    /// How writes go back since the last command about it.
    pub rules: WriteBack,
    /// Everything that reached the origin since it was complete did so in order.
    pub ordered: bool,
    /// Since when its record is open.
    pub since: Moment,
    /// Since when the order is what it is.
    pub order_since: Moment,
    /// The power went while failed or late flash was being emptied: of what was not flushed any part is there.
    pub ragged: bool,
    /// What the audit after a start has read of each sector.
    pub found: Vec<Vec<Option<Tag>>>,
    /// Not attached again in this life.
    pub given_up: bool,
    /// A detach that throws away what waits is under way.
    pub dropping: bool,
}

impl Back {
    /// The disk comes under write-back, with an origin that has everything.
    pub(crate) fn begin(&mut self, now: Moment) {
        self.ordered = self.rules.order == DestageOrder::Ordered;
        self.order_since = now;
    }

    /// An audit has read these bytes.
    pub(crate) fn note(&mut self, offset: Bytes, bytes: &[u8]) {
        let first = offset.to_usize() / SECTOR;
        for (number, content) in (first..).zip(bytes.chunks_exact(SECTOR)) {
            self.found[number] = vec![tag_of(content)];
        }
    }
}

impl Disk {
    /// The cache may have bytes that the origin lacks.
    pub(crate) fn is_open(&self) -> bool {
        self.owner.is_some_and(|record| record.open)
    }

    /// The origin has everything, so the record must say so.
    pub(crate) fn must_be_closed(&self, since: &str) -> Result<(), Violation> {
        if self.is_open() {
            let what = format!("{since}, and its owner's record is {:?}", self.owner);
            return Err(Violation::new("I6", what));
        }
        Ok(())
    }

    /// Whether its writes can go back later.
    pub(crate) fn can_go_back(&self) -> bool {
        self.size().is_multiple_of(BLOCK_BYTES) && !self.settings.read_only
    }

    /// Every value that its origin's sectors may hold, whatever it loses now.
    pub(crate) fn fates(&self) -> Vec<Vec<Option<Tag>>> {
        let mut fates = vec![Vec::new(); self.sectors_most_usize()];
        self.origin.fates(|sector, content| {
            let tag = tag_of(content);
            if !fates[sector].contains(&tag) {
                fates[sector].push(tag);
            }
        });
        fates
    }

    /// What its origin's sectors read as.
    fn held_by_origin(&self) -> Vec<Vec<Option<Tag>>> {
        let mut bytes = vec![0; self.sectors_most_usize() * SECTOR];
        self.origin.peek(Bytes::ZERO, &mut bytes);
        let sectors = bytes.chunks_exact(SECTOR);
        sectors.map(|content| vec![tag_of(content)]).collect()
    }

    /// The origin has all that was acknowledged before `before`, for good.
    pub(crate) fn origin_has(&self, before: Moment) -> Result<(), Violation> {
        // What went through before it came under write-back is there, flushed or not.
        let held = self.held_by_origin();
        self.history.origin_has(&held, 0, before)?;
        self.history
            .origin_has(&self.fates(), self.back.since, before)
    }
}

impl World {
    /// Whether writes of a disk wait on flash: without flash they go to the origin, whatever its
    /// policy is, and its record is closed.
    pub(crate) fn goes_back_now(&self, number: usize) -> bool {
        let is_back = self.policy_now(number) == Some(WritePolicy::Back);
        is_back && self.disks[number].is_open()
    }

    /// What writes of a disk do that is about to be attached.
    pub(crate) fn draw_policy(&mut self, number: usize) -> WritePolicy {
        let disk = &self.disks[number];
        let Some(back) = self.run.settings().back else {
            return *pick(
                self.run.dice(),
                &[WritePolicy::Through, WritePolicy::Around],
            );
        };
        // What waits on flash is only served under write-back; and now and then somebody asks for
        // what cannot be.
        let sense = disk.can_go_back() || self.run.one_in(20);
        if sense && (back.late > 1 && !self.run.one_in(back.late)) {
            WritePolicy::Back
        } else {
            *pick(
                self.run.dice(),
                &[WritePolicy::Through, WritePolicy::Around],
            )
        }
    }

    /// How writes go back, for a disk that is attached or changed.
    pub(crate) fn draw_write_back(&mut self) -> WriteBack {
        match self.run.settings().back {
            Some(back) => {
                let suspect = self.flash_is_suspect();
                back.draw_write_back(self.run.special(), suspect, self.run.dice())
            }
            None => WriteBack::default(),
        }
    }

    /// What becomes of a disk's bytes when it is detached while the cache goes on.
    pub(crate) fn draw_of_dirty(&mut self) -> OfDirty {
        let back = self.run.settings().back;
        match back {
            None => OfDirty::Refuse,
            Some(back) if back.drops && self.run.one_in(4) => OfDirty::Drop,
            Some(_) => *pick(
                self.run.dice(),
                &[OfDirty::Refuse, OfDirty::Flush, OfDirty::Keep],
            ),
        }
    }

    /// Before an audit: nothing is known of any sector.
    pub(crate) fn forget_what_was_found(&mut self) {
        for disk in &mut self.disks {
            disk.back.found = vec![Vec::new(); disk.sectors_most_usize()];
        }
    }

    /// After the audit of a start: what was found of disks with something waiting is everything up
    /// to one point.
    pub(crate) fn judge_what_was_found(&mut self) -> Result<(), Violation> {
        let late = self.run.special() == Special::Late;
        for number in 0..self.disks.len() {
            if !self.disks[number].is_open() || self.is_locked(number) {
                continue;
            }
            let disk = &mut self.disks[number];
            if disk.served_as().is_some() {
                if !std::mem::take(&mut disk.back.ragged) {
                    self.run.hit("one cut");
                    disk.history.one_cut(&disk.back.found, disk.back.since)?;
                }
                disk.history.settle(&disk.back.found, late);
            }
        }
        Ok(())
    }

    /// For a message: what waits on flash.
    pub(crate) fn what_waits(&self) -> String {
        let Software::Cache(cache) = &self.host.software else {
            return String::new();
        };
        let status = |disk: &Disk| Some((disk.id, cache.write_back_of(disk.slot()?)?));
        let all: Vec<_> = self.disks.iter().filter_map(status).collect();
        let asked: Vec<_> = self.outstanding.keys().collect();
        let mode = cache.status().mode;
        format!(
            "; {mode:?}, {all:?}, requests {asked:?}, commands {:?}",
            self.commanded
        )
    }

    /// Whether the cache says that the operator has to decide about a disk.
    fn is_locked(&self, number: usize) -> bool {
        let status = self.write_back_of(number);
        status.is_some_and(|status| matches!(status.state, DestageState::Locked(_)))
    }

    /// Detaches every disk before a clean stop. What waits is flushed or kept; in the last life it
    /// is flushed.
    pub(crate) fn detach_all(&mut self) -> Result<Stop, Violation> {
        if self.run.is_last_life() {
            for number in 0..self.disks.len() {
                self.start_destage(number);
            }
            if self.drive("the last destage", Self::is_settled)? == Stop::Crashed {
                return Ok(Stop::Crashed);
            }
        }
        for last in [false, true] {
            for number in 0..self.disks.len() {
                let dirty = match (self.run.settings().back, self.run.is_last_life()) {
                    (None, _) | (Some(_), true) if !last => OfDirty::Refuse,
                    (Some(_), false) if !last => {
                        *pick(self.run.dice(), &[OfDirty::Flush, OfDirty::Keep])
                    }
                    _ => OfDirty::Keep,
                };
                self.start_detach(number, dirty);
            }
            if self.drive("detaching the disks", Self::is_settled)? == Stop::Crashed {
                return Ok(Stop::Crashed);
            }
            if !self.run.settings().goes_back() {
                break;
            }
        }
        Ok(Stop::Reached)
    }

    /// After the last life, in which nothing failed: everything is at the origins.
    pub(crate) fn everything_has_arrived(&self, blamed: bool) -> Result<(), Violation> {
        for (number, disk) in self.disks.iter().enumerate() {
            if self.run.settings().back.is_none() || disk.standing != Standing::Away {
                continue;
            }
            if disk.is_open() && !blamed {
                return Err(Violation::new(
                    "I8",
                    format!(
                        "disk {number} could not be brought to its origin: {:?}",
                        disk.owner
                    ),
                ));
            }
            if !disk.is_open() {
                let now = self.run.current_moment();
                disk.history.origin_has(&disk.held_by_origin(), 0, now)?;
            }
        }
        Ok(())
    }

    /// Now and then an origin goes away, or takes no more writes, for some time.
    pub(crate) fn origin_goes(&mut self) {
        let rate = self.run.settings().back.map_or(0, |back| back.origin_goes);
        if !self.run.one_in(rate) {
            return;
        }
        let count = self.disks.len() as u64;
        let number = usize::try_from(self.run.below(count)).expect("an index");
        let full = self.run.one_in(2);
        let disk = &mut self.disks[number];
        if disk.gone_until.is_some() {
            return;
        }
        let (kind, error) = if full {
            (Kind::Write, IoError::NoSpace)
        } else {
            (Kind::Any, IoError::Failed)
        };
        disk.origin.errors().clear();
        disk.origin.errors().always(kind, Fault::Error(error));
        let span = Duration::from_micros(1 + self.run.below(4_000_000));
        disk.gone_until = Some(self.run.now() + span);
        self.run
            .hit(if full { "origin full" } else { "origin gone" });
        self.run.event(&[23, number as u64], || {
            format!("origin {number} fails for {span}, full: {full}")
        });
    }

    /// An origin that was gone is back.
    pub(crate) fn origin_is_back(&mut self, number: usize) {
        self.disks[number].gone_until = None;
        self.set_origin_faults(number);
    }

    /// Now and then: what would be left of the disks if the flash were gone.
    pub(crate) fn look_now_and_then(&mut self) -> Result<(), Violation> {
        let Some(back) = self.run.settings().back else {
            return Ok(());
        };
        if !self.run.one_in(back.look_rate) {
            return Ok(());
        }
        for disk in &self.disks {
            look_at_origin_alone(disk)?;
        }
        Ok(())
    }
}

/// What is left of a disk if the flash is lost now is a disk that its guest could have left behind.
pub(crate) fn look_at_origin_alone(disk: &Disk) -> Result<(), Violation> {
    if !disk.is_open() || !disk.back.ordered {
        return Ok(());
    }
    disk.history
        .origin_alone(&disk.fates())
        .map_err(|violation| {
            Violation::new(
                violation.invariant,
                format!("of {:?}, {}", disk.id, violation.what),
            )
        })
}
