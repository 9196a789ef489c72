//! What guests say of their disks, passed on to the shard that serves them.

use super::{Message, ShardHandle};
use crate::disks::Disks;
use crate::error::{Reply, ShardError};
use cache::{Cache, ControlError, Hint};
use units::{Bytes, DiskId, Offset};

/// Tells a guest what is in memory because it will be read: the first byte and the number of bytes. Called on the shard's
/// thread, so it should do no more than pass that on.
pub type GuestTell = Box<dyn Fn(Offset, Bytes) + Send>;

/// What a guest says of a disk.
pub(crate) enum OfGuest {
    /// It reads ahead what it is told of from now on, or does so no longer.
    Listen {
        tell: Option<GuestTell>,
        reply: Reply<()>,
    },
    /// Of what it has read because it was told, it has not used so much.
    Unused { bytes: Bytes, reply: Reply<()> },
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
    /// Tells the cache what the guest of a disk says.
    pub(crate) fn tell(self, cache: &mut Cache, disks: &mut Disks, disk: DiskId) {
        let disk = match disks.serving(disk) {
            Ok(disk) => disk,
            Err(error) => return self.refuse(error),
        };
        match self {
            Self::Listen { tell, reply } => {
                cache.set_listening(disk, tell.is_some());
                if let Some(disk) = disks.get_mut(disk) {
                    disk.set_guest(tell);
                }
                reply(Ok(()));
            }
            Self::Unused { bytes, reply } => {
                cache.unused_by_guest(disk, bytes);
                reply(Ok(()));
            }
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
            Self::Forget(reply) | Self::Listen { reply, .. } | Self::Unused { reply, .. } => {
                reply(Err(error))
            }
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

    /// The guest reads ahead what it is told of from now on, until another one listens or nobody does. A base image has no
    /// guest of its own: nobody is told of what is expected of it.
    pub fn listen(&self, tell: Option<GuestTell>, reply: Reply<()>) {
        self.say(OfGuest::Listen { tell, reply });
    }

    /// The guest has not used so much of what it has read because it was told.
    pub fn unused(&self, bytes: Bytes, reply: Reply<()>) {
        self.say(OfGuest::Unused { bytes, reply });
    }

    fn say(&self, what: OfGuest) {
        let disk = self.disk;
        self.shard.send(Message::Guest { disk, what });
    }
}
