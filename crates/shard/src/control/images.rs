//! What other threads say to a shard about base images whose caches follow their VMs.

use super::{Roaming, ShardHandle};
use crate::error::{Reply, ShardError};
use crate::standbys::StandbyTell;
use borrowing::Manner;
use cache::{Borrowed, LoanRequest};
use units::{Bytes, DiskId, Offset};

/// An image that is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttachedImage {
    /// Which attachment of it is the last one: the next one may have other bytes.
    pub attachment: u64,
    /// Its size.
    pub size: Bytes,
    /// What its origin is known by now, if it is a file.
    pub fingerprint: Option<u128>,
}

/// What is said about an image.
pub(crate) enum OfImage {
    Follow(StandbyTell),
    Describe(Reply<AttachedImage>),
    Read {
        attachment: u64,
        at: (Offset, Bytes),
        reply: Reply<Vec<u8>>,
    },
    Lend {
        attachment: u64,
        request: LoanRequest,
        reply: Reply<Borrowed<Vec<u8>>>,
    },
    Begin(Manner),
}

impl OfImage {
    pub(super) fn refuse(self, error: ShardError) {
        match self {
            Self::Describe(reply) => reply(Err(error)),
            Self::Read { reply, .. } => reply(Err(error)),
            Self::Lend { reply, .. } => reply(Err(error)),
            Self::Follow(_) | Self::Begin(_) => {}
        }
    }
}

/// Says to a shard what concerns one base image whose cache follows its VMs.
pub struct ImageHandle<'a> {
    shard: &'a ShardHandle,
    disk: DiskId,
}

impl<'a> ImageHandle<'a> {
    /// Of an image of this shard.
    pub fn of(shard: &'a ShardHandle, disk: DiskId) -> Self {
        Self { shard, disk }
    }

    /// The image may borrow from its next attachment on; what it needs for that is told.
    pub fn follow(&self, tell: StandbyTell) {
        self.say(OfImage::Follow(tell));
    }

    /// What the image is like that is attached.
    pub fn describe(&self, reply: Reply<AttachedImage>) {
        self.say(OfImage::Describe(reply));
    }

    /// Reads the image as it was attached then.
    pub fn read(&self, attachment: u64, at: (Offset, Bytes), reply: Reply<Vec<u8>>) {
        self.say(OfImage::Read {
            attachment,
            at,
            reply,
        });
    }

    /// Reads for another host what is cached of the image as it was attached then.
    pub fn lend(&self, attachment: u64, request: LoanRequest, reply: Reply<Borrowed<Vec<u8>>>) {
        self.say(OfImage::Lend {
            attachment,
            request,
            reply,
        });
    }

    /// Another host that has the same image is asked so from now on, until [`ShardHandle::borrow`] ends it. Nothing is listed
    /// yet.
    pub fn begin(&self, manner: Manner) {
        self.say(OfImage::Begin(manner));
    }

    fn say(&self, what: OfImage) {
        self.shard.about_roaming(self.disk, Roaming::Image(what));
    }
}
