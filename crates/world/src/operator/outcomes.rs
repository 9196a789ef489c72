//! What must hold when a command has ended well.

use super::{Commanded, Operator, What};
use crate::context::Context;
use crate::violation::Violation;
use cache::{ControlError, ControlId, ControlOutcome, OfDirty, WriteBack, WritePolicy};
use units::DiskSlot;

impl Operator {
    /// The cache has answered a command.
    ///
    /// # Errors
    /// What does not hold that must.
    pub(crate) fn answered(
        &mut self,
        id: ControlId,
        result: Result<ControlOutcome, ControlError>,
        cx: &mut Context,
    ) -> Result<(), Violation> {
        let name = format!("{result:?}");
        cx.run.event(&[4, id.0, name.len() as u64], || {
            format!("control {} done: {name}", id.0)
        });
        match self.answered.get_mut(&id) {
            Some(answered @ false) => *answered = true,
            _ => {
                return Err(Violation::new(
                    "I8",
                    format!("control {} was answered without being open", id.0),
                ));
            }
        }
        let Some(commanded) = self.commanded.remove(&id) else {
            return Ok(());
        };
        match result {
            Ok(outcome) => done(commanded, outcome, cx),
            Err(error) => super::refusals::refused(commanded, error, cx),
        }
    }
}

fn done(commanded: Commanded, outcome: ControlOutcome, cx: &mut Context) -> Result<(), Violation> {
    let Commanded {
        number,
        what,
        issued,
    } = commanded;
    let now = cx.run.next_moment();
    let disk = &mut cx.disks[number];
    match what {
        What::Attach {
            policy,
            write_back,
            was_open,
        } => attached(number, outcome, policy, write_back, was_open, cx),
        What::AttachAgain => Err(Violation::new(
            "commands",
            format!("disk {number} is attached twice"),
        )),
        What::AttachResized => Err(Violation::new(
            "commands",
            format!("disk {number} is served shorter than what waits of it"),
        )),
        What::Detach(dirty) => detached(number, dirty, cx),
        What::Policy { was_back, policy } => {
            // Without flash it is a name only, and nothing is flushed for it.
            if policy == WritePolicy::Back && !was_back && disk.is_open() {
                cx.run.hit("policy: to back");
                disk.history_mut().barrier(issued, now);
                disk.write_back_mut().begin(now);
            } else if was_back && policy != WritePolicy::Back {
                cx.run.hit("policy: from back");
                disk.write_back_mut().out_of_order();
                return disk.must_be_closed("the policy was changed");
            }
            Ok(())
        }
        What::WriteBack(rules) => {
            disk.write_back_mut().change_rules(rules, now);
            Ok(())
        }
        What::Grow(sectors) => {
            cx.run.hit("grown while served");
            disk.grow(sectors);
            Ok(())
        }
        What::Drop | What::Destage { back: false } => Ok(()),
        What::Destage { back: true } => {
            cx.run.hit("destaged");
            disk.destaged(issued)
        }
    }
}

fn attached(
    number: usize,
    outcome: ControlOutcome,
    policy: WritePolicy,
    write_back: WriteBack,
    was_open: bool,
    cx: &mut Context,
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
    let uuid = cx.device.uuid();
    let disk = &mut cx.disks[number];
    if disk.is_open() && !disk.is_open_to(uuid) {
        let what = format!(
            "disk {number} is served, and {:?} may have what its origin lacks",
            disk.owner()
        );
        return Err(Violation::new("I5", what));
    }
    if dropped.is_some() {
        cx.run.hit("stranger noticed");
    }
    let now = cx.run.current_moment();
    let attachment = cx.process.disk_mut(number);
    disk.attached(uuid, attachment.key_coming());
    attachment.attached(slot);
    let is_back = policy == WritePolicy::Back;
    disk.write_back_mut()
        .attached(write_back, was_open, is_back, now);
    if was_open {
        cx.run.hit("attached with what waits");
        nothing_is_dirty_again(number, slot, cx)?;
    }
    Ok(())
}

/// What waits on flash after a start was accepted, and the origin was not known to have it.
fn nothing_is_dirty_again(number: usize, slot: DiskSlot, cx: &Context) -> Result<(), Violation> {
    let Some(status) = cx.process.write_back_of(number) else {
        return Ok(());
    };
    let most = cx.device.logged_most(slot);
    if status.logged > most && !cx.device.is_suspect() {
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

fn detached(number: usize, dirty: OfDirty, cx: &mut Context) -> Result<(), Violation> {
    let attachment = cx.process.disk_mut(number);
    attachment.set_away();
    attachment.tell_of_loss();
    let disk = &mut cx.disks[number];
    match dirty {
        OfDirty::Refuse | OfDirty::Flush => disk.must_be_closed("the disk was detached")?,
        OfDirty::Keep if disk.is_open() => cx.run.hit("detached with what waits"),
        OfDirty::Keep => {}
        OfDirty::Drop => {
            disk.must_be_closed("what waited was dropped")?;
            cx.run.hit("detached without what waited");
            disk.go_on_from_origin(cx.run)?;
            attachment.dropped();
        }
    }
    disk.detached();
    Ok(())
}
