//! What a command may be refused for, and what follows from it: every refusal needs a reason in the world.

use super::{Commanded, What};
use crate::attachment::Standing;
use crate::context::Context;
use crate::violation::Violation;
use cache::{ControlError, OfDirty};
use units::Bytes;

/// A command about a disk was refused.
///
/// # Errors
/// A violation if there is no reason for it, or if what is left is no disk that its guest could have left.
pub(super) fn refused(
    commanded: Commanded,
    error: ControlError,
    cx: &mut Context,
) -> Result<(), Violation> {
    let number = commanded.number;
    if !matches!(commanded.what, What::AttachResized) {
        judge(number, error, cx)?;
    }
    let attachment = cx.process.disk_mut(number);
    match (commanded.what, attachment.standing()) {
        (What::AttachResized, _) => attachment.set_away(),
        (What::Attach { .. }, _) => {
            attachment.set_away();
            after_refused_attach(number, error, cx)?;
        }
        (What::Detach(dirty), Standing::Detaching(slot)) => {
            attachment.stay(slot);
            // What waited is thrown away when that is recorded, and the detach may fail after it.
            if dirty == OfDirty::Drop && !cx.disks[number].is_open() {
                cx.disks[number].go_on_from_origin(cx.run)?;
            }
        }
        _ => {}
    }
    Ok(())
}

fn after_refused_attach(
    number: usize,
    error: ControlError,
    cx: &mut Context,
) -> Result<(), Violation> {
    match error {
        ControlError::Elsewhere { .. }
        | ControlError::Lost { .. }
        | ControlError::Unrecorded { .. }
        | ControlError::OriginChanged
        | ControlError::Locked(_) => {
            let disk = &mut cx.disks[number];
            disk.judge_origin_alone()?;
            if cx.run.is_last_life() || cx.run.one_in(2) {
                disk.give_up_what_waits(cx.run)
            } else {
                cx.process.disk_mut(number).give_up();
                Ok(())
            }
        }
        _ => Ok(()),
    }
}

/// Whether a command about a disk may be refused so.
fn judge(number: usize, error: ControlError, cx: &mut Context) -> Result<(), Violation> {
    let disk = &cx.disks[number];
    let owner = disk.owner();
    let suspect = cx.flash_is_suspect();
    let ours = owner.is_some_and(|owner| owner.cache == cx.device.uuid());
    let is_bypassed = cx.process.is_bypassed();
    let key_coming = cx.process.disk(number).key_coming();
    let (mark, may) = match error {
        ControlError::AlreadyAttached
        | ControlError::NotAttached
        | ControlError::UnsupportedSize
        | ControlError::TooManyDisks
        | ControlError::TooManyTenants
        | ControlError::NotShared
        | ControlError::OnlyGrows
        | ControlError::Shared
        | ControlError::Busy
        | ControlError::RecordsMissing
        | ControlError::LogFull
        | ControlError::RetirementOpen => return Ok(()),
        ControlError::UnalignedSize => ("refused: size", !disk.can_go_back()),
        // Only an attach with another size on purpose may be told this, and is not judged here.
        ControlError::SizeChanged => ("refused: size changed", false),
        // Strangers leave an origin alone of which a cache has newer bytes. But flash that failed
        // while a disk was being detached has the fingerprint of before what it gave to the origin
        // afterwards, and so has an old copy.
        ControlError::OriginChanged => ("refused: origin changed", suspect),
        ControlError::OtherKey => (
            "refused: other key",
            disk.is_open() && disk.key() != key_coming,
        ),
        ControlError::NoWriteBack => (
            "refused: no write-back",
            disk.settings().read_only || is_bypassed,
        ),
        ControlError::FlashLate => {
            let late = cx
                .process
                .cache()
                .is_some_and(|cache| cache.facts().is_in_doubt());
            ("refused: flash late", late)
        }
        ControlError::Dirty { bytes } => ("refused: dirty", disk.is_open() && bytes > Bytes::ZERO),
        ControlError::Elsewhere { record } => (
            "refused: elsewhere",
            owner == Some(record) && record.open && (!ours || is_bypassed),
        ),
        ControlError::Lost { record } => (
            "refused: lost",
            owner == Some(record) && record.open && ours && suspect,
        ),
        // Of a scrub, which is about no disk.
        ControlError::NoFlash => ("refused: no flash", false),
        ControlError::Unrecorded { .. } => ("refused: unrecorded", suspect),
        ControlError::Locked(_) => ("refused: locked", suspect),
        ControlError::NotRecorded => {
            let back = cx.run.settings().back;
            let may = back.is_some_and(|back| back.own_fails > 0);
            ("refused: not recorded", may)
        }
        ControlError::Origin(_) => ("refused: origin", cx.run.settings().origins_fail()),
    };
    cx.run.hit(mark);
    if may {
        return Ok(());
    }
    Err(Violation::new(
        "commands",
        format!(
            "a command about disk {number} was refused with {error:?}; its owner's record: {owner:?}"
        ),
    ))
}
