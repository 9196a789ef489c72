//! How other threads change what becomes of a disk that is being detached.

use super::{Message, ShardHandle};
use crate::error::Reply;
use units::DiskId;

/// A shard, for who changes how its disks are detached.
#[derive(Debug)]
pub struct DetachHandle<'a>(&'a ShardHandle);

impl<'a> DetachHandle<'a> {
    /// Of this shard.
    pub fn of(shard: &'a ShardHandle) -> Self {
        Self(shard)
    }

    /// Another host may have the origin of a disk that is being detached: what is still to be brought there stays on
    /// flash, and whoever detaches the disk hears [`FlushGivenUp`](crate::ShardError::FlushGivenUp), as `reply` does. If
    /// nothing is to be brought there, `reply` hears [`NoSuchDisk`](crate::ShardError::NoSuchDisk) at once, and nothing
    /// changes.
    pub fn give_up_flush(&self, disk: DiskId, reply: Reply<()>) {
        self.0.line.send(Message::GiveUpFlush { disk, reply });
    }
}
