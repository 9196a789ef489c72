//! What guests say of their disks, passed on to the shard that serves them.

use super::{Message, ShardHandle};
use crate::error::{Reply, ShardError};
use cache::{Cache, ControlError, Hint};
use units::{Bytes, DiskId, DiskSlot, Offset};

/// What a guest says of a disk.
pub(crate) enum OfGuest {
    /// What it has said before no longer counts.
    Forget(Reply<()>),
    /// This of these ranges; the answer tells how many of them were too many.
    Hint {
        hint: Hint,
        ranges: Vec<(Offset, Bytes)>,
        reply: Reply<u64>,
    },
}

impl OfGuest {
    /// Tells the cache, which has the disk in this slot.
    pub(crate) fn tell(self, cache: &mut Cache, disk: Result<DiskSlot, ShardError>) {
        let disk = match disk {
            Ok(disk) => disk,
            Err(error) => return self.refuse(error),
        };
        match self {
            Self::Forget(reply) => {
                cache.forget_hints(disk);
                reply(Ok(()));
            }
            Self::Hint {
                hint,
                ranges,
                reply,
            } => {
                let said = ranges.into_iter().try_fold(0, |too_many, range| {
                    let is_known = cache.hint(disk, range, hint)?;
                    Ok(too_many + u64::from(!is_known))
                });
                reply(said.map_err(|error: ControlError| error.into()));
            }
        }
    }

    pub(super) fn refuse(self, error: ShardError) {
        match self {
            Self::Forget(reply) => reply(Err(error)),
            Self::Hint { reply, .. } => reply(Err(error)),
        }
    }
}

/// Says to a shard what the guest of one of its disks says.
pub struct GuestHandle<'a> {
    shard: &'a ShardHandle,
    disk: DiskId,
}

impl<'a> GuestHandle<'a> {
    /// Of a disk of this shard.
    pub fn of(shard: &'a ShardHandle, disk: DiskId) -> Self {
        Self { shard, disk }
    }

    /// The guest begins anew: what it has said of the disk no longer counts.
    pub fn forget(&self, reply: Reply<()>) {
        self.say(OfGuest::Forget(reply));
    }

    /// The guest says this of ranges of the disk, which may be anything. The answer tells how many were beyond what a VM
    /// may say; a base image is refused.
    pub fn hint(&self, hint: Hint, ranges: Vec<(Offset, Bytes)>, reply: Reply<u64>) {
        self.say(OfGuest::Hint {
            hint,
            ranges,
            reply,
        });
    }

    fn say(&self, what: OfGuest) {
        let disk = self.disk;
        self.shard.send(Message::Guest { disk, what });
    }
}
