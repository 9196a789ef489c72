//! What guests say of their disks, passed on to the shard that serves them.

use super::{Message, ShardHandle};
use crate::error::{Reply, ShardError};
use crate::guest_tell::GuestTell;
use cache::Hint;
use units::{Bytes, DiskId, Offset};

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
    pub(crate) fn refuse(self, error: ShardError) {
        match self {
            Self::Forget(reply) | Self::Listen { reply, .. } | Self::Unused { reply, .. } => {
                reply(Err(error));
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
        self.shard.line.send(Message::Guest { disk, what });
    }
}
