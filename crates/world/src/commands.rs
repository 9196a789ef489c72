//! What the operator asks of the cache, and what must hold when it is done or refused.

use crate::back::look_at_origin_alone;
use crate::checker::Moment;
use crate::disk::Standing;
use crate::host::Software;
use crate::owner::{attach_again, attach_command, note_tried};
use crate::settings::{Special, pick};
use crate::special::Toy;
use crate::violation::Violation;
use crate::world::World;
use cache::{
    Command, ControlError, ControlId, ControlOutcome, DestageOrder, OfDirty, WriteBack, WritePolicy,
};
use units::{Bytes, SECTOR_BYTES};

/// A command about a disk that is under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Commanded {
    pub number: usize,
    pub what: What,
    issued: Moment,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum What {
    Attach {
        policy: WritePolicy,
        write_back: WriteBack,
        /// The cache may have had bytes of it that the origin lacks.
        was_open: bool,
    },
    /// Shorter than it was when something of it began to wait.
    AttachResized,
    /// It is attached, or about to be, or about to be no more.
    AttachAgain,
    Detach(OfDirty),
    Drop,
    Policy {
        /// Its writes go back already, whatever was asked for: a disk with a log goes back until that
        /// is empty.
        was_back: bool,
        policy: WritePolicy,
    },
    WriteBack(WriteBack),
    Destage {
        back: bool,
    },
    /// Its origin has this many sectors already.
    Grow(u64),
}

impl World {
    /// No control command is under way.
    pub(crate) fn is_settled(&self) -> bool {
        self.controls.values().all(Option::is_some)
    }

    pub(crate) fn control(&mut self, command: Command) -> ControlId {
        let id = ControlId(self.run.next_id());
        self.run
            .event(&[12, id.0], || format!("control {}: {command:?}", id.0));
        self.controls.insert(id, None);
        if let Software::Cache(cache) = &mut self.host.software {
            cache.control(id, command, self.run.now());
        }
        id
    }

    /// A command about a disk; what it means is kept until it ends.
    pub(crate) fn control_disk(&mut self, number: usize, what: What, command: Command) {
        let issued = self.run.next_moment();
        let id = ControlId(self.run.peek_id());
        if !matches!(command, Command::Attach { .. } | Command::Detach { .. }) {
            note_tried(self, number, &command);
        }
        self.commanded.insert(
            id,
            Commanded {
                number,
                what,
                issued,
            },
        );
        let given = self.control(command);
        assert_eq!(id, given, "ids are given in order");
    }

    /// The policy that the cache says a disk has.
    pub(crate) fn policy_now(&self, number: usize) -> Option<WritePolicy> {
        let slot = self.disks[number].slot()?;
        match &self.host.software {
            Software::Cache(cache) => cache.policy_of(slot),
            Software::Down | Software::Recovery(_) => None,
        }
    }

    /// A disk that was never under write-back has no record, and only its fingerprint tells a cache
    /// that another one had it; which it has from a clean detach. The operator has to keep it where
    /// it is.
    pub(crate) fn belongs_elsewhere(&self, number: usize) -> bool {
        let disk = &self.disks[number];
        disk.owner.is_none() && disk.home.is_some_and(|home| home != self.device.uuid())
    }

    pub(crate) fn start_attach(&mut self, number: usize) {
        if self.disks[number].standing != Standing::Away || self.belongs_elsewhere(number) {
            return;
        }
        let policy = self.draw_policy(number);
        let write_back = self.draw_write_back();
        let tenant = self.tenant_name(number);
        let key = self.draw_key(number);
        let id = ControlId(self.run.peek_id());
        let disk = &mut self.disks[number];
        disk.origin.late_mut().session_begins();
        disk.back.dropping = false;
        disk.key_coming = key;
        if let Software::Cache(cache) = &mut self.host.software {
            cache.set_cipher(disk.id, key.map(|key| Box::new(Toy(key)) as _));
        }
        let mut size = disk.size();
        let mut what = What::Attach {
            policy,
            write_back,
            was_open: disk.is_open(),
        };
        // An origin that was cut short behind the cache's back.
        if disk.is_open()
            && disk.settings.sectors > 8
            && !self.run.is_last_life()
            && self.run.one_in(15)
        {
            self.run.hit("attached with a shorter origin");
            what = What::AttachResized;
            size = if self.run.one_in(2) {
                Bytes::kib(4)
            } else {
                size - Bytes::kib(4)
            };
        }
        let mut command = attach_command(self, number, policy, write_back, tenant);
        if let Command::Attach { size: of, .. } = &mut command {
            *of = size;
        }
        note_tried(self, number, &command);
        // The command may be answered at once, and says where the disk is then.
        self.disks[number].standing = Standing::Attaching(id);
        self.control_disk(number, what, command);
    }

    pub(crate) fn start_detach(&mut self, number: usize, dirty: OfDirty) {
        let Standing::Served(slot) = self.disks[number].standing else {
            return;
        };
        let fingerprint = self.disks[number].fingerprint();
        let id = ControlId(self.run.peek_id());
        let command = Command::Detach {
            disk: slot,
            fingerprint,
            dirty,
        };
        note_tried(self, number, &command);
        let disk = &mut self.disks[number];
        disk.standing = Standing::Detaching(id, slot);
        disk.back.dropping = dirty == OfDirty::Drop;
        self.control_disk(number, What::Detach(dirty), command);
    }

    /// Everything that was acknowledged is to reach the origin.
    pub(crate) fn start_destage(&mut self, number: usize) {
        let Standing::Served(disk) = self.disks[number].standing else {
            return;
        };
        let back = self.policy_now(number) == Some(WritePolicy::Back);
        self.control_disk(number, What::Destage { back }, Command::Destage { disk });
    }

    /// The operator does something with some disk.
    pub(crate) fn command(&mut self) -> Result<(), Violation> {
        let count = self.disks.len() as u64;
        let number = usize::try_from(self.run.below(count)).expect("an index");
        let kinds = match self.run.special() {
            Special::Pestered => 9,
            _ if self.run.settings().goes_back() => 8,
            _ => 4,
        };
        let favourite = self.run.special().favourite_command();
        let which = match favourite {
            _ if self.run.settings().only_drops => 1,
            Some(favourite) if self.run.one_in(2) => favourite,
            _ => self.run.below(kinds),
        };
        match (which, self.disks[number].standing) {
            (0 | 4, Standing::Served(disk)) => self.start_policy(number, disk),
            (1, Standing::Served(disk)) => {
                self.run.hit("drop");
                self.control_disk(number, What::Drop, Command::Drop { disk });
            }
            (2, Standing::Served(_)) if !self.is_growing(number) => {
                self.run.hit("detach");
                let dirty = self.draw_of_dirty();
                self.start_detach(number, dirty);
            }
            (3, Standing::Served(disk)) => self.start_growing(number, disk),
            (5, Standing::Served(disk)) => {
                let write_back = self.draw_write_back();
                if write_back.order == DestageOrder::Unordered {
                    self.disks[number].back.ordered = false;
                }
                let command = Command::SetWriteBack { disk, write_back };
                self.control_disk(number, What::WriteBack(write_back), command);
            }
            (6 | 7, Standing::Served(_)) => self.start_destage(number),
            (_, Standing::Away) => {
                self.run.hit("attach while running");
                self.strangers_write();
                self.start_attach(number);
            }
            _ if self.run.special() == Special::Pestered => attach_again(self, number)?,
            _ => {}
        }
        if self.run.special() == Special::Pestered {
            // A disk may be longer now, of which the next request must know.
            self.carry_out_effects()?;
        }
        Ok(())
    }

    /// A disk that was made shorter before it was attached becomes longer again.
    fn start_growing(&mut self, number: usize, slot: units::DiskSlot) {
        let disk = &self.disks[number];
        let (sectors, most) = (disk.settings.sectors, disk.sectors_most() / 8);
        if !sectors.is_multiple_of(8) || sectors / 8 >= most {
            return;
        }
        let grown = sectors + 8 * (1 + self.run.below(most - sectors / 8));
        let size = Bytes::new(grown * SECTOR_BYTES);
        let command = Command::Grow { disk: slot, size };
        self.control_disk(number, What::Grow(grown), command);
    }

    /// Whether the cache may or may not know that a disk is longer.
    fn is_growing(&self, number: usize) -> bool {
        let grows = |command: &Commanded| matches!(command.what, What::Grow(_));
        let mut all = self.commanded.values();
        all.any(|command| command.number == number && grows(command))
    }

    /// The life ends with commands under way.
    pub(crate) fn abandon_commands(&mut self) {
        self.controls.clear();
        for (_, commanded) in std::mem::take(&mut self.commanded) {
            if let What::Grow(sectors) = commanded.what {
                self.disks[commanded.number].settings.sectors = sectors;
            }
        }
    }

    fn start_policy(&mut self, number: usize, disk: units::DiskSlot) {
        let policy = if self.run.settings().goes_back() {
            let among = [WritePolicy::Through, WritePolicy::Around, WritePolicy::Back];
            *pick(self.run.dice(), &among)
        } else {
            *pick(
                self.run.dice(),
                &[WritePolicy::Through, WritePolicy::Around],
            )
        };
        let was_back =
            self.policy_now(number) == Some(WritePolicy::Back) || self.disks[number].is_open();
        let what = What::Policy { was_back, policy };
        self.control_disk(number, what, Command::SetPolicy { disk, policy });
    }

    /// A command has ended.
    pub(crate) fn command_ended(
        &mut self,
        id: ControlId,
        result: Result<ControlOutcome, ControlError>,
    ) -> Result<(), Violation> {
        let Some(commanded) = self.commanded.remove(&id) else {
            return Ok(());
        };
        match result {
            Ok(outcome) => self.command_done(commanded, outcome),
            Err(error) => self.command_refused(commanded, error),
        }
    }

    fn command_done(
        &mut self,
        commanded: Commanded,
        outcome: ControlOutcome,
    ) -> Result<(), Violation> {
        let Commanded {
            number,
            what,
            issued,
        } = commanded;
        let now = self.run.next_moment();
        match what {
            What::Attach {
                policy,
                write_back,
                was_open,
            } => self.attached(number, outcome, policy, write_back, was_open),
            What::AttachAgain => Err(Violation::new(
                "commands",
                format!("disk {number} is attached twice"),
            )),
            What::AttachResized => Err(Violation::new(
                "commands",
                format!("disk {number} is served shorter than what waits of it"),
            )),
            What::Detach(dirty) => self.detached(number, dirty),
            What::Policy { was_back, policy } => {
                let disk = &mut self.disks[number];
                let is_open = disk.is_open();
                // Without flash it is a name only, and nothing is flushed for it.
                if policy == WritePolicy::Back && !was_back && is_open {
                    self.run.hit("policy: to back");
                    disk.history.barrier(issued, now);
                    disk.back.begin(now);
                } else if was_back && policy != WritePolicy::Back {
                    self.run.hit("policy: from back");
                    disk.back.ordered = false;
                    return disk.must_be_closed("the policy was changed");
                }
                Ok(())
            }
            What::WriteBack(write_back) => {
                let back = &mut self.disks[number].back;
                if back.rules.order != write_back.order {
                    back.order_since = now;
                }
                back.rules = write_back;
                Ok(())
            }
            What::Grow(sectors) => {
                self.run.hit("grown while served");
                self.disks[number].settings.sectors = sectors;
                Ok(())
            }
            What::Drop | What::Destage { back: false } => Ok(()),
            What::Destage { back: true } => {
                self.run.hit("destaged");
                let disk = &mut self.disks[number];
                disk.origin_has(issued)?;
                disk.history.durable_before(issued);
                let ordered = disk.back.rules.order == DestageOrder::Ordered;
                if ordered && issued >= disk.back.order_since {
                    disk.back.ordered = true;
                }
                Ok(())
            }
        }
    }

    fn attached(
        &mut self,
        number: usize,
        outcome: ControlOutcome,
        policy: WritePolicy,
        write_back: WriteBack,
        was_open: bool,
    ) -> Result<(), Violation> {
        let ControlOutcome::Attached {
            disk: slot,
            dropped,
            ..
        } = outcome
        else {
            return Err(Violation::new(
                "commands",
                format!("an attach ended as {outcome:?}"),
            ));
        };
        self.judge_attached(number)?;
        if dropped.is_some() {
            self.run.hit("stranger noticed");
        }
        let now = self.run.current_moment();
        let uuid = self.device.uuid();
        let disk = &mut self.disks[number];
        disk.home = Some(uuid);
        disk.key = disk.key_coming;
        disk.may_be_written_by_strangers = false;
        disk.size_is_known = true;
        disk.readers.clear();
        disk.standing = Standing::Served(slot);
        let ordered = disk.back.ordered;
        disk.back.rules = write_back;
        disk.back.begin(now);
        if was_open {
            disk.back.ordered &= ordered;
            self.run.hit("attached with what waits");
            self.nothing_is_dirty_again(number, slot)?;
        } else if policy != WritePolicy::Back {
            disk.back.ordered = false;
        }
        Ok(())
    }

    /// What waits on flash after a start was accepted, and the origin was not known to have it.
    fn nothing_is_dirty_again(
        &mut self,
        number: usize,
        slot: units::DiskSlot,
    ) -> Result<(), Violation> {
        let Some(status) = self.write_back_of(number) else {
            return Ok(());
        };
        let most = self.device.logged_most(slot);
        if status.logged > most && !self.device.is_suspect() {
            return Err(Violation::new(
                "dirty again",
                format!(
                    "{} of disk {number} wait after a start, and {most} can",
                    status.logged
                ),
            ));
        }
        Ok(())
    }

    fn detached(&mut self, number: usize, dirty: OfDirty) -> Result<(), Violation> {
        let disk = &mut self.disks[number];
        disk.standing = Standing::Away;
        disk.untold_loss = None;
        match dirty {
            OfDirty::Refuse | OfDirty::Flush => disk.must_be_closed("the disk was detached")?,
            OfDirty::Keep if disk.is_open() => self.run.hit("detached with what waits"),
            OfDirty::Keep => {}
            OfDirty::Drop => {
                disk.must_be_closed("what waited was dropped")?;
                self.run.hit("detached without what waited");
                self.go_on_from_origin(number)?;
                self.disks[number].back.dropping = false;
            }
        }
        let disk = &mut self.disks[number];
        disk.may_be_written_by_strangers = disk.settings.fingerprint && !disk.is_open();
        Ok(())
    }

    fn command_refused(
        &mut self,
        commanded: Commanded,
        error: ControlError,
    ) -> Result<(), Violation> {
        let number = commanded.number;
        if !matches!(commanded.what, What::AttachResized) {
            self.judge_refusal(number, error)?;
        }
        match (commanded.what, self.disks[number].standing) {
            (What::AttachResized, _) => self.disks[number].standing = Standing::Away,
            (What::Attach { .. }, _) => {
                self.disks[number].standing = Standing::Away;
                self.after_refused_attach(number, error)?;
            }
            (What::Detach(dirty), Standing::Detaching(_, slot)) => {
                self.disks[number].standing = Standing::Served(slot);
                self.disks[number].back.dropping = false;
                // What waited is thrown away when that is recorded, and the detach may fail after it.
                if dirty == OfDirty::Drop && !self.disks[number].is_open() {
                    self.go_on_from_origin(number)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn after_refused_attach(
        &mut self,
        number: usize,
        error: ControlError,
    ) -> Result<(), Violation> {
        match error {
            ControlError::Elsewhere { .. }
            | ControlError::Lost { .. }
            | ControlError::Unrecorded { .. }
            | ControlError::OriginChanged
            | ControlError::Locked(_) => {
                look_at_origin_alone(&self.disks[number])?;
                if self.run.is_last_life() || self.run.one_in(2) {
                    self.give_up_what_waits(number)
                } else {
                    self.disks[number].back.given_up = true;
                    Ok(())
                }
            }
            _ => Ok(()),
        }
    }
}
