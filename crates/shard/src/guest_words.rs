//! What the guest of a disk says, told to the cache.

use crate::control::OfGuest;
use crate::disks::Disks;
use cache::{Cache, ControlError};
use units::DiskId;

/// Tells the cache, if the disk is served here.
pub(crate) fn tell(what: OfGuest, cache: &mut Cache, disks: &mut Disks, disk: DiskId) {
    let slot = match disks.serving(disk) {
        Ok(slot) => slot,
        Err(error) => return what.refuse(error),
    };
    let mut guest = cache.guest(slot);
    match what {
        OfGuest::Listen { tell, reply } => {
            guest.set_listening(tell.is_some());
            if let Some(disk) = disks.get_mut(slot) {
                disk.set_guest(tell);
            }
            reply(Ok(()));
        }
        OfGuest::Unused { bytes, reply } => {
            guest.unused(bytes);
            reply(Ok(()));
        }
        OfGuest::Forget(reply) => {
            guest.forget_hints();
            reply(Ok(()));
        }
        OfGuest::Hint {
            hint,
            ranges,
            reply,
        } => {
            let said = ranges.into_iter().try_fold(0, |too_many, range| {
                let is_known = guest.hint(range, hint)?;
                Ok(too_many + u64::from(!is_known))
            });
            reply(said.map_err(|error: ControlError| error.into()));
        }
    }
}
